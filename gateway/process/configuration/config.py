"""One TOML file -> typed settings; every error names its field.

The sections are dataclasses: a key of the file is a field of the section, its type is the
field's type. What TOML can't say (names, ranges, files that must exist) is checked here too, so
that a gateway that starts has a configuration that holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from dtls import private_file
from dtls.byte_order_mark import text_of, why_utf_16
from gateway.alerting.section import AlertsSection
from gateway.base.toml import checks
from gateway.base.toml.toml_file import FILES, IS_THE_FILE, ConfigError, Fault, hold, load
from gateway.broker.limits import Limits
from gateway.home_assistant.section import HomeAssistantSection
from gateway.mqtt import FilterError
from gateway.node.links.handshake import MIN_KEY_BYTES
from gateway.node.links.scope import check_filter
from gateway.process.configuration.listener_sections import CoapSection, MqttSection
from gateway.trust.enrolment.section import KeysSection
from light_dataclasses import dataclass
from tree_handler.members.place import Place

__all__ = [
    "AccessSection",
    "CoapSection",
    "ConfigError",
    "ConsoleSection",
    "GatewaySection",
    "GatewaySettings",
    "LogSection",
    "MemorySection",
    "MqttSection",
    "TreeSection",
    "load",
]

MODES = ("flood", "routed", "topic")
"""The ways of clients' messages (C3 to C5)."""
ROOT_POLICIES = ("capacity", "balance")
"""The rules by which the root of an overlay is chosen (C6)."""
SHARED_BY = ("fleet", "gateway")
"""The scopes of a shared subscription: its messages go to one member there."""


@dataclass(frozen=True, slots=True)
class GatewaySection:
    """The identity of this gateway, and its place in the hierarchy and on the map.

    An empty ``domain`` is the root level, an empty ``group`` a domain.
    ``address`` is where others reach it, needed in a tree if it listens on every address. Sensor
    classes of one's own are looked for in ``sensors_dir`` first; without it, beside the
    configuration file. It says how it is every ``status_interval_s`` (docs/monitoring.md), and
    where on the map it stands: ``latitude`` and ``longitude``, degrees of WGS 84.
    """

    id: str
    state_dir: Path
    domain: str = ""
    group: str = ""
    address: str | None = None
    sensors_dir: Path | None = None
    status_interval_s: float = 10.0
    latitude: float | None = checks.ranged(None, -90, 90)
    longitude: float | None = checks.ranged(None, -180, 180)

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.name("id", self.id)
        if self.address is not None:
            yield from checks.address("address", self.address)
        for name in ("domain", "group"):
            if value := getattr(self, name):
                yield from checks.name(name, value)
        if self.group and not self.domain:
            yield Fault("group", f"{self.group!r} is a group without a domain")
        if self.status_interval_s:
            yield from checks.within("status_interval_s", self.status_interval_s, 0.5, 86_400)
        yield from checks.marked(self)
        if (self.latitude is None) != (self.longitude is None):
            missing = "latitude" if self.latitude is None else "longitude"
            yield Fault(missing, "is missing: a place on the map has both, or neither")

    @property
    def place(self) -> Place:
        """Return the gateway's place in the hierarchy (A1)."""
        return Place(self.domain, self.group)


@dataclass(frozen=True, slots=True)
class TreeSection:
    """The spanning tree: how this gateway finds neighbours, and what it sends them.

    ``neighbours`` are ``host:port`` of MQTT listeners: over TLS, unless ``tls`` is "off".
    ``capability`` stands in for the figure measured from the machine (B4). A gateway that is out
    of the tree for ``member_timeout_s`` is taken out of the fleet's records. One that has lost all
    ``neighbours`` for ``substitute_after_s`` (half of ``member_timeout_s`` at most, 0: never) dials
    another of those, and leaves it when a neighbour was back for as long. Clients' messages
    leave this gateway if a filter of ``replicate`` matches their topic and none of
    ``keep_local`` does, and go to whom ``mode`` says: it is the same on all gateways of a tree.
    A message goes to one member of a shared subscription in the whole fleet, or on each gateway,
    as ``shared_subscriptions`` says.
    """

    key_file: Path
    name: str = "hedgerow"
    tls: str = checks.chosen("required", "required", "off")
    signatures: str = checks.chosen("on", "on", "off")
    neighbours: list[str] = field(default_factory=list)
    discovery: bool = True
    discovery_interface: str = "127.0.0.1"
    discovery_interfaces: list[str] = field(default_factory=list)
    discovery_group: str = "239.255.72.71"
    discovery_port: int = 17883
    dns_sd: bool = False
    dial_back: bool = True
    mode: str = checks.chosen("flood", *MODES)
    root_policy: str = checks.chosen("capacity", *ROOT_POLICIES)
    balance_roots: float = checks.ranged(1.0, 0, 1e6)
    balance_clients: float = checks.ranged(0.1, 0, 1e6)
    max_overlays: int = checks.ranged(64, 1, 10_000)
    hello_s: float = checks.ranged(0.5, 0.01, 60)
    capability: float | None = None
    repair_interval_s: float = checks.ranged(5.0, 0.1, 3600)
    member_timeout_s: float = checks.ranged(120.0, 1, 31_536_000)
    substitute_after_s: float = checks.ranged(30.0, 0, 31_536_000)
    replicate: list[str] = field(default_factory=lambda: ["#"])
    keep_local: list[str] = field(default_factory=list)
    shared_subscriptions: str = checks.chosen("fleet", *SHARED_BY)

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.name("name", self.name)
        yield from checks.port("discovery_port", self.discovery_port)
        yield from checks.address("discovery_interface", self.discovery_interface)
        for interface in self.discovery_interfaces:
            yield from checks.address("discovery_interfaces", interface)
        yield from checks.address("discovery_group", self.discovery_group)
        yield from checks.marked(self)
        if self.capability is not None and not 0 < self.capability < math.inf:
            yield Fault("capability", f"{self.capability} is not greater than 0")
        for neighbour in self.neighbours:
            yield from checks.host_and_port("neighbours", neighbour)
        for name in ("replicate", "keep_local"):
            for topic_filter in getattr(self, name):
                try:
                    check_filter(topic_filter)
                except FilterError as error:
                    yield Fault(name, str(error))

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Addresses of the interfaces on which neighbours are looked for."""
        return tuple(self.discovery_interfaces) or (self.discovery_interface,)

    @property
    def has_ways(self) -> bool:
        """Return whether this gateway looks for neighbours itself."""
        return bool(self.neighbours) or self.discovery or self.dns_sd

    def key(self) -> bytes:
        """Return the tree's key, from the file's hexadecimal digits.

        Raises:
            ConfigError: not hexadecimal, too short, or readable by others.

        """
        try:
            data = private_file.read(self.key_file)
        except OSError as error:
            raise ConfigError("tree.key_file", f"{self.key_file}: {error.strerror}") from error
        try:
            key = bytes.fromhex(text_of(data).strip())
        except ValueError as error:
            why = why_utf_16(data) or "not hexadecimal"
            raise ConfigError("tree.key_file", f"{self.key_file}: {why}") from error
        if len(key) < MIN_KEY_BYTES:
            raise ConfigError(
                "tree.key_file", f"{self.key_file}: shorter than {MIN_KEY_BYTES} bytes"
            )
        return key


_MEMORY_LEAST_BYTES = 64 << 20
_LOG_ROOM_BYTES = 64 << 20
"""Room for what comes in while a slow disk takes a checkpoint, so that it is not refused."""


@dataclass(frozen=True, slots=True)
class LogSection:
    """The message log.

    ``durability``: with ``sync`` what is acknowledged survives a power cut, with ``write`` a kill,
    and a power cut but for the last ``sync_interval_ms``.
    """

    durability: str = checks.chosen("sync", "write", "sync")
    sync_interval_ms: int = checks.ranged(1_000, 10, 3_600_000)
    segment_bytes: int = 8 << 20
    max_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        hold(self._faults())

    @property
    def limit_bytes(self) -> int:
        """Return what the log never grows beyond, be there checkpoints or not."""
        return self.max_bytes + max(self.max_bytes, _LOG_ROOM_BYTES)

    def _faults(self) -> Iterator[Fault]:
        yield from checks.marked(self)
        if self.segment_bytes < 4096 or self.max_bytes < 2 * self.segment_bytes:
            yield Fault("max_bytes", "must hold two segments of at least 4096 bytes")


@dataclass(frozen=True, slots=True)
class MemorySection:
    """The memory that the process may have; 0: as the machine says (docs/configuration.md)."""

    limit_bytes: int = 0

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        if self.limit_bytes and self.limit_bytes < _MEMORY_LEAST_BYTES:
            why = f"{self.limit_bytes} is neither 0 nor at least {_MEMORY_LEAST_BYTES}"
            yield Fault("limit_bytes", why)


CONSOLE_PORT: Final = 9641
"""The port that Prometheus is told in docs/monitoring.md."""


@dataclass(frozen=True, slots=True)
class ConsoleSection:
    """The HTTP listener for metrics and health, and with ``web`` for the gateway's page.

    Port 0 takes a free one, printed at start, and so does `CONSOLE_PORT` where something on this
    machine has that one, such as another gateway.
    Who gives no proof asks for it by an address, as ``localhost`` or by one of ``names``.
    With ``certificate_file`` and ``key_file`` it speaks HTTPS. Who shows a certificate of
    ``client_ca_file`` that is not in ``client_crl_file`` needs no password.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = CONSOLE_PORT
    web: bool = False
    names: list[str] = field(default_factory=list)
    certificate_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    client_crl_file: Path | None = None

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.address("host", self.host)
        if self.web and not self.enabled:
            yield Fault("web", "of no use while enabled is false")
        yield from checks.port("port", self.port)
        if self.names:
            yield from checks.hosts("names", self.names)
        needs = ("certificate_file", "key_file"), ("key_file", "certificate_file")
        for name, other in (
            *needs,
            ("client_ca_file", "certificate_file"),
            ("client_crl_file", "client_ca_file"),
        ):
            if getattr(self, name) is not None and getattr(self, other) is None:
                yield Fault(other, f"missing, and {name} is given")


@dataclass(frozen=True, slots=True)
class AccessSection:
    """The rules for who may connect to the broker, and what for.

    With ``anonymous`` clients need no user name; unless a policy with a version says what strangers
    may, it also opens CoAP and the console, and without a ``policy_file`` all topics.
    ``default_roles`` have those who have given proof and whom the policy gives no role. With
    ``client_ids`` "user" a client of the broker calls itself as its user, or NAME:ANYTHING.
    """

    anonymous: bool = False
    password_file: Path | None = None
    policy_file: Path | None = None
    default_roles: list[str] = field(default_factory=lambda: ["reader"])
    client_ids: str = checks.chosen("any", "any", "user")

    def __post_init__(self) -> None:
        hold(checks.marked(self))


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The whole configuration of a gateway."""

    gateway: GatewaySection
    tree: TreeSection
    mqtt: MqttSection = field(default_factory=MqttSection)
    coap: CoapSection = field(default_factory=CoapSection)
    log: LogSection = field(default_factory=LogSection)
    limits: Limits = field(default_factory=Limits)
    memory: MemorySection = field(default_factory=MemorySection)
    access: AccessSection = field(default_factory=AccessSection)
    console: ConsoleSection = field(default_factory=ConsoleSection)
    keys: KeysSection = field(default_factory=KeysSection)
    home_assistant: HomeAssistantSection = field(default_factory=HomeAssistantSection)
    alerts: AlertsSection = field(default_factory=AlertsSection)
    sensors: list[dict[str, Any]] = field(
        default_factory=list, metadata={FILES: {"series": ".csv"}}
    )
    file: Path | None = field(default=None, metadata=IS_THE_FILE)

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        hosts = self.mqtt.hosts(self.link_scheme)
        if (
            self.gateway.address is None
            and self.tree.has_ways
            and all(map(checks.is_wildcard, hosts))
        ):
            why = f"missing, and {self.link_host_field} is {' and '.join(hosts)}"
            yield Fault("gateway.address", why)
        if self.tree.tls == "required" and self.tree.has_ways and not self.mqtt.has_link_files:
            lacks = "tls_port" if self.mqtt.tls_port is None else "client_ca_file"
            why = f"'required', and mqtt.{lacks} is missing (docs/access.md, \"Links\")"
            yield Fault("tree.tls", why)

        yield from self._console_faults()
        if self.alerts.ack_url and not self.console.enabled:
            yield Fault("alerts.ack_url", "needs the console, which console.enabled switches off")
        if self.keys.service is not None and not self.mqtt.has_link_files:
            yield Fault("keys.service", "needs mqtt.certificate_file and mqtt.client_ca_file")
        if self.keys.service is not None:
            for name in ("certificate_file", "key_file", "client_ca_file"):
                path: Path | None = getattr(self.mqtt, name)
                if path is not None and path.suffix.lower() in (".p12", ".pfx"):
                    yield Fault(f"mqtt.{name}", "keys.service renews certificates in PEM alone")

    def _console_faults(self) -> Iterator[Fault]:
        own = self.console
        is_seen = own.enabled and not checks.is_loopback(own.host)
        if is_seen and own.certificate_file is None and self.access.password_file is not None:
            why = "passwords of access.password_file would pass in the clear"
            yield Fault("console.certificate_file", f"missing, and at {own.host} {why}")
        if own.web and is_seen and self.access.password_file is None:
            why = f"at {own.host} others reach the page: it needs access.password_file"
            yield Fault("console.web", f"{why}, or a loopback console.host")

    @property
    def sensors_dir(self) -> Path | None:
        """Return the folder of one's own sensor classes; None for installed ones alone."""
        beside = None if self.file is None else self.file.absolute().parent
        return self.gateway.sensors_dir or beside

    @property
    def has_certificates(self) -> bool:
        """Return whether a listener shows a certificate."""
        shown = (self.mqtt, self.coap, self.console)
        return any(section.certificate_file is not None for section in shown)

    @property
    def link_scheme(self) -> str:
        """Of the listener that takes links."""
        return "mqtt" if self.tree.tls == "off" else "mqtts"

    @property
    def link_host_field(self) -> str:
        """Return the field that says where that listener is."""
        return f"mqtt.{self.mqtt.host_field(self.link_scheme)}"
