"""Order across the lives of an origin: whose messages may be handed to clients, and whose wait.

What is stated here and nowhere else: messages of a boot epoch wait until the epochs before it are
complete as far as anybody within reach can tell (invariant 5). The first message that an origin
sends to the gateways in each epoch tells where each earlier stream of its clients ended, by its
log. An epoch is open once that message came, or is certainly gone, and every earlier stream that
this gateway or a neighbour knows is covered up to its end: by messages, by statements, or because
what is missing was given up as lost. So nothing waits for ever. A disk that was lost had no earlier
streams to tell of; what of them still comes is handed out late.

Which epochs are open is noted in the log before any message of them is handed out: else a restart
could not tell which messages clients have had.

A gateway's own origin is no exception. What a neighbour brings of a life that this disk has lost,
or never had (a copied card, an older copy put back), waits as another origin's would. Open from the
start are the present life, whose messages its clients get from the broker, and those that the log
knew when it began: a start hands them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgpack

from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, NOTE_PREFIX, Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.epochs_over import is_over
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

TOPIC: Final = "$hedgerow/epochs"
NUMBERED_AS: Final = 1
"""The number in the place of an epoch in the stream of such notes (2: those of `epochs_over`)."""
MAX_NAMED: Final = 256
"""Earlier epochs that an origin tells of, the latest ones; who waits for older ones is told by
nobody."""
MAX_ENDS: Final = 2 * MAX_NAMED
"""Of one origin, by all that it has told in all its lives: each costs a look in every round. Older
ones are waited for only as far as they are here."""
SIZE: Final = MessageSize(16 * 1024, 4 * MAX_NAMED + LATER_ELEMENTS, MAX_NAMED)


def note(origin: str, epoch: int) -> tuple[bytes, Header]:
    """Return what the log has to hold before messages of an epoch are handed out: it is open."""
    stream = (NOTE_PREFIX + origin, NUMBERED_AS)
    return batch.passed(stream, 1, epoch, Flags.PASSED | Flags.LOCAL)


def statement(origin: str, epoch: int, have: Mapping[Epoch, Intervals]) -> Entry:
    """Return the first message that an origin sends to the gateways in an epoch."""
    ends = sorted(
        (earlier, numbers.last)
        for (name, earlier), numbers in have.items()
        if name == origin and earlier < epoch and numbers.last
    )
    return Entry(TOPIC, msgpack.packb(ends[-MAX_NAMED:]), 1)


class EpochOrder:
    """A record of each origin's epochs, which decides when messages of a later one may go out.

    Args:
        own: this gateway's id and boot epoch; its clients have the messages of this life already.
        have: what the log covers, by stream; kept up to date by its owner.
        told: control batches that the log holds.
        from_origin_alone: what is missing comes from its origin or from nobody (routed modes), so
            what the origin does not know of any more is not waited for.

    """

    def __init__(
        self,
        own: Epoch,
        have: Mapping[Epoch, Intervals],
        told: Iterable[tuple[bytes, Header]] = (),
        *,
        from_origin_alone: bool = False,
    ) -> None:
        self._from_origin_alone = from_origin_alone
        self._named: dict[str, tuple[int, Mapping[int, int]]] = {}
        """By origin: the latest epoch that told of earlier ones, and where they ended."""
        self._own, self._own_epoch = own
        self._own_open = {own[1], *(epoch for origin, epoch in have if origin == own[0])}
        self._have = have
        self._ends: dict[str, dict[int, int]] = {}
        """By origin and epoch."""
        self._opened: dict[str, int] = {}
        self._epochs: dict[str, set[int]] = {}
        self.waiting: dict[str, set[int]] = {}
        """Epochs that are not open and of which there are messages, by origin."""
        for frame, header in told:
            self.read(frame, header)
        for name, number in have:
            if name.startswith(NOTE_PREFIX) and number == NUMBERED_AS:
                self.opened(name)
        for stream in have:
            self.met(stream)

    def met(self, stream: Epoch) -> None:
        """There are messages of this stream."""
        origin, epoch = stream
        if origin.startswith((CONTROL_PREFIX, NOTE_PREFIX)):
            return
        self._epochs.setdefault(origin, set()).add(epoch)
        if not self.is_open(stream):
            self.waiting.setdefault(origin, set()).add(epoch)

    def read(self, frame: bytes, header: Header) -> None:
        """Take what an origin tells of its earlier epochs; other batches tell nothing."""
        if header.first != 1 or not header.logged:
            return
        try:
            entry = batch.decode(frame, header)[0]
            ends = unpack("earlier epochs", entry.payload, SIZE) if entry.topic == TOPIC else []
            named = {int(epoch): int(last) for epoch, last in ends[:MAX_NAMED]}
        except (ValueError, TypeError):  # a ProtocolError is a ValueError
            return  # it tells of no earlier epochs that anybody could wait for
        is_latest = header.epoch > self._named.get(header.origin, (0, _NO_EPOCHS))[0]
        if is_latest:
            self._named[header.origin] = header.epoch, named
        origin = header.origin
        ends = self._ends.setdefault(origin, {})
        for epoch, last in named.items():
            stream = (origin, epoch)
            is_earlier = 0 < epoch < header.epoch and 0 < last < 1 << 63
            if is_earlier and not is_over(self._have, stream):
                ends[epoch] = self._end_after(stream, last, is_latest=is_latest)
                self._epochs.setdefault(origin, set()).add(epoch)
        for epoch in sorted(ends)[:-MAX_ENDS]:
            del ends[epoch]
            if (origin, epoch) not in self._have:
                self._epochs[origin].discard(epoch)

    def _end_after(self, stream: Epoch, last: int, *, is_latest: bool) -> int:
        """Return a stream's end after one more word on it, which may be older than the last."""
        said = self._end_said(stream)
        if not self._from_origin_alone:
            return max(last, said)
        if is_latest:  # an origin that has lost its end since sends no more than it says now
            return last
        return self.end(stream) if self._has_told_of(stream) else max(last, said)

    def opened(self, name: str) -> list[Epoch]:
        """Return the streams that may be handed out from now on, in order: a note is in the log."""
        origin = name.removeprefix(NOTE_PREFIX)
        last = self._have[name, NUMBERED_AS].last
        self._opened[origin] = last
        # What still comes of an earlier one is late: nothing waits for it any more.
        self._epochs[origin] = {e for e in self._epochs.get(origin, ()) if e >= last}
        ends = self._ends.get(origin, {})
        for epoch in [epoch for epoch in ends if epoch < last]:
            del ends[epoch]
        waiting = self.waiting.get(origin, set())
        due = sorted(epoch for epoch in waiting if epoch <= last)
        waiting.difference_update(due)
        if not waiting:
            self.waiting.pop(origin, None)
        return [(origin, epoch) for epoch in due]

    def is_open(self, stream: Epoch) -> bool:
        """Return whether messages of a stream may be handed out."""
        origin, epoch = stream
        return (
            epoch <= self._opened.get(origin, 0)
            or (origin == self._own and epoch in self._own_open)
            or origin.startswith((CONTROL_PREFIX, NOTE_PREFIX))
        )

    def is_past(self, stream: Epoch) -> bool:
        """Return whether a later epoch of the origin is open: no message waits for this one."""
        origin, epoch = stream[0].removeprefix(CONTROL_PREFIX), stream[1]
        if origin == self._own:
            return epoch < self._own_epoch and epoch not in self.waiting.get(origin, ())
        return epoch < self._opened.get(origin, 0)

    def forget(self, streams: Iterable[Epoch]) -> None:
        """Nothing waits for these any more, wherever they were said to end."""
        for stream in streams:
            self._ends.get(stream[0], {}).pop(stream[1], None)
            self._epochs.get(stream[0], set()).discard(stream[1])

    def end(self, stream: Epoch) -> int:
        """Return where a stream of clients' messages ended, as its origin told last.

        0 if it did not.
        """
        return self._named.get(stream[0], (0, _NO_EPOCHS))[1].get(stream[1], 0)

    def _end_said(self, stream: Epoch) -> int:
        return self._ends.get(stream[0], {}).get(stream[1], 0)

    def lost_by_origins(self) -> dict[Epoch, Intervals]:
        """Return what others' earlier streams lack behind the end that their origin told last.

        A later message came, and the origin's log has lost its end since: it sends none of it.
        """
        found: dict[Epoch, Intervals] = {}
        for stream, have in self._have.items():
            origin, epoch = stream
            told_in, named = self._named.get(origin, (0, _NO_EPOCHS))
            if epoch >= told_in or origin == self._own or not self._has_told_of(stream):
                continue
            if missing := have.missing(named.get(epoch, 0) + 1, have.last):
                found[stream] = Intervals(missing)
        return found

    def expected(self) -> dict[Epoch, int]:
        """Return the number up to which each stream must come that something waits for."""
        ends = {(one, epoch): last for one, of in self._ends.items() for epoch, last in of.items()}
        for origin, epochs in self.waiting.items():
            begins = [(CONTROL_PREFIX + origin, epoch) for epoch in epochs]
            ends |= {stream: 1 for stream in begins if not is_over(self._have, stream)}
        return ends

    def awaited(self) -> dict[Epoch, Intervals]:
        """Return what others' earlier streams lack and messages of later ones wait for.

        This is up to the end that their origin told last; `lost_by_origins` has what is behind it.
        """
        found: dict[Epoch, Intervals] = {}
        for origin, waiting in self.waiting.items():
            for epoch in self._epochs[origin]:
                stream = origin, epoch
                have, end = self._have.get(stream, _NOTHING), self.end(stream)
                if origin == self._own or epoch >= max(waiting) or have.contiguous_from(1) >= end:
                    continue
                found[stream] = Intervals(have.missing(1, end))
        return found

    def gaps(self) -> dict[Epoch, Intervals]:
        """Return what others' streams of clients lack before something that is there.

        What `lost_by_origins` has is left out.
        """
        found: dict[Epoch, Intervals] = {}
        for stream, have in self._have.items():
            origin, epoch = stream
            told_in, named = self._named.get(origin, (0, _NO_EPOCHS))
            last = named.get(epoch, 0) if epoch < told_in else have.last
            if origin == self._own or origin.startswith((CONTROL_PREFIX, NOTE_PREFIX)):
                continue
            if have.contiguous_from(1) < (last := min(last, have.last)):
                found[stream] = Intervals(have.missing(1, last))
        return found

    def can_open(
        self,
        origin: str,
        last_known: Callable[[Epoch], int] | None,
        known_to_others: Iterable[int] = (),
    ) -> int | None:
        """Return the epoch of an origin up to which all can be opened now; None: as before.

        Args:
            origin: which has epochs that wait.
            last_known: the last number of a stream that any neighbour knows; None to wait for gaps
                alone, and not for the end of an earlier epoch.
            known_to_others: epochs of which neighbours have messages.

        """
        found = self._complete_up_to(origin, last_known)
        if found is None or last_known is None:
            return found
        opened, known = self._opened.get(origin, 0), self._epochs[origin]
        earlier = {epoch for epoch in known_to_others if opened < epoch < found} - known
        if not earlier:
            return found
        known |= earlier
        return self._complete_up_to(origin, last_known)

    def _complete_up_to(self, origin: str, last_known: Callable[[Epoch], int] | None) -> int | None:
        found = None
        for epoch in sorted(self.waiting.get(origin, ())):
            if not self._has_begun((CONTROL_PREFIX + origin, epoch)) or not all(
                self._is_complete((origin, earlier), last_known)
                for earlier in self._epochs[origin]
                if earlier < epoch
            ):
                break
            found = epoch
        return found

    def _has_begun(self, told: Epoch) -> bool:
        """Return whether the word on earlier epochs came, or is forgotten, as one's own may be."""
        return 1 in self._have.get(told, _NOTHING) or is_over(self._have, told)

    def _is_complete(self, stream: Epoch, last_known: Callable[[Epoch], int] | None) -> bool:
        if self._from_origin_alone and self._is_forgotten(stream):
            return True
        have = self._have.get(stream, _NOTHING)
        last = have.last
        if last_known is not None:
            last = max(last, self._end_said(stream), last_known(stream))
        return have.contiguous_from(1) >= last

    def _is_forgotten(self, stream: Epoch) -> bool:
        """Return whether the origin tells of earlier epochs, not of this: its disk was lost."""
        origin, epoch = stream
        told_in, named = self._named.get(origin, (0, _NO_EPOCHS))
        return epoch < told_in and epoch not in named and self._has_told_of(stream)

    def _has_told_of(self, stream: Epoch) -> bool:
        """Return whether an origin's last word would name a stream if its log knew of it."""
        _, named = self._named.get(stream[0], (0, _NO_EPOCHS))
        return stream[1] in named or len(named) < MAX_NAMED


_NOTHING = Intervals()
_NO_EPOCHS: Mapping[int, int] = {}
