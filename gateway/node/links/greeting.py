"""The first packets of a link: connect or take over, and the hand-shake of both ends."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.node.links import handshake, wire
from gateway.node.links.handshake import (
    Acceptor,
    Credentials,
    Dialler,
    HandshakeError,
    NoPlaceError,
)
from gateway.node.links.link import Link
from gateway.node.links.pairing import Pairing
from gateway.node.links.refusal import Refusal, RefusedError
from gateway.node.links.transport import Address
from gateway.node.links.wire import LinkPacket, ReturnCode, Type
from tree_handler.errors import ProtocolError

if TYPE_CHECKING:
    from gateway.node.links.link_tls import LinkTls

HANDSHAKE_TIMEOUT_S: Final = 5.0
_ACCEPTED: Final = b""
"""The end of a hand-shake that went well."""


async def dial(
    address: Address,
    own: Credentials,
    numbers: Iterator[int],
    tls: LinkTls | None = None,
    pairing: Pairing | None = None,
) -> Link:
    """Connect to a gateway as a neighbour.

    Args:
        address: where it takes links: with TLS if ``tls`` is given.
        own: id, tree and key.
        numbers: gives the link its number.
        tls: the certificate to show and what to ask of the neighbour's; None for neither.
        pairing: knows whether there is a link already; None where there is none.

    Raises:
        OSError: unreachable, timed out (TimeoutError), closed, or no TLS came about.
        HandshakeError: another mode, the wrong key or certificate, or this gateway itself.
        NoPlaceError: there is a link already, or another life of either gateway in the tree.
        RefusedError: the neighbour says why it takes no link with this gateway.
        ProtocolError: what answers is no gateway.

    """
    link = Link(str(address))
    async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
        try:
            far_end = await address.connect(link, tls)
        except BaseException:
            link.close()  # a connection that there is all the same, or comes yet
            raise
        link.address = far_end.address
        try:
            core = Dialler(own, secrets.token_bytes(handshake.NONCE_BYTES))
            link.send(core.connect.encode())
            link.additions = _accepted_with(await link.receive())
            peer_id, proof = core.receive(await _auth(link))
            if tls is not None and (shown := far_end.shown_id) != peer_id:
                whose = "without a certificate of its own"
                if shown is not None:
                    whose = "with the certificate of another gateway"
                raise HandshakeError(f"{peer_id} {whose}", shown, Refusal.OTHER_CERTIFICATE)
            with _proving(pairing, peer_id, core.peer_epoch):
                link.send_control(handshake.TOPIC, proof)
                await _accepted(link, peer_id)
        except HandshakeError as error:
            link.refuse(error.tell)
            raise
        except asyncio.CancelledError:
            link.leave()  # who may have a link here already does not dial back
            raise
        except BaseException:
            link.close()
            raise
    link.peer_id, link.dialler_id = peer_id, own.gateway_id
    link.peer_epoch = core.peer_epoch
    link.number = next(numbers)
    return link


def take_over(transport: asyncio.Transport, first: bytes, address: str) -> Link:
    """Make a link of a neighbour's connection, whose first bytes are read; reading goes on."""
    link = Link(address)
    transport.set_protocol(link)
    link.connection_made(transport)
    if first:
        link.data_received(first)
    transport.resume_reading()
    return link


async def accept(
    link: Link, own: Credentials, numbers: Iterator[int], pairing: Pairing | None = None
) -> None:
    """Answer a neighbour that dialled; arguments as for `dial`.

    Raises:
        OSError: timed out (TimeoutError) or closed.
        RefusedError: the neighbour says why it takes no link with this gateway.
        NoPlaceError: there is a link already, or another life of the neighbour in the tree.
        ProtocolError: not a neighbour of this tree (HandshakeError), or not a link's CONNECT.

    """
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            core = await _greeted(link, own)
            await _prove(link, core, own, pairing)
            link.send_control(handshake.TOPIC, _ACCEPTED)
    except BaseException:
        link.refuse()  # not aborted: a refused neighbour is to read what it is told
        raise
    link.peer_id = link.dialler_id = core.peer_id
    link.peer_port, link.peer_epoch = core.peer_port, core.peer_epoch
    link.number = next(numbers)


async def _greeted(link: Link, own: Credentials) -> Acceptor:
    first = await link.receive()
    if first.type is not Type.CONNECT:
        raise ProtocolError("first packet on a link", str(first))
    try:
        connect = wire.LinkConnect.decode(first.body)
        link.additions = connect.additions
        return Acceptor(own, secrets.token_bytes(handshake.NONCE_BYTES), connect)
    except ProtocolError as error:
        tell = error.tell if isinstance(error, HandshakeError) else None
        link.send(wire.connack(ReturnCode.NOT_AUTHORIZED if tell is None else tell))
        raise


def _accepted_with(answer: LinkPacket) -> int:
    """Return the `wire.Additions` of who answers, if the answer is a yes."""
    if answer.type is not Type.CONNACK or len(answer.body) != 2:
        raise ProtocolError("answer to a link's CONNECT", str(answer))
    if (code := answer.body[1]) != ReturnCode.ACCEPTED:
        raise RefusedError(code)
    return answer.body[0]


@contextmanager
def _proving(pairing: Pairing | None, peer_id: str, epoch: int) -> Iterator[None]:
    if pairing is None:
        yield
        return
    pairing.answered(peer_id, epoch)
    try:
        yield
    finally:
        pairing.concluded(peer_id)


async def _accepted(link: Link, peer_id: str) -> None:
    try:
        verdict = await _auth(link)
    except RefusedError as error:
        if error.code in (Refusal.DUPLICATE, Refusal.OTHER_LIFE):
            refusal = Refusal(error.code)
            raise NoPlaceError(
                f"{peer_id} says: {refusal.text}", None, refusal, peer_id, was_told=True
            ) from error
        raise
    if verdict != _ACCEPTED:
        raise HandshakeError("end of the hand-shake", verdict)


async def _prove(link: Link, core: Acceptor, own: Credentials, pairing: Pairing | None) -> None:
    link.send(wire.connack(ReturnCode.ACCEPTED, own.additions & link.additions))
    link.send_control(handshake.TOPIC, core.answer)
    try:
        core.receive(await _auth(link))
        if pairing is not None:
            pairing.proved(core.peer_id, core.peer_epoch)
    except RefusedError as error:
        raise RefusedError(error.code, core.peer_id) from error
    except HandshakeError as failed:
        link.refuse(failed.tell)
        raise


async def _auth(link: Link) -> bytes:
    packet = await link.receive()
    if packet.type is not Type.PUBLISH:
        raise HandshakeError("packet in the hand-shake", str(packet))
    if packet.topic != handshake.TOPIC:
        raise HandshakeError("topic in the hand-shake", packet.topic)
    return packet.body
