"""A client's further packets wait for a decision that takes time, or for the turns of others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from gateway.broker.outbound.channel import Channel
from gateway.mqtt import PacketError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ReadGate:
    """Holds the packets of one connection back until what they wait for is decided.

    Args:
        channel: is not read from meanwhile.
        go_on: handles the packets that waited.
        fail: is told that what was decided shows that the client broke the protocol.

    Attributes:
        verdict: what packets wait for; None if they need not.

    """

    __slots__ = ("_channel", "_fail", "_go_on", "verdict")

    def __init__(
        self,
        channel: Channel,
        go_on: Callable[[], None],
        fail: Callable[[PacketError], None],
    ) -> None:
        self._channel = channel
        self._go_on = go_on
        self._fail = fail
        self.verdict: asyncio.Future[Any] | None = None

    def for_verdict(self, verdict: Awaitable[T], then: Callable[[T | None], None]) -> None:
        """Let packets wait; ``then`` gets the result, None if it failed."""
        task = asyncio.ensure_future(verdict)
        self.verdict = task
        self._channel.stall()
        task.add_done_callback(lambda done: self._decided(done, then))

    def end(self) -> None:
        """The connection is no more, and is let go of: it holds this gate, which held it."""
        self._go_on = self._fail = _nobody_is_told
        verdict, self.verdict = self.verdict, None
        if verdict is not None:
            verdict.cancel()

    def _decided(self, done: asyncio.Future[Any], then: Callable[[Any], None]) -> None:
        if done.cancelled() or self.verdict is not done:
            return
        self.verdict = None
        self._channel.resume()
        error = done.exception()
        if error is not None:
            _log.error("%s: a decision failed: %s", self._channel, error, exc_info=error)
        if self._channel.is_closing:
            return
        try:
            then(None if error is not None else done.result())
        except PacketError as broken:
            self._fail(broken)
        except Exception:
            self._channel.abort()  # it would wait for an answer, and for its further packets
            raise
        self._go_on()


def _nobody_is_told(*_error: PacketError) -> None:
    pass
