"""A server without a socket and with a time of its own, for ETSI's plugtests of CoAP.

It is the engine with what answers for a gateway's resources; messages are written as in
`coap_script`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from coap_script import Line, matched

from coap_engine.engine import Engine
from coap_engine.errors import UnknownExchangeError
from coap_engine.limits import EngineLimits
from coap_engine.message import CoapPeer, CoapResponse, ExchangeEnded, RequestReceived
from coap_engine.observation import ConfirmRules
from dtls.datagrams import PeerAddress
from gateway.coap.answers import Answers
from gateway.coap.requester import plain_requester
from gateway.coap.responders import ImmediateResponder
from tests.policies import open_access

CLIENT = CoapPeer(("session", 1), "psk:client", "psk:client", is_address_proven=True)
EACH_CONFIRMED = ConfirmRules(every=1)
"""Of servers whose notifications are confirmable."""
_TURNS = 30


def _drawn(size: int) -> bytes:
    """Bytes that differ from call to call and are the same in each run."""
    return next(_numbers).to_bytes(size, "big") if size > 1 else b"\0"


_numbers = itertools.count(1)


class Plug:
    """One server, and the client that is plugged to it.

    Args:
        site: what it serves.
        at_hand: answer before the site is asked.
        confirm: which notifications are confirmable.

    """

    def __init__(
        self,
        site: Any,
        at_hand: Sequence[ImmediateResponder] = (),
        confirm: ConfirmRules = EACH_CONFIRMED,
    ) -> None:
        self.engine = Engine(_drawn, EngineLimits(confirm=confirm))
        remote = plain_requester(PeerAddress(("192.0.2.1", 1)), ("192.0.2.2", 5683))
        self.answers = Answers(site, open_access(), at_hand, lambda _peer: remote)
        self.now = 1_000.0
        self.named: dict[str, str] = {}
        self.last: Line = Line.parse("CON 0.00 0000 -")
        self._sent: deque[Line] = deque()

    async def play(self, script: str) -> None:
        """Play a script; what does not come as it stands there fails the test."""
        for line in filter(None, map(str.strip, script.splitlines())):
            side, _, text = line.partition(" ")
            for name, value in self.named.items():
                text = text.replace(f"{{{name}}}", value)
            if side == ">":
                self.engine.receive_datagram(Line.parse(text).encode(), CLIENT, self.now)
            await self.settle()
            if side == "<":
                assert self._sent, f"nothing came, expected: {text}"
                self.named |= matched(text, await self.take())
            elif side == "<-":
                assert not self._sent, f"came, and nothing was expected: {self._sent[0]}"

    def send_text(self, head: str, payload: str) -> None:
        """Send a message whose payload has line ends."""
        line = dataclasses.replace(Line.parse(head), payload=payload)
        self.engine.receive_datagram(line.encode(), CLIENT, self.now)

    @property
    def has_come(self) -> bool:
        """Return whether a message came that nobody has taken yet."""
        return bool(self._sent)

    async def take(self) -> Line:
        """The next message that came."""
        await self.settle()
        self.last = self._sent.popleft()
        return self.last

    async def wait(self, seconds: float) -> None:
        """Let time pass, with the engine's timers at their times."""
        until = self.now + seconds
        await self.settle()
        while (due := self.engine.next_timer()) is not None and due <= until:
            self.now = max(self.now, due)
            self.engine.handle_timer(self.now)
            await self.settle()
        self.now = until

    async def settle(self) -> None:
        """Let everything go on that can."""
        for _ in range(_TURNS):
            for event in self.engine.events():
                if isinstance(event, RequestReceived):
                    self._answer(event)
                elif isinstance(event, ExchangeEnded):
                    self.answers.ended(event.exchange)
            for datagram, _peer in self.engine.datagrams_to_send():
                self._sent.append(Line.decode(datagram))
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Leave no task."""
        await self.answers.stop()

    def _answer(self, asked: RequestReceived) -> None:
        answer = self.answers.asked(asked, self.now, self._respond, lambda *_: None)
        if answer is not None:
            self._respond(asked.exchange, *answer)

    def _respond(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        with suppress(UnknownExchangeError):  # nobody waits for it any more
            self.engine.respond(exchange, response, self.now, is_last=is_last)
