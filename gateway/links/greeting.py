"""The first packets of a link: connect or take over, and the hand-shake of both ends."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

from gateway.links import handshake, wire
from gateway.links.handshake import Acceptor, Credentials, Dialler, HandshakeError
from gateway.links.link import Link
from gateway.links.link_tls import LinkTls
from gateway.links.wire import ReturnCode, Type
from tree_handler.errors import ProtocolError

HANDSHAKE_TIMEOUT_S = 5.0


async def dial(
    host: str, port: int, own: Credentials, numbers: Iterator[int], tls: LinkTls | None = None
) -> Link:
    """Connect to a gateway's MQTT port as a neighbour.

    Args:
        host: where.
        port: its port; one that speaks TLS if ``tls`` is given.
        own: id, tree and key.
        numbers: gives the link its number.
        tls: the certificate to show and what to ask of the neighbour's; None for plain TCP.

    Raises:
        OSError: unreachable, timed out (TimeoutError), closed, or no TLS came about.
        HandshakeError: another tree or mode, the wrong key or certificate, or this gateway itself.
        ProtocolError: what answers is no gateway.

    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
        context = None if tls is None else tls.context
        transport, link = await loop.create_connection(Link, host, port, ssl=context)
        try:
            shown = None if tls is None else tls.dialled(transport.get_extra_info("ssl_object"))
            core = Dialler(own, secrets.token_bytes(handshake.NONCE_BYTES))
            link.send(core.connect.encode())
            answer = await link.receive()
            if answer.type is not Type.CONNACK or answer.body != bytes((0, ReturnCode.ACCEPTED)):
                raise HandshakeError("refused by the neighbour", answer.body)
            peer_id, proof = core.receive(await _auth(link))
            if shown not in (None, peer_id):
                raise HandshakeError(f"{peer_id} with the certificate of another gateway", shown)
            link.send_control(handshake.TOPIC, proof)
        except BaseException:
            link.close()
            raise
    link.peer_id, link.dialler_id = peer_id, own.gateway_id
    link.number = next(numbers)
    return link


def take_over(transport: asyncio.Transport, first: bytes) -> Link:
    """Make a link of a neighbour's connection, whose first bytes are read; reading goes on."""
    link = Link()
    transport.set_protocol(link)
    link.connection_made(transport)
    if first:
        link.data_received(first)
    transport.resume_reading()
    return link


async def accept(link: Link, own: Credentials, numbers: Iterator[int]) -> None:
    """Answer a neighbour that dialled.

    Raises:
        OSError: timed out (TimeoutError) or closed.
        ProtocolError: not a neighbour of this tree (HandshakeError), or not a link's CONNECT.

    """
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            core = await _greeted(link, own)
            link.send(wire.connack(ReturnCode.ACCEPTED))
            link.send_control(handshake.TOPIC, core.answer)
            core.receive(await _auth(link))
    except BaseException:
        link.refuse()  # not aborted: a refused neighbour is to read the CONNACK
        raise
    link.peer_id = link.dialler_id = core.peer_id
    link.peer_port = core.peer_port
    link.number = next(numbers)


async def _greeted(link: Link, own: Credentials) -> Acceptor:
    first = await link.receive()
    if first.type is not Type.CONNECT:
        raise ProtocolError("first packet on a link", str(first))
    try:
        connect = wire.LinkConnect.decode(first.body)
        return Acceptor(own, secrets.token_bytes(handshake.NONCE_BYTES), connect)
    except ProtocolError:
        link.send(wire.connack(ReturnCode.NOT_AUTHORIZED))
        raise


async def _auth(link: Link) -> bytes:
    packet = await link.receive()
    if packet.type is not Type.PUBLISH:
        raise HandshakeError("packet in the hand-shake", str(packet))
    if packet.topic != handshake.TOPIC:
        raise HandshakeError("topic in the hand-shake", packet.topic)
    return packet.body
