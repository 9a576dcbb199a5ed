"""Reads messages that wait for their sessions in the log, or were put by before it let them go.

What damage has taken from the log neighbours may bring back: it is waited for as for a log that
can't be read now, and found in its order; but not for long, for nobody may have it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.durability.history import History
from gateway.broker.durability.store import Store
from gateway.broker.outbound.message import Message
from gateway.log.errors import LogError
from gateway.mqtt import PacketError
from tree_handler import batch
from tree_handler.batch import MAX_NUMBER, Epoch, Header, Ref
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals

PIECE_BYTES: Final = 64 << 10
"""About so much is read at once; a larger batch is read nevertheless."""
NUMBERS_MAX: Final = 1_024
AWAITED_S: Final = 30.0
AGAIN_S: Final = 600.0
"""A message that the log has lost is waited for so long since it was missed, and again after it."""
UNREADABLE: Final = "messages that wait in the log can't be read now; they keep their places"

_log = logging.getLogger(__name__)


class QueueLogReader:
    """The log of one broker, as its sessions' queues read it: a `QueueLog`.

    Args:
        history: the log.
        now: the loop's clock, in seconds.

    Attributes:
        spared: where else to look for what the log does not have; None for nowhere.
        waits: whether what is lost is waited for: not while a start reads what was sent.

    """

    def __init__(self, history: History, now: Callable[[], float]) -> None:
        self.spared: Store | None = None
        self.waits = False
        self._history = history
        self._now = now
        self._numbers = 64
        """The count of messages that were about `PIECE_BYTES` last."""
        self._failures = CountedLines(_log, now)
        self._missed: dict[Epoch, dict[tuple[int, int], float]] = {}
        """The time when each range that the log lacks was first missed, by stream."""

    def messages(self, key: Epoch, first: int, last: int) -> tuple[dict[int, Message], int]:
        """Read some of what waits: see `QueueLog`."""
        try:
            return self._read(key, first, last)
        except OSError as error:
            if self._numbers == 1:
                self._failures.count(UNREADABLE, str(error), level=logging.ERROR)
                raise
        # What stands before the place that can't be read is not to wait for it.
        self._numbers = 1
        return self.messages(key, first, last)

    def has(self, ref: Ref) -> bool:
        """Tell whether the log has a message: see `QueueLog`."""
        return self._history.where(*ref) < self._history.position

    def _read(self, key: Epoch, first: int, last: int) -> tuple[dict[int, Message], int]:
        until = min(last, first + self._numbers - 1)
        found: dict[int, Message] = {}
        stated = Intervals()
        size_bytes = 0
        for frame, header in self._history.read(key, first, until):
            size_bytes += len(frame)
            self._decode(frame, header, found)
            stated.add(header.first, header.last)
            until = max(until, header.last)
        until = self._add_spared(key, first, min(until, last), found)
        numbers = (n for gap in stated.missing(first, until) for n in range(gap[0], gap[1] + 1))
        awaited = self._awaited(key, [n for n in numbers if n not in found])
        until = min(until, next(awaited, until + 1) - 1)
        if until < first and self.waits:
            raise LogError(f"{key[0]}/{key[1]} {first} can't be read, and may be again")
        until = max(until, first)
        if size_bytes > PIECE_BYTES:
            self._numbers = max(1, self._numbers // 2)
        else:
            self._numbers = min(NUMBERS_MAX, self._numbers * 2)
        return found, until

    def _awaited(self, key: Epoch, numbers: list[int]) -> Iterator[int]:
        """Yield those of some numbers, which could not be read, that may be there again: for each
        range that is lost there is a time of its own, and one that came back and is lost again is
        new."""
        before = self._missed.pop(key, {})
        if not (numbers or before):
            return
        now_s = self._now()
        before = {part: since_s for part, since_s in before.items() if now_s - since_s < AGAIN_S}
        lacking = self._history.lacks(key, 1, MAX_NUMBER, may_wait=self.waits)
        missed = {part: before.get(part, now_s) for part in lacking if numbers or part in before}
        self._missed = {k: s for k, s in self._missed.items() if now_s - max(s.values()) < AGAIN_S}
        if missed:
            self._missed[key] = missed
        awaited = Intervals(part for part in missed if now_s - missed[part] < AWAITED_S)
        lost = Intervals(lacking)
        for number in numbers:
            if number in awaited or (number not in lost and self.has((key, number))):
                yield number

    def _add_spared(self, key: Epoch, first: int, until: int, found: dict[int, Message]) -> int:
        """Add what was put by; the number up to which that is all."""
        if self.spared is None or not self.spared.has_spared:
            return until
        if all(number in found for number in range(first, until + 1)):
            return until
        size_bytes, now_s = 0, self._now()
        for number, entry in self.spared.spared(key, first, until):
            if number not in found:
                message = found[number] = Message.of(entry, now_s)
                message.ref, message.sharing = (key, number), (key[0], entry.holders)
                size_bytes += message.size_bytes
                if size_bytes > PIECE_BYTES:
                    return number
        return until

    def _decode(self, frame: bytes, header: Header, found: dict[int, Message]) -> None:
        if header.passed:
            return
        now_s = self._now()
        try:
            for number, entry in enumerate(batch.decode(frame, header), header.first):
                message = found[number] = Message.of(entry, now_s)
                message.ref = header.stream, number
                message.sharing = header.origin, entry.holders
        except (BatchError, PacketError) as error:
            _log.error("%s: %s", header, error)
