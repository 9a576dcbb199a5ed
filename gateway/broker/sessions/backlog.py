"""What waits for one client: a few messages in memory, and behind them places in the log.

The log has every message of QoS 1 and 2, so a session whose client is away keeps where its
messages stand there, as a consumer of a log does, and reads them when the client does. Memory does
not grow with absence: numbers that follow each other are one range. What is bounded is the disk;
what the log no longer has when its turn comes is dropped, and counted.

In memory stay the first `HEAD_BYTES`, what has no place in the log, and what was retained before
the client subscribed, for that may be older than the log. The order is that of arrival throughout.

While the log can't be read they keep their places, and are tried again after pauses that grow.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.message import RETAIN, LearntMessage, Message
from gateway.broker.sessions.logged import Logged
from gateway.pauses import GrowingPause
from tree_handler.batch import Epoch, Ref

HEAD_BYTES: Final = 16 << 10
"""Messages that wait for a client are kept in memory up to about so much."""
_NEAR_HEAD: Final = 4_096

PAUSE_S: Final = 0.5
"""So long after the log could not be read it is tried again; each time twice as long."""
PAUSE_MAX_S: Final = 30.0

Delivery = tuple[Message, int, tuple[int, ...]]
"""A message, the flags it is delivered with, and the subscription identifiers."""


class Places:
    """Messages of one stream that are delivered alike, by their numbers there.

    Args:
        key: the stream.
        flags: with which they are delivered.
        identifiers: of the subscriptions.
        expires_at_s: when they expire, on the loop's clock; None if they do not.
        ranges: first and last numbers in turn, ascending.

    Attributes:
        count: how many messages they are.

    """

    __slots__ = ("_at", "_ranges", "count", "expires_at_s", "flags", "identifiers", "key")

    def __init__(
        self,
        key: Epoch,
        flags: int,
        identifiers: tuple[int, ...],
        expires_at_s: float | None,
        ranges: list[int],
    ) -> None:
        self.key = key
        self.flags = flags
        self.identifiers = identifiers
        self.expires_at_s = expires_at_s
        self._ranges = array("Q", ranges)
        self._at = 0
        self.count = sum(ranges[1::2]) - sum(ranges[::2]) + len(ranges) // 2

    @property
    def first(self) -> int:
        """The lowest number."""
        return self._ranges[self._at]

    @property
    def last(self) -> int:
        """The highest number."""
        return self._ranges[-1]

    def ranges(self) -> list[int]:
        """First and last numbers in turn."""
        return list(self._ranges[self._at :])

    def copy(self) -> Places:
        """One that does not change with this one."""
        return Places(self.key, self.flags, self.identifiers, self.expires_at_s, self.ranges())

    def add(self, delivery: Delivery) -> bool:
        """Take one more message; whether it is delivered as these are, and comes behind them."""
        message, flags, identifiers = delivery
        if (
            message.ref is None
            or message.ref[1] <= self._ranges[-1]
            or message.ref[0] != self.key
            or flags != self.flags
            or identifiers != self.identifiers
            or message.expires_at_s != self.expires_at_s
        ):
            return False
        number = message.ref[1]
        if number == self._ranges[-1] + 1:
            self._ranges[-1] = number
        else:
            self._ranges.extend((number, number))
        self.count += 1
        return True

    def take(self, last: int) -> Iterator[int]:
        """Take out the numbers up to one, in their order."""
        ranges = self._ranges
        while self.count and ranges[self._at] <= last:
            number = ranges[self._at]
            self.count -= 1
            if number == ranges[self._at + 1]:
                self._at += 2
            else:
                ranges[self._at] = number + 1
            yield number


class Backlog:
    """The queue of one session.

    Args:
        limits: of queues.
        budget: of all queues together.
        log: from which messages are read again; None where there is none.

    Attributes:
        count: messages that wait.
        taken: messages that waited before and do no longer, ever.
        size_bytes: of those in memory.
        dropped: messages that found no room, had expired, or that the log no longer had.

    """

    __slots__ = (
        "_budget",
        "_items",
        "_limits",
        "_log",
        "_pause",
        "_ready",
        "count",
        "dropped",
        "size_bytes",
        "taken",
    )

    def __init__(self, limits: Limits, budget: Budget, log: Logged | None) -> None:
        self._limits = limits
        self._budget = budget
        self._log = log
        self._ready: deque[Delivery] = deque()
        """What was read from the log, before all else."""
        self._items: deque[Delivery | Places] = deque()
        self._pause: GrowingPause | None = None
        self.count = self.taken = self.size_bytes = self.dropped = 0

    def add(self, delivery: Delivery) -> None:
        """Let a message wait, or drop it if there is no room."""
        message, flags, _ = delivery
        limits, budget, size = self._limits, self._budget, message.size_bytes
        has_room = (
            self.size_bytes + size <= limits.queue_bytes
            and budget.used_bytes + size <= budget.limit_bytes
        )
        if self.count >= limits.queue_messages:
            self.drop()
        elif self._log is None or message.ref is None or self._stays(message, flags, has_room):
            if has_room:
                self._keep(delivery)
            else:
                self.drop()
        elif (
            has_room
            and self.size_bytes + size <= HEAD_BYTES
            and not (self._items and isinstance(self._items[-1], Places))
        ):
            self._keep(delivery)
        else:
            self._refer(message.ref, delivery)

    def _stays(self, message: Message, flags: int, has_room: bool) -> bool:
        """Whether a message must not be looked for in the log, or need not."""
        if isinstance(message, LearntMessage) and message.ref is not None and self._log is not None:
            return has_room or not self._log.has(message.ref)
        return bool(flags & RETAIN and has_room)

    @property
    def is_held_up(self) -> bool:
        """Whether the log could not be read: `take` is to be called again."""
        return self._pause is not None

    def take(self, now_s: float) -> Delivery | None:
        """The next message, which waits no longer; None if there is no more.

        Nor is there one before a log that could not be read is tried again.
        """
        while self.count:
            if self._ready:
                return self._left(self._ready.popleft())
            item = self._items[0]
            if isinstance(item, Places):
                if not self._could_read(item, now_s):
                    return None
            else:
                self._items.popleft()
                return self._left(item)
        return None

    def _could_read(self, places: Places, now_s: float) -> bool:
        pause = self._pause
        if pause is not None and now_s < pause.until_s:
            return False
        try:
            self._read(places)
        except OSError:
            self._pause = pause or GrowingPause(PAUSE_S, PAUSE_MAX_S)
            self._pause.failed(now_s)
            self._budget.unread += 1
            return False
        self._pause = None
        return True

    def drop(self, count: int = 1) -> None:
        """Messages are not delivered for want of room or time."""
        self.dropped += count
        self._budget.dropped += count

    def clear(self) -> None:
        """Nothing waits any more."""
        self._budget.used_bytes -= self.size_bytes
        self._ready.clear()
        self._items.clear()
        self._pause = None
        self.taken += self.count
        self.count = self.size_bytes = 0

    def in_memory(self) -> Iterator[Delivery]:
        """What waits and is in memory, in its order."""
        yield from self._ready
        yield from (item for item in self._items if not isinstance(item, Places))

    def _keep(self, delivery: Delivery) -> None:
        self._items.append(delivery)
        self._arrived(delivery)
        self.count += 1

    def _arrived(self, delivery: Delivery) -> None:
        self.size_bytes += delivery[0].size_bytes
        self._budget.used_bytes += delivery[0].size_bytes

    def _left(self, delivery: Delivery) -> Delivery:
        self.size_bytes -= delivery[0].size_bytes
        self._budget.used_bytes -= delivery[0].size_bytes
        self.count -= 1
        self.taken += 1
        return delivery

    def _refer(self, ref: Ref, delivery: Delivery) -> None:
        self.count += 1
        last = self._items[-1] if self._items else None
        if not (isinstance(last, Places) and last.add(delivery)):
            self._items.append(_place(ref, delivery))

    def _read(self, places: Places) -> None:
        """Read some of the first places; where that raises OSError, they stay where they are."""
        found: dict[int, Message] = {}
        until = places.last
        if self._log is not None:
            found, until = self._log.messages(places.key, places.first, until)
        missed = 0
        for number in places.take(until):
            message = found.get(number)
            if message is None:
                missed += 1
                continue
            message.expires_at_s = places.expires_at_s
            delivery = (message, places.flags, places.identifiers)
            self._ready.append(delivery)
            self._arrived(delivery)
        self.count -= missed
        self.taken += missed
        self.dropped += missed
        self._budget.trimmed += missed
        if not places.count:
            self._items.popleft()

    # -- over a crash ------------------------------------------------------------------------

    def saved(self) -> list[Delivery | Places]:
        """What a checkpoint needs of it, in its order.

        What was read from the log is in it by its places, for there it is.
        """
        found: list[Delivery | Places] = []
        for delivery in self._ready:
            last = found[-1] if found else None
            message, flags, _ = delivery
            if message.ref is None or flags & RETAIN or isinstance(message, LearntMessage):
                found.append(delivery)
            elif not (isinstance(last, Places) and last.add(delivery)):
                found.append(_place(message.ref, delivery))
        for item in self._items:
            found.append(item.copy() if isinstance(item, Places) else item)
        return found

    def restore(self, item: Delivery | Places) -> None:
        """Have what a checkpoint names wait again, behind what is there."""
        if isinstance(item, Places):
            self._items.append(item)
            self.count += item.count
        else:
            self._keep(item)

    def remove(self, ref: Ref, flags: int) -> Delivery | None:
        """Take the message of a reference from the head, or close behind it.

        Args:
            ref: which message.
            flags: it may wait more than once, as what was retained too; that with these flags is
                taken, wherever it stands, before any other.
        """
        for wanted in (flags, None):
            while (found := self._remove(ref, wanted)) is None:
                if not self._reads_on(ref, wanted):
                    break
            if found is not None:
                return self._left(found)
        return None

    def _remove(self, ref: Ref, flags: int | None) -> Delivery | None:
        for queue in (self._ready, self._items):
            at = _position(queue, ref, flags)
            if at >= 0:
                found = queue[at]
                del queue[at]
                if not isinstance(found, Places):
                    return found
        return None

    def is_trimmed(self, ref: Ref) -> bool:
        """Whether the log does not have a message any more; OSError if it can't be read."""
        key, number = ref
        return self._log is not None and number not in self._log.messages(key, number, number)[0]

    def _reads_on(self, ref: Ref, flags: int | None) -> bool:
        """Read on towards a message that stands in the log; whether it was among the places."""
        for item in self._items:
            if isinstance(item, Places) and item.key == ref[0]:
                if not item.first <= ref[1] <= item.last or flags not in (None, item.flags):
                    continue
                while (before := self._items[0]) is not item:
                    if isinstance(before, Places):
                        self._read(before)
                    else:
                        self._ready.append(before)
                        self._items.popleft()
                self._read(item)
                return True
        return False

    def adopt(self, limits: Limits, budget: Budget) -> None:
        """What was restored without limits counts for these from now on."""
        self._limits = limits
        budget.used_bytes += self.size_bytes
        self._budget = budget


def _place(ref: Ref, delivery: Delivery) -> Places:
    message, flags, identifiers = delivery
    key, number = ref
    return Places(key, flags, identifiers, message.expires_at_s, [number, number])


def _position(
    queue: deque[Delivery] | deque[Delivery | Places], ref: Ref, flags: int | None
) -> int:
    """Where in a queue a message waits, with these flags or any; less than 0 if nowhere near."""
    for at, item in enumerate(islice(queue, _NEAR_HEAD)):
        if not isinstance(item, Places) and item[0].ref == ref and flags in (None, item[1]):
            return at
    return -1
