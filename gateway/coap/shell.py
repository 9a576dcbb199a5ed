"""The shell around `coap_engine`: feeds it, has its requests answered, and sends what it says."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from coap_engine import codes
from coap_engine.engine import Engine
from coap_engine.errors import UnknownExchangeError
from coap_engine.message import (
    CoapEvent,
    CoapPeer,
    CoapRequest,
    CoapResponse,
    ExchangeEnded,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
)
from dtls.core_timer import CoreTimer
from dtls.datagrams import TURN_S
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.answers import RequestAnswers
from gateway.coap.refusals import RefusalLog

_FAILED: Final = CoapResponse(codes.INTERNAL_SERVER_ERROR)

_log = logging.getLogger(__name__)


class EngineShell:
    """One engine on the event loop, whatever ports its datagrams come from.

    Args:
        engine: the core.
        answers: who answers requests.
        flush: sends what those took that `sends_by` names.

    """

    def __init__(
        self,
        engine: Engine,
        answers: RequestAnswers,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._answers = answers
        self._senders: dict[type, Callable[[bytes, Any], None]] = {}
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._timer = CoreTimer(self._on_timer)
        self._refusals = RefusalLog(self.refusals)
        self._failures = Failures(CountedLines(_log, time.monotonic))
        # In the order in which they came; of an observation only the newest waits.
        self._later: dict[int, tuple[CoapResponse, bool]] = {}
        self._telling: asyncio.Handle | None = None
        self._awaited: dict[int, Callable[[CoapResponse | None], None]] = {}
        self._closed = False

    def sends_by(self, kind: type, send: Callable[[bytes, Any], None]) -> None:
        """Send what is for peers whose address is of a kind by this, with that address."""
        self._senders[kind] = send

    def answer_by(self, answers: RequestAnswers) -> None:
        """From now on requests are answered by another one, who answers what is open, too."""
        self._answers = answers

    def refusals(self) -> dict[str, int]:
        """Return what peers were refused since the start, how often, by kind."""
        return (
            self._engine.shares.refusals()
            | self._answers.refusals()
            | {"echo": self._engine.freshness.refused}
        )

    def events(self) -> dict[str, int]:
        """Return what the engine counted since the start."""
        return asdict(self._engine.counters) | {"echo_asked": self._engine.freshness.asked}

    def held(self) -> dict[str, int]:
        """Return what peers have taken of what is limited in all."""
        shares = self._engine.shares
        return {
            "requests": shares.requests.held,
            "observations": shares.observations.held,
            "bytes": shares.held_bytes.held,
        }

    def receive(self, datagram: bytes, peer: CoapPeer, now: float) -> None:
        """Take a datagram; answers that are at hand are given at once."""
        self._engine.receive_datagram(datagram, peer, now)
        self._serve(now)

    def ask(
        self, peer: CoapPeer, request: CoapRequest, done: Callable[[CoapResponse | None], None]
    ) -> None:
        """Ask a peer, where it asked from itself.

        Args:
            peer: whom.
            request: what; its body fits into one datagram.
            done: takes the response, which is whole; None if there is none.

        """
        self._awaited[self._engine.request(peer, request, self._loop.time())] = done

    def forget(self, peer: CoapPeer, now: float) -> None:
        """A peer's session is gone."""
        self._engine.forget_peer(peer)
        self._serve(now)

    def turn_ended(self, now: float) -> None:
        """Send what there is to send."""
        datagrams = self._engine.datagrams_to_send()
        for datagram, peer in datagrams:
            self._senders[type(peer.address)](datagram, peer.address)
        if datagrams:
            self._flush()
        self._timer.set(self._engine.next_timer())
        self._refusals.look_soon()

    def close(self) -> None:
        """Say and do nothing any more."""
        self._closed = True
        self._timer.cancel()
        self._refusals.close()
        if self._telling is not None:
            self._telling.cancel()

    def _serve(self, now: float) -> None:
        while events := self._engine.events():
            for event in events:
                try:
                    if isinstance(event, RequestReceived):
                        self._answer(event, now)
                    else:
                        self._take(event)
                except Exception as error:  # those that came with it are dealt with all the same
                    self._failures.failed("CoAP event", error)

    def _take(self, event: CoapEvent) -> None:
        match event:
            case ExchangeEnded(exchange):
                self._later.pop(exchange, None)
                self._answers.ended(exchange)
            case ResponseReceived(exchange, response):
                self._awaited.pop(exchange)(response)
            case RequestFailed(exchange, why):
                _log.debug("own request %d: %s", exchange, why)
                self._awaited.pop(exchange)(None)

    def _answer(self, asked: RequestReceived, now: float) -> None:
        try:
            answer = self._answers.asked(asked, now, self._respond_later, self.ask)
        except Exception as error:
            self._failures.failed("answer a request", error)
            answer = (_FAILED, True)
        if answer is not None:
            self._respond(asked.exchange, *answer, now)

    def _respond(self, exchange: int, response: CoapResponse, is_last: bool, now: float) -> None:
        try:
            self._engine.respond(exchange, response, now, is_last=is_last)
        except UnknownExchangeError:
            _log.debug("exchange %d is over", exchange)
        except Exception as error:  # a response that can't be encoded, say
            self._failures.failed("respond to a request", error, str(exchange))

    def _respond_later(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        if self._closed:
            return
        self._later[exchange] = (response, is_last)
        if self._telling is None:
            self._telling = self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        """Respond in slices: a sensor may have thousands of observers."""
        self._telling = None
        now = self._loop.time()
        until = time.monotonic() + TURN_S
        while self._later:
            exchange = next(iter(self._later))
            self._respond(exchange, *self._later.pop(exchange), now)
            if time.monotonic() >= until:
                break
        self._serve(now)
        self.turn_ended(now)
        if self._later and self._telling is None:
            self._telling = self._loop.call_soon(self._tell)

    def _on_timer(self) -> None:
        now = self._loop.time()
        self._engine.handle_timer(now)
        self._serve(now)
        self.turn_ended(now)
