"""The configuration of a collector that is a client of a plain MQTT broker."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field

from cloud_ingest.collector.broker_session import SessionSettings
from cloud_ingest.collector.settings import ClientAccess, OriginSection, spool_log
from gateway.base.remedies import of_pem
from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from gateway.mqtt import FilterError, Version, check_topic_filter
from gateway.process.configuration.config import ConfigError, LogSection

PASSWORD = "hedgerow-broker-password"  # noqa: S105  # a credential's name


@dataclass(frozen=True, slots=True)
class BrokerSection(ClientAccess):
    """The broker, the topics that are collected from it, and the account.

    With ``ca_file`` the connection is in TLS, and the broker's certificate has to fit ``host``.
    ``password_file`` has the password in its first line; systemd's credential
    ``hedgerow-broker-password`` serves as well.
    """

    host: str
    topics: list[str]
    port: int = 1883
    version: str = checks.chosen("5.0", "5.0", "3.1.1")
    client_id: str = ""
    keep_alive_s: int = checks.ranged(60, 5, 65_535)
    session_expiry_s: int = checks.ranged(7 * 86_400, 60, 2**32 - 1)
    receive_maximum: int = checks.ranged(1_000, 1, 65_535)

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.marked(self)
        yield from checks.within("port", self.port, 1, 65_535)
        if not self.topics:
            yield Fault("topics", "names no topic filter")
        for number, topic_filter in enumerate(self.topics):
            try:
                check_topic_filter(topic_filter)
            except FilterError as error:
                yield Fault(f"topics[{number}]", str(error))
        yield from self.access_faults()


@dataclass(frozen=True, slots=True)
class BrokerCollectorSettings:
    """The whole configuration."""

    collector: OriginSection
    broker: BrokerSection
    log: LogSection = field(default_factory=spool_log)

    def session(self) -> SessionSettings:
        """Return what the session at the broker is begun with."""
        own = self.broker
        return SessionSettings(
            own.client_id or self.collector.id,
            own.topics,
            Version.V5 if own.version == "5.0" else Version.V311,
            own.keep_alive_s,
            own.session_expiry_s,
            own.receive_maximum,
        )

    def login(self) -> tuple[str | None, bytes | None]:
        """User and password, read now.

        Raises:
            ConfigError: the password can't be had.

        """
        own = self.broker
        return own.user or None, own.password("broker", PASSWORD)

    def tls(self) -> ssl.SSLContext | None:
        """Return what the connection is made with, of files as they are now; None without TLS.

        Raises:
            ConfigError: a file is not usable.

        """
        own = self.broker
        if own.ca_file is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(own.ca_file)
        except (OSError, ValueError) as error:
            raise ConfigError("broker.ca_file", f"{own.ca_file}: {of_pem(error)}") from error
        if own.certificate_file is not None:
            try:
                context.load_cert_chain(own.certificate_file, own.key_file, password="")
            except (OSError, ValueError) as error:
                why = f"{own.certificate_file}: {of_pem(error)}"
                raise ConfigError("broker.certificate_file", why) from error
        return context
