"""The configuration of a collector that is a client of a plain MQTT broker."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cloud_ingest.collector.broker_session import SessionSettings
from gateway.certificates import credentials
from gateway.configuration import checks
from gateway.configuration.config import ConfigError, LogSection
from gateway.configuration.toml_file import Fault, hold
from gateway.mqtt import FilterError, Version, check_topic_filter
from tree_handler.errors import ProtocolError
from tree_handler.members.member import check_name

PASSWORD = "hedgerow-broker-password"  # noqa: S105  # a credential's name


@dataclass(frozen=True, slots=True)
class OriginSection:
    """Whose messages they are in spool and tables, and where the spool is.

    ``id`` is like a gateway's, and no gateway's or other collector's of the same tables.
    ``keeps_for`` names jobs: what their tables do not have yet is not trimmed.
    """

    id: str
    spool_dir: Path
    keeps_for: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            check_name("id", self.id)
        except ProtocolError as error:
            raise ConfigError("id", str(error)) from error


@dataclass(frozen=True, slots=True)
class BrokerSection:
    """Which broker, what of it, and as whom.

    With ``ca_file`` the connection is in TLS, and the broker's certificate has to fit ``host``.
    ``password_file`` has the password in its first line; systemd's credential
    ``hedgerow-broker-password`` serves as well.
    """

    host: str
    topics: list[str]
    port: int = 1883
    version: str = checks.chosen("5.0", "5.0", "3.1.1")
    client_id: str = ""
    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
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
        if (self.certificate_file is None) != (self.key_file is None):
            yield Fault("certificate_file", "certificate_file and key_file go together")
        if self.certificate_file is not None and self.ca_file is None:
            yield Fault("ca_file", "missing: a certificate is shown in TLS alone")
        if self.password_file is not None and not self.user:
            yield Fault("user", "missing, and there is a password")


@dataclass(frozen=True, slots=True)
class BrokerCollectorSettings:
    """The whole configuration."""

    collector: OriginSection
    broker: BrokerSection
    log: LogSection = field(
        default_factory=lambda: LogSection(durability="sync", max_bytes=64 << 30)
    )

    def session(self) -> SessionSettings:
        """What the session at the broker is begun with."""
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
        if not own.user:
            return None, None
        try:
            return own.user, credentials.password(own.password_file, PASSWORD)
        except credentials.CredentialError as error:
            raise ConfigError("broker.password_file", str(error)) from error

    def tls(self) -> ssl.SSLContext | None:
        """What the connection is made with, of files as they are now; None without TLS.

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
            raise ConfigError("broker.ca_file", f"{own.ca_file}: {error}") from error
        if own.certificate_file is not None:
            try:
                context.load_cert_chain(own.certificate_file, own.key_file, password="")
            except (OSError, ValueError) as error:
                raise ConfigError("broker.certificate_file", str(error)) from error
        return context
