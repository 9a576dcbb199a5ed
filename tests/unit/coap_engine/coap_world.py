"""An engine with a time of its own, and what its peers say to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from coap_engine import codes
from coap_engine.codec import CON, CoapMessage, decode
from coap_engine.engine import Engine
from coap_engine.limits import EngineLimits
from coap_engine.message import (
    CoapPeer,
    CoapResponse,
    Option,
    RequestReceived,
)
from coap_engine.option_numbers import OBSERVE, URI_PATH

PUMP = CoapPeer(("session", 1), "pump", "pump", is_address_proven=True)
STRANGER = CoapPeer(("192.0.2.1", 5683), "192.0.2.1")
TEMPERATURE: tuple[Option, ...] = ((URI_PATH, b"temperature"),)
WARM = CoapResponse(codes.CONTENT, (), b"22.3 C")


def drawn() -> Callable[[int], bytes]:
    """Bytes that differ from call to call and are the same in each run."""
    numbers = itertools.count(1)
    return lambda size: next(numbers).to_bytes(size, "big") if size > 1 else b"\0"


class World:
    """An engine, its time, and what it sends."""

    def __init__(self, limits: EngineLimits | None = None) -> None:
        self.engine = Engine(drawn(), limits or EngineLimits())
        self.now = 100.0

    def receive(self, message: CoapMessage | bytes, peer: CoapPeer = PUMP) -> list[RequestReceived]:
        datagram = message if isinstance(message, bytes) else message.encode()
        self.engine.receive_datagram(datagram, peer, self.now)
        return [event for event in self.engine.events() if isinstance(event, RequestReceived)]

    def ask(self, message: CoapMessage, peer: CoapPeer = PUMP) -> RequestReceived:
        (asked,) = self.receive(message, peer)
        return asked

    def respond(self, asked: RequestReceived, response: CoapResponse = WARM) -> None:
        self.engine.respond(asked.exchange, response, self.now)

    def sent(self) -> list[CoapMessage]:
        return [decode(datagram) for datagram, _ in self.engine.datagrams_to_send()]

    def wait(self, seconds: float) -> None:
        """Let time pass, with the engine's timers at their times."""
        until = self.now + seconds
        while (due := self.engine.next_timer()) is not None and due <= until:
            self.now = max(self.now, due)
            self.engine.handle_timer(self.now)
        self.now = until


def get(message_id: int = 0x7D34, token: bytes = b"\x20", *options: Option) -> CoapMessage:
    return CoapMessage(CON, codes.GET, message_id, token, tuple(sorted((*TEMPERATURE, *options))))


def seen(messages: list[CoapMessage]) -> list[tuple[int, int, int, bytes, bytes]]:
    return [(m.type, m.code, m.message_id, m.token, m.payload) for m in messages]


def observe(message_id: int = 1, token: bytes = b"\x4a") -> CoapMessage:
    return get(message_id, token, (OBSERVE, b""))
