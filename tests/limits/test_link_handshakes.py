"""Gateways that fail to open a link, or take their time, are limited, counted, and harm nobody."""

from __future__ import annotations

import contextlib
import socket

from gateways import Start

from gateway.node.links import wire
from gateway.node.links.link_admission import MAX_HANDSHAKES, MAX_HANDSHAKES_PER_ADDRESS
from gateway.node.links.wire import ReturnCode

CONNECT = wire.LinkConnect("gw-b", "hedgerow", bytes(16)).encode()
ACCEPTED, REFUSED = bytes((0x20, 2, 0, 0)), bytes((0x20, 2, 0, ReturnCode.NOT_AUTHORIZED))
NO_PROOF = wire.publish(b"$hedgerow/auth", b"no proof")
WITHOUT_TLS = 'tls = "off"'


class Opening:
    """A connection that begins to open a link."""

    def __init__(self, address: tuple[str, int], source: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(address, 20, (source, 0))
        self._socket.sendall(CONNECT)
        self.answer = self._socket.recv(4)

    def fail(self) -> None:
        """Prove nothing, and read to the end."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(NO_PROOF)
        self.expect_end()

    def expect_end(self) -> None:
        with contextlib.suppress(ConnectionError):
            while self._socket.recv(4096):
                pass
        self.close()

    def close(self) -> None:
        self._socket.close()


def test_an_address_that_fails_waits_and_others_do_not(start: Start) -> None:
    gateway = start("failures_at_once = 3\nfailures_per_s = 0.001", WITHOUT_TLS)
    for _ in range(3):
        opening = Opening(gateway.address)
        assert opening.answer == ACCEPTED
        opening.fail()
    gateway.await_refusal("link hand-shake failed", 3)
    opening = Opening(gateway.address)
    assert opening.answer == REFUSED
    opening.expect_end()
    gateway.await_refusal("link over the limit of failures of an address")
    other = Opening(gateway.address, "127.0.0.2")
    assert other.answer == ACCEPTED
    other.close()
    gateway.others_are_served()


def test_so_many_shake_hands_at_a_time(start: Start) -> None:
    gateway = start("", WITHOUT_TLS)
    sources = [f"127.0.0.{n + 2}" for n in range(MAX_HANDSHAKES // MAX_HANDSHAKES_PER_ADDRESS)]
    held = []
    for source in sources:
        opened = [Opening(gateway.address, source) for _ in range(MAX_HANDSHAKES_PER_ADDRESS)]
        assert {one.answer for one in opened} == {ACCEPTED}
        held += opened
        if source == sources[0]:  # one address has its share, and another is let in
            assert Opening(gateway.address, source).answer == REFUSED
    assert Opening(gateway.address, "127.0.0.99").answer == REFUSED
    gateway.await_refusal("link over the limit of hand-shakes", 2)
    gateway.others_are_served()
    for opening in held:  # nothing is said any more: their time ends
        opening.expect_end()
    gateway.await_refusal("link hand-shake failed", MAX_HANDSHAKES)
    assert Opening(gateway.address, "127.0.0.99").answer == ACCEPTED


def test_without_a_certificate_nothing_is_begun(start: Start) -> None:
    gateway = start("")
    for _ in range(30):
        opening = Opening(gateway.address)
        assert opening.answer == REFUSED
        opening.expect_end()
    gateway.await_refusal("connection refused (not_authorized)", 30)
    gateway.others_are_served()
