"""The sections ``[mqtt]`` and ``[coap]``: what a gateway listens on, and as whom over TLS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from gateway.base.toml import checks
from gateway.base.toml.toml_file import ONE_OR_MORE, Fault, hold
from gateway.coap.directory.section import DirectorySection
from gateway.coap.limits import CoapLimits
from gateway.coap.remote.queries_section import QueriesSection
from gateway.coap.topics.section import TopicsSection
from light_dataclasses import dataclass

PORT_FIELDS: Mapping[str, str] = {
    "mqtt": "port",
    "mqtts": "tls_port",
    "ws": "websocket_port",
    "wss": "secure_websocket_port",
}
"""The configuration's names of the broker's ports."""
HOST_FIELDS: Mapping[str, str] = {
    "mqtt": "host",
    "mqtts": "tls_host",
    "ws": "websocket_host",
    "wss": "secure_websocket_host",
}
"""The fields that say where they are; without one of the others ``host`` counts for it."""
CLIENT_CERTIFICATES = ("none", "optional", "required")
"""The demands on clients over TLS."""


def _loopback() -> list[str]:
    return ["127.0.0.1"]


def _public() -> list[str]:
    return ["/.well-known/core", "/q", "/rd-lookup", "/sensors", "/status"]


@dataclass(frozen=True, slots=True)
class MqttSection:
    """The broker's listeners. Port 0 takes a free one, printed at start.

    Each port is opened at all addresses and host names of its host; those without a host of their
    own take ``host``. A listener whose port is "off", here None, does not exist. A connection that
    comes to one of ``proxied_ports`` from an address of ``proxies`` begins with a header of the
    PROXY protocol; without ``proxied_ports`` that holds for all ports. ``plugins`` are
    amqtt's: the dotted name of a class -> its options. ``$SYS`` is published every
    ``sys_interval_s``, or never if that is 0.
    """

    host: list[str] = field(default_factory=_loopback, metadata=ONE_OR_MORE)
    port: int | None = 1883
    tls_host: list[str] | None = field(default=None, metadata=ONE_OR_MORE)
    tls_port: int | None = None
    websocket_host: list[str] | None = field(default=None, metadata=ONE_OR_MORE)
    websocket_port: int | None = None
    secure_websocket_host: list[str] | None = field(default=None, metadata=ONE_OR_MORE)
    secure_websocket_port: int | None = None
    websocket_path: str = ""
    websocket_origins: list[str] = field(default_factory=list)
    certificate_file: Path | None = None
    key_file: Path | None = None
    client_certificate: str = checks.chosen("none", *CLIENT_CERTIFICATES)
    client_ca_file: Path | None = None
    client_crl_file: Path | None = None
    proxies: list[str] = field(default_factory=list)
    proxied_ports: list[str] = field(default_factory=list)
    plugins: dict[str, Any] = field(default_factory=dict)
    sys_interval_s: float = 10.0

    def __post_init__(self) -> None:
        hold(self._faults())

    @property
    def ports(self) -> dict[str, int]:
        """Those that are listened on, by scheme."""
        ports = {scheme: getattr(self, name) for scheme, name in PORT_FIELDS.items()}
        return {scheme: port for scheme, port in ports.items() if port is not None}

    def host_field(self, scheme: str) -> str:
        """Return the field that says where a listener is."""
        own = HOST_FIELDS[scheme]
        return own if self._is_set(own) else "host"

    def hosts(self, scheme: str) -> list[str]:
        """Return addresses and host names at which a listener is."""
        found: list[str] = getattr(self, self.host_field(scheme))
        return found

    def proxies_of(self, scheme: str) -> list[str]:
        """Return addresses and networks of the proxies in front of a listener."""
        is_proxied = not self.proxied_ports or PORT_FIELDS[scheme] in self.proxied_ports
        return self.proxies if is_proxied else []

    def _faults(self) -> Iterator[Fault]:
        yield from self._proxy_faults()
        for scheme, name in PORT_FIELDS.items():
            yield from checks.port(name, getattr(self, name))
            if (hosts := getattr(self, own := HOST_FIELDS[scheme])) is not None:
                yield from checks.hosts(own, hosts)
                if own != "host" and not self._is_set(name):
                    yield Fault(own, f"of no use without {name}")
        yield from self._doubled_ports()
        if self.websocket_path and not self.websocket_path.startswith("/"):
            yield Fault("websocket_path", f"{self.websocket_path!r} does not start with '/'")
        for name, options in self.plugins.items():
            if not isinstance(options, dict):
                yield Fault(f"plugins.{name}", "is not a table")
        if self.sys_interval_s and not 0.1 <= self.sys_interval_s <= 3600:
            yield Fault("sys_interval_s", f"{self.sys_interval_s} is neither 0 nor 0.1 to 3600")
        yield from self._certificate_faults()

    def _doubled_ports(self) -> Iterator[Fault]:
        first: dict[int, str] = {}
        for scheme, port in self.ports.items():
            if port and first.setdefault(port, scheme) != scheme:
                why = f"{port} is {PORT_FIELDS[first[port]]} already"
                yield Fault(PORT_FIELDS[scheme], why)

    def _proxy_faults(self) -> Iterator[Fault]:
        for value in self.proxies:
            yield from checks.network("proxies", value)
        for name in self.proxied_ports:
            if name not in PORT_FIELDS.values():
                known = ", ".join(PORT_FIELDS.values())
                yield Fault("proxied_ports", f"{name!r} is none of {known}")
            elif not self._is_set(name):
                yield Fault("proxied_ports", f"{name!r} is not listened on")
        if self.proxied_ports and not self.proxies:
            yield Fault("proxied_ports", "of no use without proxies")

    def _certificate_faults(self) -> Iterator[Fault]:
        secure = [name for name in ("tls_port", "secure_websocket_port") if self._is_set(name)]
        for name in ("certificate_file", "key_file"):
            if secure and not self._is_set(name):
                yield Fault(name, f"missing, and {secure[0]} is given")
            if not secure and self._is_set(name):
                yield Fault(name, "of no use without tls_port or secure_websocket_port")
        if self.client_certificate not in CLIENT_CERTIFICATES:
            yield from checks.marked(self)
        elif self.client_certificate == "none":
            for name in ("client_ca_file", "client_crl_file"):
                if self._is_set(name):
                    yield Fault(name, "of no use while client_certificate is 'none'")
        elif not secure:
            why = "of no use without tls_port or secure_websocket_port"
            yield Fault("client_certificate", why)
        elif self.client_ca_file is None:
            why = f"missing, and client_certificate is {self.client_certificate!r}"
            yield Fault("client_ca_file", why)

    @property
    def has_link_files(self) -> bool:
        """Return whether it has what links over TLS need: a port and the fleet's authority."""
        return self.tls_port is not None and self.client_ca_file is not None

    def _is_set(self, name: str) -> bool:
        return getattr(self, name) is not None


@dataclass(frozen=True, slots=True)
class CoapSection:
    """CoAP over UDP, and over DTLS for those whom files name; a port may be None.

    Over DTLS come in who has a key of ``psk_file``, and with a ``certificate_file`` to show who has
    a certificate of ``client_ca_file`` that is not in ``client_crl_file``. An ``oscore_file`` names
    devices that protect their requests themselves, on whatever port.

    Each port is opened at all addresses and host names of ``host``, that of DTLS at those of
    ``dtls_host`` if there are any; with ``multicast`` that of plain CoAP answers discovery by
    multicast on the links of its addresses. Over plain CoAP what stands below one of the paths of
    ``public`` is read by anybody, and everything from this machine.
    """

    host: list[str] = field(default_factory=_loopback, metadata=ONE_OR_MORE)
    port: int | None = 5683
    dtls_host: list[str] | None = field(default=None, metadata=ONE_OR_MORE)
    dtls_port: int | None = 5684
    psk_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    client_crl_file: Path | None = None
    oscore_file: Path | None = None
    multicast: bool = False
    public: list[str] = field(default_factory=_public)
    limits: CoapLimits = field(default_factory=CoapLimits)
    queries: QueriesSection = field(default_factory=QueriesSection)
    directory: DirectorySection = field(default_factory=DirectorySection)
    topics: TopicsSection = field(default_factory=TopicsSection)

    def __post_init__(self) -> None:
        hold(self._faults())

    def host_field(self, scheme: str) -> str:
        """Return the field that says where ``coap`` or ``coaps`` is."""
        return "host" if scheme == "coap" or self.dtls_host is None else "dtls_host"

    def hosts(self, scheme: str) -> list[str]:
        """Return addresses and host names at which ``coap`` or ``coaps`` is."""
        found: list[str] = getattr(self, self.host_field(scheme))
        return found

    @property
    def ports(self) -> dict[str, int]:
        """Those that are listened on, by scheme."""
        is_open = self.psk_file is not None or self.certificate_file is not None
        secure = self.dtls_port if is_open else None
        ports = {"coap": self.port, "coaps": secure}
        return {scheme: port for scheme, port in ports.items() if port is not None}

    def _faults(self) -> Iterator[Fault]:
        yield from checks.hosts("host", self.host)
        if self.dtls_host is not None:
            yield from checks.hosts("dtls_host", self.dtls_host)
        yield from checks.port("port", self.port)
        yield from checks.port("dtls_port", self.dtls_port)
        if self.port and self.port == self.dtls_port:
            yield Fault("dtls_port", f"{self.port} is port already")
        if self.multicast and self.port is None:
            yield Fault("multicast", 'of no use where port is "off"')
        for path in self.public:
            if not path.startswith("/"):
                yield Fault("public", f"{path!r} does not start with '/'")
        for name in ("key_file", "client_ca_file", "client_crl_file"):
            is_set = getattr(self, name) is not None
            if is_set and self.certificate_file is None:
                yield Fault(name, "of no use without certificate_file")
            if not is_set and self.certificate_file is not None and name != "client_crl_file":
                yield Fault(name, "missing, and certificate_file is given")
