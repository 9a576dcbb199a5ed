"""Records and handshakes for the DTLS endpoint: what is fuzzed, and inputs to begin with.

An input is a row of steps, each behind three bytes: what is done and where, and the length of what
follows (two bytes). A step sends bytes as they are; or has an honest client, with a key or with a
certificate, go on by one datagram that the bytes spoil; or lets time pass. What must hold: no
exception; never more handshakes and sessions than there may be; nobody is told more than it sent
before it has returned a cookie; nobody is known by a name that it has not proved; a session
that was there before is served until the end; and then nothing is left. OpenSSL draws its random
numbers by itself, so an input that is run again need not go the same way.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from authority import Authority
from dtls_clients import CertificateClientContext, server_certificates

from dtls.context import ClientContext, Context, ServerContext
from dtls.endpoint import Endpoint
from dtls.endpoint_limits import EndpointLimits
from dtls.events import Established, Received
from dtls.records import split_records
from dtls.session import DtlsSession

KEY = b"0123456789abcdef"
LIMITS = EndpointLimits(half_open=4, half_open_of_host=3, established=6, handshake_s=30.0)
BYSTANDER = ("192.0.2.200", 1)
ADDRESSES = tuple(("192.0.2.1" if n < 3 else "192.0.2.2", n) for n in range(4))
RAW, SPOILT, TO_CLIENT, TIME = range(4)

with tempfile.TemporaryDirectory() as _folder:
    _AUTHORITY = Authority(Path(_folder))
    _OWN = _AUTHORITY.issue("gw", is_server=True)
    _SERVER = ServerContext(
        {b"meter-1": KEY}.get,
        server_certificates(_OWN, _AUTHORITY, revoked=[_AUTHORITY.revoke()]),
    )
    _CLIENTS: tuple[Context, ...] = (
        ClientContext("meter-1", KEY),
        CertificateClientContext(_AUTHORITY.issue("pump-7"), _AUTHORITY),
    )
_NAMES = {"meter-1", "pump-7"}


class _World:
    """An endpoint, a session that is there from the beginning, and clients that come."""

    def __init__(self) -> None:
        self.now = 0.0
        self.endpoint = Endpoint(_SERVER, random.Random(1).randbytes, LIMITS, lambda at: at[0])
        self._clients: dict[object, DtlsSession] = {}
        self._heard: list[bytes] = []
        self.bystander = self._begin(BYSTANDER, 0)
        for _ in range(4):
            self._carry(BYSTANDER, b"")
        assert self.bystander.was_established

    def raw(self, address: tuple[str, int], data: bytes) -> None:
        """Bytes from an address."""
        half_open = self.endpoint.half_open
        self.endpoint.receive_datagram(data, address, self.now)
        told = [datagram for datagram, to in self.endpoint.datagrams_to_send() if to == address]
        if address not in self._clients:  # no cookie was ever sent there that came back
            assert self.endpoint.half_open <= half_open
            assert sum(map(len, told)) <= len(data)
        self._look(address, told)

    def spoilt(self, address: tuple[str, int], which: int, spoil: bytes) -> None:
        """A client goes on, and one of its datagrams is not as it was."""
        if address not in self._clients:
            self._begin(address, which)
        self._carry(address, spoil)

    def to_client(self, address: tuple[str, int], data: bytes) -> None:
        """Bytes to a client, as the endpoint cuts what comes."""
        client = self._clients.get(address)
        records = split_records(data)
        if client is not None and records:
            client.receive_datagram(data[: records[-1].end], self.now)

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.endpoint.handle_timer(self.now)
        for datagram, to in self.endpoint.datagrams_to_send():
            self._look(to, [datagram])

    def end(self) -> None:
        """The bystander is served, all ends, and nothing is left."""
        self._heard.clear()
        self.bystander.send(b"here still")
        self._carry(BYSTANDER, b"")
        assert b"here still" in self._heard
        self.endpoint.close()
        self.endpoint.events()
        assert (self.endpoint.half_open, self.endpoint.established) == (0, 0)
        assert self.endpoint.next_timer() is None

    def _begin(self, address: tuple[str, int], which: int) -> DtlsSession:
        client = self._clients[address] = DtlsSession(_CLIENTS[which])
        client.start(self.now)
        return client

    def _carry(self, address: tuple[str, int], spoil: bytes) -> None:
        for number, datagram in enumerate(self._clients[address].datagrams_to_send()):
            data = _spoiled(datagram, spoil) if number == 0 else datagram
            self.endpoint.receive_datagram(data, address, self.now)
        told = self.endpoint.datagrams_to_send()
        for to in {address} | {to for _, to in told}:
            self._look(to, [datagram for datagram, at in told if at == to])

    def _look(self, address: object, told: list[bytes]) -> None:
        for datagram in told:
            assert split_records(datagram)[-1].end == len(datagram), "part of a record"
            if (client := self._clients.get(address)) is not None:
                client.receive_datagram(datagram, self.now)
        for event in self.endpoint.events():
            if isinstance(event, Established):
                assert event.identity.name in _NAMES
                assert event.identity.may_write
            elif isinstance(event, Received):
                self._heard.append(event.plaintext)
        assert self.endpoint.half_open <= LIMITS.half_open
        assert self.endpoint.established <= LIMITS.established


def _spoiled(datagram: bytes, spoil: bytes) -> bytes:
    """Exclusive or from a place on, both of which the first two bytes say; then a cut or more."""
    if len(spoil) < 3:
        return datagram
    at, how, rest = spoil[0] | spoil[1] << 8 & 0x300, spoil[1] >> 4, spoil[2:]
    data = bytearray(datagram)
    for offset, byte in enumerate(rest, at % (len(data) + 1)):
        if offset < len(data):
            data[offset] ^= byte
    if how & 1:
        del data[at % (len(data) + 1) :]
    if how & 2:
        data += datagram
    return bytes(data)


def dtls(data: bytes) -> None:
    """Give the DTLS endpoint and its client the pieces of an input, in the ways that it says."""
    world, at = _World(), 0
    while at + 3 <= len(data):
        how, size = data[at], data[at + 1] << 8 | data[at + 2]
        piece = data[at + 3 : at + 3 + size]
        at += 3 + len(piece)
        address = ADDRESSES[how >> 2 & 3]
        match how & 3:
            case 0:
                world.raw(address, piece)
            case 1:
                world.spoilt(address, how >> 4 & 1, piece)
            case 2:
                world.to_client(address, piece)
            case _:
                world.pass_s((how >> 4) * 0.7)
    world.end()


def _step(what: int, where: int, more: int = 0, piece: bytes = b"") -> bytes:
    return bytes((what | where << 2 | more << 4,)) + len(piece).to_bytes(2, "big") + piece


def seeds() -> Iterator[bytes]:
    """Handshakes with both proofs, whole and spoilt here and there, with what strangers send."""
    client = DtlsSession(_CLIENTS[1])
    client.start(0.0)
    (hello,) = client.datagrams_to_send()
    other = Endpoint(_SERVER, random.Random(2).randbytes, LIMITS)
    other.receive_datagram(hello, BYSTANDER, 0.0)
    client.receive_datagram(other.datagrams_to_send()[0][0], 0.0)
    (foreign,) = client.datagrams_to_send()  # with a cookie, of another server
    alert = b"\x15\xfe\xfd\0\0\0\0\0\0\0\x09\0\x02\x02\x28"
    data = b"\x17\xfe\xfd\0\1\0\0\0\0\0\x01\0\x08" + bytes(8)
    for which in (0, 1):
        whole = [_step(SPOILT, 0, which)] * 5
        yield b"".join(whole)
        for noise in (hello, alert, data, alert + hello, hello[:60], foreign):
            yield b"".join(
                step + _step(RAW, 0, 0, noise) + _step(RAW, 1, 0, noise) for step in whole
            )
            yield b"".join(step + _step(TO_CLIENT, 0, 0, noise) for step in whole)
        for place in (3, 11, 14, 17, 25, 40, 90):
            for how in (0x00, 0x10, 0x20):
                spoil = _step(SPOILT, 0, which, bytes((place, how, 0x41, 1)))
                yield b"".join((whole[0], spoil, *whole, _step(TIME, 0, 15), *whole))
                yield b"".join((*whole[:2], spoil, *whole, _step(TIME, 0, 4), *whole))
    yield b"".join(_step(SPOILT, where, where & 1) for where in (0, 1, 2, 3) * 5)
    yield _step(RAW, 0, 0, hello) * 20 + _step(TIME, 0, 15) * 5


def mutated(chance: random.Random) -> bytes:
    """A seed with some bytes changed, left out, or doubled."""
    data = bytearray(chance.choice(_SEEDS))
    for _ in range(chance.randrange(1, 8)):
        if not data:
            break
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(1, 4)]
            case _:
                data[at:at] = data[at : at + chance.randrange(1, 20)]
    return bytes(data)


_SEEDS = list(seeds())
