"""A client's further packets wait for a decision that takes time, or for the turns of others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from gateway.broker.outbound.channel import Channel
from gateway.mqtt import PacketError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class PacketReader(Protocol):
    """Handles the packets of one connection."""

    def go_on(self) -> None:
        """Handle those that waited for something."""

    def fail(self, error: PacketError) -> None:
        """Be told that the client broke the protocol."""


class ReadGate:
    """Holds the packets of one connection back until what they wait for is decided.

    Args:
        channel: is not read from meanwhile.
        reader: handles the packets that waited; is told where what was decided shows that the
            client broke the protocol.

    Attributes:
        verdict: what packets wait for; None if they need not.

    """

    __slots__ = ("_channel", "_reader", "verdict")

    def __init__(self, channel: Channel, reader: PacketReader) -> None:
        self._channel = channel
        # Not its methods: bound ones take 140 bytes of each connection.
        self._reader: PacketReader | None = reader
        self.verdict: asyncio.Future[Any] | None = None

    def for_verdict(self, verdict: Awaitable[T], then: Callable[[T | None], None]) -> None:
        """Let packets wait; ``then`` gets the result, None if it failed."""
        task = asyncio.ensure_future(verdict)
        self.verdict = task
        self._channel.stall()
        task.add_done_callback(lambda done: self._decided(done, then))

    def end(self) -> None:
        """The connection is no more, and is let go of: it holds this gate, which held it."""
        self._reader = None
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
            if self._reader is not None:
                self._reader.fail(broken)
        except Exception:
            self._channel.abort()  # it would wait for an answer, and for its further packets
            raise
        if self._reader is not None:
            self._reader.go_on()
