"""What the broker is told of a gateway's configuration."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.broker.broker import BrokerSettings
from gateway.broker.listeners.listener import Listener
from gateway.broker.listeners.websocket import WebSocketRules
from gateway.config import GatewaySettings


def settings_of_broker(
    settings: GatewaySettings, listened: Mapping[str, tuple[str, ...]]
) -> BrokerSettings:
    """A broker's settings.

    Args:
        settings: the gateway's.
        listened: the addresses of its listeners, by scheme.

    """
    mqtt = settings.mqtt
    return BrokerSettings(
        tuple(Listener(scheme, listened[scheme], port) for scheme, port in mqtt.ports.items()),
        settings.access.anonymous,
        settings.limits,
        WebSocketRules(mqtt.websocket_path, tuple(mqtt.websocket_origins)),
        mqtt.plugins,
        mqtt.sys_interval_s,
    )
