"""Two linked gateways with the limits of the default configuration, for who means them harm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from attacked_fleet import STANDS_STILL, SWITCH, stopping
from gateways import Gateway

from benchmarks.fleet_devices import Asker
from coap_engine import codes, option_numbers
from coap_engine.codec import CoapMessage
from coap_engine.message import Option
from dtls.context import ClientContext

KEY = b"0123456789abcdef"
MEMORY_BYTES = 32 << 20
VALVE = (b"sensors", b"valve")
POLICY = """version = 1
[principals]
"psk:operator" = ["operator"]
"psk:thing" = ["device"]
"psk:other" = ["device"]
"""


def path(*segments: bytes) -> list[Option]:
    return [(option_numbers.URI_PATH, one) for one in segments]


def shown(answer: CoapMessage) -> str:
    """Its code, as people write it."""
    return f"{answer.code >> 5}.{answer.code & 31:02d}"


def port_of(gateway: Gateway, scheme: str) -> int:
    return int(gateway.listeners[scheme].rpartition(":")[2])


class HostileFleet:
    """Two gateways: gw, that is attacked, and gw-b, that has dialled it.

    Args:
        folder: with all files of both.
        gateway: the one.
        neighbour: the other.
        stack: closes who asks them.

    """

    def __init__(
        self, folder: Path, gateway: Gateway, neighbour: Gateway, stack: ExitStack
    ) -> None:
        self.folder, self.gateway = folder, gateway
        self._stack = stack
        self._value = 0
        self._operator = self.with_key("operator")
        self._beyond = self.stranger(port_of(neighbour, "coap"))
        self._own_bytes = gateway.own_bytes()
        gateway.wait_for(lambda: self.through_the_neighbour().code == codes.CONTENT)

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[HostileFleet]:
        """They run until the end of the block."""
        psk, policy = folder / "psk", folder / "policy.toml"
        psk.touch(mode=0o600)
        psk.write_text("".join(f"{name}:{KEY.hex()}\n" for name in ("operator", "thing", "other")))
        policy.write_text(POLICY)
        access = f'policy_file = "{policy}"\nanonymous = true'
        coap, tls = f'dtls_port = 0\npsk_file = "{psk}"', f'tls = "off"{STANDS_STILL}'
        with stopping(Gateway(folder, SWITCH, tls, coap, access=access)) as gateway:
            host, port = gateway.address
            other = folder / "neighbour"
            other.mkdir()
            dials = f'{tls}\nneighbours = ["{host}:{port}"]'
            with (
                stopping(Gateway(other, SWITCH, dials, access=access, name="gw-b")) as neighbour,
                ExitStack() as stack,
            ):
                yield cls(folder, gateway, neighbour, stack)

    def with_key(self, identity: str) -> Asker:
        """Somebody with a session."""
        context = ClientContext(identity, KEY)
        made = self._stack.enter_context(closing(Asker(port_of(self.gateway, "coaps"), context)))
        made.shake_hands()
        return made

    def stranger(self, port: int | None = None, host: str = "127.0.0.1") -> Asker:
        """Somebody without one; on this machine he may read all."""
        port = port_of(self.gateway, "coap") if port is None else port
        return self._stack.enter_context(closing(Asker(port, None, host)))

    def through_the_neighbour(self) -> CoapMessage:
        """Ask the other gateway for the switch of this one; return its answer."""
        named = path(b"q", b"-", b"-", b"gw", *VALVE)
        return self._beyond.ask(codes.GET, [*named, (option_numbers.ACCEPT, b"")])

    def set_switch(self) -> None:
        """The operator turns it."""
        self._value = 1 - self._value
        options = [*path(*VALVE), (option_numbers.CONTENT_FORMAT, b"")]
        answer = self._operator.ask(codes.PUT, options, b"%d" % self._value)
        assert shown(answer) == "2.04", answer.payload

    def goes_on(self) -> None:
        """The operator writes, both gateways tell what he wrote, and memory is bounded."""
        for _ in range(2):
            self.set_switch()
            told = b"%d.0" % self._value
            read = [*path(*VALVE), (option_numbers.ACCEPT, b"")]
            assert self._operator.ask(codes.GET, read).payload == told
        # Readings are kept for their Max-Age on the way.
        self.gateway.wait_for(lambda: self.through_the_neighbour().payload == told)
        assert self.gateway.own_bytes() - self._own_bytes < MEMORY_BYTES
