"""The first packets of a link, against a neighbour that says what it should not."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from memory_transport import MemoryTransport

from gateway.node.links import handshake, wire
from gateway.node.links.greeting import accept, dial, take_over
from gateway.node.links.handshake import (
    Acceptor,
    Credentials,
    Dialler,
    HandshakeError,
    NoPlaceError,
)
from gateway.node.links.link import Link
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.refusal import Refusal, RefusedError
from gateway.node.links.transport import FarEnd
from gateway.node.links.wire import LinkPacket, LinkReader, Type
from tree_handler.errors import ProtocolError

KEY = bytes(32)
NONCE = b"n" * 16
YES = wire.connack(0)


def own(name: str, epoch: int = 1) -> Credentials:
    return Credentials(name, "t", KEY, epoch=epoch, port=8883)


def packets(data: bytes) -> list[LinkPacket]:
    reader = LinkReader()
    reader.feed(data)
    return list(iter(reader.next, None))


class HandedOver(MemoryTransport):
    """A connection that another protocol has begun to read."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """It is the link's from now on."""


class Answering:
    """An address at which somebody answers a CONNECT, and then the proof, with these bytes."""

    def __init__(self, answer: bytes | None, verdict: bytes = b"") -> None:
        self.transport = MemoryTransport()
        self._answer = answer
        self._verdict = verdict

    def __str__(self) -> str:
        return "10.0.0.9:1883"

    async def connect(self, link: asyncio.Protocol, tls: LinkTls | None) -> FarEnd:
        link.connection_made(self.transport)
        asyncio.get_running_loop().call_soon(self._say, link)
        return FarEnd("10.0.0.9:1883", "10.0.0.9")

    def _say(self, link: asyncio.Protocol) -> None:
        (connect,) = packets(bytes(self.transport.written))
        acceptor = Acceptor(own("gw-b", 7), NONCE, wire.LinkConnect.decode(connect.body))
        right = YES + wire.publish(handshake.TOPIC, acceptor.answer)
        link.data_received(right if self._answer is None else self._answer)
        link.data_received(self._verdict)


async def dialled(answer: bytes | None, verdict: bytes = b"") -> Link:
    return await dial(Answering(answer, verdict), own("gw-a"), itertools.count(1))


async def test_a_link_that_was_taken_knows_who_is_at_its_other_end() -> None:
    link = await dialled(None, wire.publish(handshake.TOPIC, b""))
    assert (link.peer_id, link.dialler_id, link.peer_epoch) == ("gw-b", "gw-a", 7)
    assert (link.number, link.address) == (1, "10.0.0.9:1883")


@pytest.mark.parametrize(
    ("answer", "verdict", "error", "why"),
    [
        (wire.pong(1), b"", ProtocolError, r"^answer to a link's CONNECT: 'PINGRESP \(4 bytes\)'$"),
        (b"\x20\1\0", b"", ProtocolError, r"^answer to a link's CONNECT: 'CONNACK \(1 bytes\)'$"),
        (wire.connack(5), b"", RefusedError, "whose log says why"),
        (wire.connack(0x80), b"", RefusedError, r"another tree \(tree\.name\)$"),
        (YES + wire.pong(1), b"", HandshakeError, "^packet in the hand-shake: 'PINGRESP"),
        (YES + wire.publish(b"x", b""), b"", HandshakeError, "^topic in the hand-shake: b'x'$"),
        (YES + wire.disconnect(0x82), b"", RefusedError, r"another tree\.mode"),
        (YES + wire.disconnect(), b"", OSError, "10.0.0.9:1883 said DISCONNECT"),
        (None, wire.publish(handshake.TOPIC, b"no"), HandshakeError, "^end of the hand-shake"),
        (None, wire.disconnect(0x84), NoPlaceError, "^gw-b says: linked already$"),
        (None, wire.disconnect(0x85), NoPlaceError, "^gw-b says: another gateway with this one"),
        (None, wire.disconnect(0x83), RefusedError, "takes the certificate for another"),
    ],
)
async def test_what_a_dialled_neighbour_says_wrongly_is_named_and_ends_the_link(
    answer: bytes | None, verdict: bytes, error: type[Exception], why: str
) -> None:
    address = Answering(answer, verdict)
    with pytest.raises(error, match=why) as failed:
        await dial(address, own("gw-a"), itertools.count(1))
    assert address.transport.is_closed
    if isinstance(failed.value, NoPlaceError):
        assert (failed.value.peer_id, failed.value.tell) == ("gw-b", None)


def taken(said: bytes) -> tuple[Link, MemoryTransport]:
    """A link of a neighbour that has said this first."""
    transport = HandedOver()
    return take_over(transport, said, "10.0.0.8"), transport


async def accepted(link: Link) -> None:
    await accept(link, own("gw-b"), itertools.count(5))


async def answer_of(transport: MemoryTransport) -> LinkPacket:
    """Wait for the answer to a CONNECT, behind the CONNACK."""
    while len(found := packets(bytes(transport.written))) < 2:
        await asyncio.sleep(0)
    return found[1]


@pytest.mark.parametrize(
    ("first", "error", "why", "told"),
    [
        (wire.ping(1, b""), ProtocolError, r"^first packet on a link: 'PINGREQ \(4 bytes\)'$", b""),
        (b"\x10\0", ProtocolError, "^CONNECT of a link", wire.connack(5)),
        (
            wire.LinkConnect("gw-a", "other", NONCE).encode(),
            HandshakeError,
            "^another tree: 'other'$",
            wire.connack(Refusal.OTHER_TREE),
        ),
        (
            wire.LinkConnect("gw-a", "t", b"short").encode(),
            HandshakeError,
            "^CONNECT without identifier or nonce",
            wire.connack(5),
        ),
    ],
)
async def test_who_dials_and_says_something_else_first_is_told_no(
    first: bytes, error: type[Exception], why: str, told: bytes
) -> None:
    link, transport = taken(first)
    with pytest.raises(error, match=why):
        await accepted(link)
    assert (bytes(transport.written), transport.is_closed) == (told, True)


@pytest.mark.parametrize(
    ("proof", "error", "why", "told"),
    [
        (wire.pong(1), HandshakeError, "^packet in the hand-shake", None),
        (wire.publish(b"x", b""), HandshakeError, "^topic in the hand-shake", None),
        (wire.publish(handshake.TOPIC, b"x"), HandshakeError, "^proof", None),
        (
            wire.publish(handshake.TOPIC, b"\x93\xc4\x01x\x00\x00"),
            HandshakeError,
            "does not hold the tree's key: 'gw-a'",
            Refusal.OTHER_KEY,
        ),
        (wire.disconnect(0x81), RefusedError, r"another key of the tree .*: 'gw-a'$", None),
    ],
)
async def test_who_proves_nothing_gets_no_link_and_is_told_why_where_that_gives_nothing_away(
    proof: bytes, error: type[Exception], why: str, told: Refusal | None
) -> None:
    link, transport = taken(wire.LinkConnect("gw-a", "t", NONCE).encode())
    accepting = asyncio.create_task(accepted(link))
    await answer_of(transport)
    link.data_received(proof)
    with pytest.raises(error, match=why):
        await accepting
    yes, answer, *rest = packets(bytes(transport.written))
    assert (yes.type, answer.topic) == (Type.CONNACK, handshake.TOPIC)
    assert [(one.type, one.body) for one in rest] == (
        [] if told is None else [(Type.DISCONNECT, bytes((told,)))]
    )
    assert transport.is_closed


async def test_who_proves_that_it_holds_the_key_is_told_so_and_known_by_what_it_proved() -> None:
    dialler = Dialler(own("gw-a", 9), NONCE)
    link, transport = taken(dialler.connect.encode())
    accepting = asyncio.create_task(accepted(link))
    _, proof = dialler.receive((await answer_of(transport)).body)
    link.data_received(wire.publish(handshake.TOPIC, proof))
    await accepting
    found: tuple[Any, ...] = (link.peer_id, link.dialler_id, link.peer_port, link.peer_epoch)
    assert found == ("gw-a", "gw-a", 8883, 9)
    assert link.number == 5
    await asyncio.sleep(0)
    assert packets(bytes(transport.written))[2] == LinkPacket(Type.PUBLISH, b"", handshake.TOPIC)
