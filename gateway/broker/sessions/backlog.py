"""The backlog of one client: a few messages in memory, and behind them places in the log.

The log has every message of QoS 1 and 2, so a session whose client is away keeps where its
messages stand there, as a consumer of a log does, and reads them when the client does. Memory does
not grow with absence: numbers that follow each other are one run, and whatever else may alternate
is packed (`places`) and counted. What is bounded is the disk; what the log no longer has when its
turn comes is dropped, and counted.

In memory stay the first `HEAD_BYTES`, what has no place in the log, and what was retained before
the client subscribed, for that may be older than the log. The order is that of arrival throughout.

While the log can't be read they keep their places, and are tried again after pauses that grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from gateway.base.pauses import GrowingPause
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.message import RETAIN, LearntMessage, Message
from gateway.broker.sessions.places import Places, WaitingRun
from gateway.broker.sessions.queue_log import QueueLog, read_first
from tree_handler.batch import Epoch, Ref
from tree_handler.intervals import Intervals

HEAD_BYTES: Final = 16 << 10
"""Messages that wait for a client are kept in memory up to about so much."""
PLACES_BYTES: Final = 4 << 10
"""A session's places always have so much, however much those of others take."""
_NEAR_HEAD: Final = 4_096

PAUSE_S: Final = 0.5
"""So long after the log could not be read it is tried again; each time twice as long."""
PAUSE_MAX_S: Final = 30.0

QueuedDelivery = tuple[Message, int, tuple[int, ...]]
"""A message, the flags it is delivered with, and the subscription identifiers."""


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
        places_bytes: what the places of the others take.
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
        "places_bytes",
        "size_bytes",
        "taken",
    )

    def __init__(self, limits: Limits, budget: Budget, log: QueueLog | None) -> None:
        self._limits = limits
        self._budget = budget
        self._log = log
        # An empty deque takes 760 bytes, and most sessions never let anything wait.
        self._ready: deque[QueuedDelivery] | None = None
        """The messages that were read from the log, before all else."""
        self._items: deque[QueuedDelivery | Places] | None = None
        self._pause: GrowingPause | None = None
        self.count = self.taken = self.size_bytes = self.places_bytes = self.dropped = 0

    def add(self, delivery: QueuedDelivery, *, retained: bool = False) -> None:
        """Let a message wait, or drop it if there is no room.

        Args:
            delivery: the message, and how it is delivered.
            retained: because of a new subscription: it may be older than the log.

        """
        message = delivery[0]
        size = message.size_bytes
        has_room = self._has_room(size)
        if self.count >= self._limits.queue_messages:
            self.drop()
        elif self._log is None or message.ref is None or self._stays(message, retained, has_room):
            self.inherit(delivery)
        elif (
            has_room
            and self.size_bytes + size <= HEAD_BYTES
            and not (self._items and isinstance(self._items[-1], Places))
        ):
            self._keep(delivery)
        else:
            self._refer(delivery)

    def _stays(self, message: Message, retained: bool, has_room: bool) -> bool:
        """Return whether a message must not be looked for in the log, or need not."""
        if isinstance(message, LearntMessage) and message.ref is not None and self._log is not None:
            return has_room or not self._log.has(message.ref)
        return retained and has_room

    @property
    def room(self) -> int:
        """Return how many more messages may wait."""
        return self._limits.queue_messages - self.count

    def inherit(self, item: QueuedDelivery | Places) -> None:
        """Let messages wait, those not in places in memory; drop them if there is no room."""
        if isinstance(item, Places):
            count, has_room = item.count, self._has_room_for_places(item.size_bytes)
        else:
            count, has_room = 1, self._has_room(item[0].size_bytes)
        if has_room:
            self.restore(item)
        else:
            self.drop(count)

    def _has_room(self, size: int) -> bool:
        budget = self._budget
        return (
            self.size_bytes + size <= self._limits.queue_bytes
            and budget.used_bytes + size <= budget.limit_bytes
        )

    @property
    def is_held_up(self) -> bool:
        """Return whether the log could not be read: `take` is to be called again."""
        return self._pause is not None

    def take(self, now_s: float) -> QueuedDelivery | None:
        """Return the next message, which waits no longer; None if there is no more.

        Nor is there one before a log that could not be read is tried again.
        """
        while self.count:
            if self._ready:
                return self._left(self._ready.popleft())
            items = self._items
            assert items is not None  # something waits, and is not ready
            item = items[0]
            if isinstance(item, Places):
                if not self._could_read(item, now_s):
                    return None
            else:
                items.popleft()
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
        self._has_places(-self.places_bytes)
        self._ready = self._items = None
        self._pause = None
        self.taken += self.count
        self.count = self.size_bytes = 0

    def in_memory(self) -> Iterator[QueuedDelivery]:
        """Yield what waits and is in memory, in its order."""
        yield from self._ready or ()
        yield from (item for item in self._items or () if not isinstance(item, Places))

    def _queue(self) -> deque[QueuedDelivery | Places]:
        """Return what waits behind the messages that were read; made when it is first asked for."""
        items = self._items
        if items is None:
            items = self._items = deque()
        return items

    def _last(self) -> QueuedDelivery | Places | None:
        return self._items[-1] if self._items else None

    def _make_ready(self, delivery: QueuedDelivery) -> None:
        if self._ready is None:
            self._ready = deque()
        self._ready.append(delivery)

    def _keep(self, delivery: QueuedDelivery) -> None:
        if self._items is None:  # as `_queue` does, for each message that waits
            self._items = deque()
        self._items.append(delivery)
        self._arrived(delivery)
        self.count += 1

    def _arrived(self, delivery: QueuedDelivery) -> None:
        self.size_bytes += delivery[0].size_bytes
        self._budget.used_bytes += delivery[0].size_bytes

    def _left(self, delivery: QueuedDelivery) -> QueuedDelivery:
        self.size_bytes -= delivery[0].size_bytes
        self._budget.used_bytes -= delivery[0].size_bytes
        self.count -= 1
        self.taken += 1
        return delivery

    def _refer(self, delivery: QueuedDelivery) -> None:
        """Let a message wait in the log, or drop it if there is no room for its place."""
        last = self._last()
        message, flags, identifiers = delivery
        if isinstance(last, Places) and last.grow(message, flags, identifiers):
            self.count += 1
            return
        run = WaitingRun.of(message, flags, identifiers)
        if isinstance(last, Places) and not last.is_full:
            places, more = last, last.cost(run)
        else:
            places = Places()
            more = places.size_bytes + places.cost(run)
        if not more or self._has_room_for_places(more):
            self._place(places, run)
        else:
            self.drop()

    def _has_room_for_places(self, more: int) -> bool:
        size, budget = self.places_bytes + more, self._budget
        return size <= PLACES_BYTES or (
            size <= self._limits.queue_bytes
            and budget.places_bytes + more <= budget.places_bytes_max
        )

    def _place(self, places: Places, run: WaitingRun) -> None:
        """Put a run into the last places; they are new if nothing is in them."""
        before = places.size_bytes
        if not places.count:
            self._queue().append(places)
            before = 0
        self.count += run.count
        places.add(run)
        self._has_places(places.size_bytes - before)

    def _has_places(self, more: int) -> None:
        self.places_bytes += more
        self._budget.places_bytes += more

    def _read(self, places: Places) -> None:
        """Read some of the first places; where that raises OSError, they stay where they are."""
        found, passed = read_first(self._log, places)
        for delivery in found:
            self._make_ready(delivery)
            self._arrived(delivery)
        items, before = self._queue(), places.size_bytes
        if places.is_shared:
            places = items[0] = places.copy()
        places.skip(passed)
        self._are_gone(passed - len(found))
        self._has_places((places.size_bytes if places.count else 0) - before)
        if not places.count:
            items.popleft()

    def _are_gone(self, count: int) -> None:
        """The log has messages no longer that waited there."""
        self.count -= count
        self.taken += count
        self.dropped += count
        self._budget.trimmed += count

    def places_before(self, kept_from: Mapping[Epoch, int]) -> list[Places]:
        """Return the places of which some may stand before the numbers that the log still has."""
        items = self._items if self.places_bytes else None
        return [
            self._as_it_is(item)
            for item in items or ()
            if isinstance(item, Places) and item.begin_before(kept_from)
        ]

    def forget(self, lost: Mapping[Epoch, Intervals]) -> Iterator[None]:
        """Drop, a piece at a time, what the log has no longer and nobody has put by."""
        for item in list(self._items or ()):
            if not isinstance(item, Places) or not item.meets(lost):
                continue
            kept = item.without(lost)
            # Its client may have read it meanwhile.
            items = self._queue()
            at = next((at for at, one in enumerate(items) if one is item), -1)
            if at < 0 or kept.count == item.count:
                continue
            self._has_places((kept.size_bytes if kept.count else 0) - item.size_bytes)
            self._are_gone(item.count - kept.count)
            if kept.count:
                items[at] = kept
            else:
                del items[at]
            yield

    # -- over a crash ------------------------------------------------------------------------

    def saved(self) -> list[QueuedDelivery | Places]:
        """Return what a checkpoint needs of it, in its order.

        What was read from the log is in it by its places, for there it is.
        """
        found: list[QueuedDelivery | Places] = []
        for delivery in self._ready or ():
            message, flags, identifiers = delivery
            if message.ref is None or flags & RETAIN or isinstance(message, LearntMessage):
                found.append(delivery)
                continue
            last = found[-1] if found else None
            if not isinstance(last, Places) or last.is_full:
                last = Places()
                found.append(last)
            last.add(WaitingRun.of(message, flags, identifiers))
        for item in self._items or ():
            found.append(self._as_it_is(item) if isinstance(item, Places) else item)
        return found

    def _as_it_is(self, places: Places) -> Places:
        """Return places that do not change: themselves, unless what comes may go on with them."""
        if places is self._last() and not places.is_shared:
            return places.copy()
        places.is_shared = True
        return places

    def places(self) -> list[Places]:
        """Return the places of what waits in the log, which do not change any more."""
        return [item for item in self.saved() if isinstance(item, Places)]

    def restore(self, item: QueuedDelivery | Places) -> None:
        """Have what a checkpoint names wait again, behind what is there."""
        if not isinstance(item, Places):
            self._keep(item)
            return
        for run in item.runs():
            last = self._last()
            self._place(last if isinstance(last, Places) and not last.is_full else Places(), run)

    def remove(self, ref: Ref, flags: int) -> QueuedDelivery | None:
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

    def _remove(self, ref: Ref, flags: int | None) -> QueuedDelivery | None:
        for queue in (self._ready, self._items):
            if queue is None:
                continue
            at = _position(queue, ref, flags)
            if at >= 0:
                found = queue[at]
                del queue[at]
                if not isinstance(found, Places):
                    return found
        return None

    def is_trimmed(self, ref: Ref) -> bool:
        """Return whether the log does not have a message any more; OSError if it can't be read."""
        key, number = ref
        return self._log is not None and number not in self._log.messages(key, number, number)[0]

    def _reads_on(self, ref: Ref, flags: int | None) -> bool:
        """Read on towards a message that stands in the log, and return whether it was among the
        places."""
        items = self._items
        if items is None:
            return False
        for item in items:
            if isinstance(item, Places) and item.has(*ref, flags):
                while (before := items[0]) is not item:
                    if isinstance(before, Places):
                        self._read(before)
                    else:
                        self._make_ready(before)
                        items.popleft()
                self._read(item)
                return True
        return False

    def adopt(self, limits: Limits, budget: Budget) -> None:
        """Count what was restored without limits for these from now on."""
        self._limits = limits
        budget.used_bytes += self.size_bytes
        budget.places_bytes += self.places_bytes
        self._budget = budget


def _position(
    queue: deque[QueuedDelivery] | deque[QueuedDelivery | Places], ref: Ref, flags: int | None
) -> int:
    """Return where in a queue a message waits, with these flags or any.

    Less than 0 if nowhere near.
    """
    for at, item in enumerate(islice(queue, _NEAR_HEAD)):
        if not isinstance(item, Places) and item[0].ref == ref and flags in (None, item[1]):
            return at
    return -1
