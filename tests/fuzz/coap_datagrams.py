"""Datagrams for the CoAP engine, of peers of all kinds: what is fuzzed, and inputs to begin with.

An input is a row of datagrams, each behind two bytes: who sends it and what is done then, and its
length. What must hold: no exception, no more to an address that is not proven than three times what
came from it, and nothing left when all time-outs are over.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from coap_engine import codes
from coap_engine.codec import CON, NON, CoapMessage
from coap_engine.engine import Engine
from coap_engine.errors import UnknownExchangeError
from coap_engine.freshness import FreshnessRules
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, RequestReceived

PEERS = (
    CoapPeer(("192.0.2.1", 5683), "192.0.2.1"),
    CoapPeer(("192.0.2.1", 5684), "192.0.2.1"),
    CoapPeer(("192.0.2.2", 5683), "192.0.2.2"),
    CoapPeer(("session", 1), "pump", "pump", is_address_proven=True),
)
ANSWERS = (
    CoapResponse(codes.CONTENT, ((12, b""),), b"22.3 C"),
    CoapResponse(codes.CONTENT, (), bytes(3_000)),
    CoapResponse(codes.CHANGED),
    CoapResponse(0x84, (), b"nothing here"),
)
HEADER_BYTES = FreshnessRules().header_bytes


def coap(data: bytes) -> None:
    """Give the CoAP engine the datagrams of an input, each from one of several peers."""
    engine = Engine(random.Random(1).randbytes)
    now, at = 0.0, 0
    observed: list[int] = []
    while at + 2 <= len(data):
        how, size = data[at], data[at + 1]
        datagram = data[at + 2 : at + 2 + size]
        at += 2 + size
        peer = PEERS[how & 3]
        engine.receive_datagram(datagram, peer, now)
        for event in engine.events():
            if isinstance(event, RequestReceived) and how & 4:
                engine.respond(event.exchange, ANSWERS[how >> 3 & 3], now)
                observed += [event.exchange] * event.request.observe
        _check_amplification(engine, peer, len(datagram))
        for exchange in observed if how & 32 else ():
            try:
                engine.respond(exchange, ANSWERS[how >> 3 & 3], now)
            except UnknownExchangeError:
                continue
        if how & 64:
            engine.request(PEERS[3], CoapRequest(codes.GET), now)
        if how & 128:
            now += 1.7
            engine.handle_timer(now)
        engine.datagrams_to_send()
    _check_peace(engine, now)


def _check_amplification(engine: Engine, peer: CoapPeer, came_bytes: int) -> None:
    sent = engine.datagrams_to_send()
    if not peer.is_address_proven and not engine.freshness.remembered:
        # Headers of UDP, IP and Ethernet are part of what is amplified (RFC 9175, section 2.4).
        goes_bytes = sum(len(one) + HEADER_BYTES for one, to in sent if to is peer)
        assert goes_bytes <= 3 * (came_bytes + HEADER_BYTES)


def _check_peace(engine: Engine, now: float) -> None:
    for peer in PEERS:
        engine.forget_peer(peer)
    for _ in range(10_000):
        due = engine.next_timer()
        if due is None:
            break
        now = max(now, due)
        engine.handle_timer(now)
        engine.events()
        engine.datagrams_to_send()
    assert engine.open_exchanges == 0
    assert engine.remembered_requests == 0
    shares = engine.shares
    assert (shares.requests.held, shares.observations.held, shares.held_bytes.held) == (0, 0, 0)


def seeds() -> Iterator[bytes]:
    """Conversations of several datagrams."""
    path = ((11, b"sensors"), (11, b"t"))
    get = CoapMessage(CON, codes.GET, 1, b"t", path)
    observe = CoapMessage(CON, codes.GET, 2, b"o", ((6, b""), *path))
    put = CoapMessage(NON, codes.PUT, 3, b"", (*path, (258, b"\x02")), b"1")
    first = CoapMessage(CON, codes.PUT, 4, b"", (*path, (27, b"\x08")), b"a" * 16)
    last = CoapMessage(CON, codes.PUT, 5, b"", (*path, (27, b"\x10")), b"b")
    later = CoapMessage(CON, codes.GET, 6, b"", (*path, (23, b"\x16")))
    empty = [bytes((0x40 | kind << 4, 0, 0, number)) for kind in (0, 2, 3) for number in (1, 2)]
    written = [m.encode() for m in (get, observe, put, first, last, later)]
    for how in (4, 7, 12, 36, 39, 68, 132, 164, 228):
        for row in (written, [*written, *empty], [written[1], *empty] * 3, [written[0]] * 3):
            yield b"".join(bytes((how, len(one))) + one for one in row)


def mutated(chance: random.Random) -> bytes:
    """A seed with some bytes changed, left out, or doubled."""
    data = bytearray(chance.choice(list(seeds())))
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(1, 4)]
            case _:
                data[at:at] = data[at : at + chance.randrange(1, 20)]
        if not data:
            break
    return bytes(data)
