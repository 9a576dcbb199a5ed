"""Settings of the broker, from a gateway's configuration."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gateway.broker.access.plugins import PluginConfigError
from gateway.broker.broker import BrokerSettings
from gateway.broker.durability.store import StoreError
from gateway.broker.limits import Limits
from gateway.broker.listeners.listener import Listener, ListenError
from gateway.broker.listeners.websocket_rules import WebSocketRules
from gateway.log.errors import LogError
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.process.configuration.listener_sections import PORT_FIELDS


@contextmanager
def faults_of_broker() -> Iterator[None]:
    """Raise what keeps a broker from its start as an error of the configuration.

    Raises:
        ConfigError: it names the field.

    """
    try:
        yield
    except PluginConfigError as error:
        raise ConfigError("mqtt.plugins", str(error)) from error
    except (StoreError, LogError) as error:
        raise ConfigError("gateway.state_dir", str(error)) from error
    except ListenError as error:
        where = f"mqtt.{PORT_FIELDS[error.listener.scheme]}"
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError(where, f"{error.address}: {why}") from error


def settings_of_broker(
    settings: GatewaySettings, listened: Mapping[str, tuple[str, ...]], limits: Limits
) -> BrokerSettings:
    """Return a broker's settings.

    Args:
        settings: the gateway's.
        listened: the addresses of its listeners, by scheme.
        limits: the configuration's, as far as there is memory.

    """
    mqtt = settings.mqtt
    return BrokerSettings(
        tuple(
            Listener(
                scheme,
                listened[scheme],
                port,
                tuple(map(ipaddress.ip_network, mqtt.proxies_of(scheme))),
            )
            for scheme, port in mqtt.ports.items()
        ),
        settings.access.anonymous,
        limits,
        WebSocketRules(mqtt.websocket_path, tuple(mqtt.websocket_origins)),
        mqtt.plugins,
        mqtt.sys_interval_s,
    )
