"""Order per origin: what local clients are handed, and what waits for a gap to close.

Batches of one stream may arrive out of order, since repair runs beside the tree.
Clients get them in sequence (invariant 5), so what is behind a gap waits. A few of the waiting
frames are kept here; the log has them all, so beyond a bound only their numbers are known and
the shell reads them from there when their turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.own_batches import OwnBatches

MAX_HELD_BYTES: Final = 4 * 1024 * 1024
"""Frames kept in memory behind gaps, over all origins, with what is kept beside each."""
BESIDE_BYTES: Final = 512
"""Of a frame's header and its places: most of what a batch of one short message takes."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand the messages of a batch to local clients, from sequence number ``first`` on."""

    frame: bytes
    header: Header
    first: int


@dataclass(frozen=True, slots=True)
class DeliverLogged:
    """A run of logged batches to deliver: all that the log holds of ``first..last``."""

    epoch: Epoch
    first: int
    last: int


@dataclass(slots=True)
class OrderedDelivery:
    """For each stream: the last number handed out, and frames held behind a gap.

    Args:
        own: this gateway's own batches. Its clients have those from the broker directly, so the
            last that has a number is the last handed out, whatever the log loses of them.

    """

    own: OwnBatches
    held_bytes: int = 0
    _done: dict[Epoch, int] = field(default_factory=dict)
    _held: dict[Epoch, dict[int, tuple[bytes, Header]]] = field(default_factory=dict)
    _lost: dict[Epoch, Intervals] = field(default_factory=dict)
    """Numbers that were handed out, and that the log has lost since."""

    def resume(self, have: Mapping[Epoch, Intervals], is_open: Callable[[Epoch], bool]) -> None:
        """After a restart: all that the log has without a gap counts as handed out.

        Nothing was of what is not open.
        """
        for key, numbers in have.items():
            if is_open(key):
                self._done[key] = numbers.contiguous_from(1)

    def handed_out(self, key: Epoch) -> int:
        """Return the last number that local clients were handed, or would have been."""
        return self.own.last_of(key) or self._done.get(key, 0)

    def skip(self, stream: Epoch, have: Intervals) -> None:
        """Count as handed out what nobody here is to be handed, up to the first number missing."""
        self._done[stream] = have.contiguous_from(self.handed_out(stream) + 1)

    def forget(self, streams: Iterable[Epoch]) -> None:
        """All of these was handed out, and nothing more comes."""
        for stream in streams:
            self._done.pop(stream, None)
            self._lost.pop(stream, None)

    def lost(self, stream: Epoch, numbers: Intervals) -> None:
        """The log has lost these: they are handed out once more if they come, for who waits for
        them may not have got them. Who had them is the receiver's to know."""
        last = self.handed_out(stream)
        done = Intervals([(1, last)]) if last else Intervals()
        self._lost.setdefault(stream, Intervals()).update(numbers.common(done))

    def hold(self, frame: bytes, header: Header) -> None:
        """Take a new batch that may not be handed out before `release`."""
        held = self._held.setdefault(header.stream, {})
        size_bytes = len(frame) + BESIDE_BYTES
        if header.first not in held and self.held_bytes + size_bytes <= MAX_HELD_BYTES:
            held[header.first] = (frame, header)
            self.held_bytes += size_bytes

    def add(
        self, frame: bytes, header: Header, have: Intervals
    ) -> Iterator[Deliver | DeliverLogged]:
        """Take a new batch, whose numbers are in ``have``; yield what can be handed out now.

        A statement of numbers passed over has nothing to hand out, but what waits behind them.
        """
        key = header.stream
        done = self.handed_out(key)
        if header.last <= done:
            lost = self._lost.get(key)
            if lost is not None:
                left = lost.without(Intervals([(header.first, header.last)]))
                if left != lost and not header.passed:
                    yield Deliver(frame, header, header.first)
                self._lost[key] = left
                if not left:
                    del self._lost[key]
            return
        if header.first <= done + 1 and header.last == have.contiguous_from(done + 1):
            self._done[key] = header.last
            if not header.passed:
                yield Deliver(frame, header, done + 1)
            return
        self.hold(frame, header)
        yield from self.release(key, have)

    def release(self, key: Epoch, have: Intervals) -> Iterator[Deliver | DeliverLogged]:
        """Yield all that is not handed out yet, up to the first number still missing."""
        done = self.handed_out(key)
        reachable = have.contiguous_from(done + 1)
        if reachable <= done:
            return
        held = self._held.get(key, {})
        for start in sorted(held):
            frame, header = held[start]
            if start > reachable:
                break
            del held[start]
            self.held_bytes -= len(frame) + BESIDE_BYTES
            if start > done + 1:
                yield DeliverLogged(key, done + 1, start - 1)
            if header.last > done:
                if not header.passed:
                    yield Deliver(frame, header, max(start, done + 1))
                done = header.last
        if done < reachable:
            yield DeliverLogged(key, done + 1, reachable)
        self._done[key] = reachable
        if not held:
            self._held.pop(key, None)
