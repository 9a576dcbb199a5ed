"""Order of the records of a way out: in batches of a site, each for a day. Pure.

A way out gets each record at least once. It may get one again after a kill, and knows it by its
`AlertRecord.delivery_id`. One that fails is left alone for a while that grows, and everything
stays in its order meanwhile; the other ways go on. What is held (`alerts.holding`) waits beside:
its day begins when it may leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from alerts.holding import FREE, HELD_S, RecordHold
from alerts.record import AlertRecord
from alerts.state import WaitingRecord, WayState

MAX_WAITING: Final = 500
"""Records that wait for one way out."""
MAX_BATCH: Final = 50
KEPT_S: Final = 86_400.0
"""A record that no try has delivered for so long is dropped, and counted."""
FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 900.0
MAX_TROUBLE: Final = 200
"""Characters of what is told of a failure."""
GONE: Final = "the configuration has this way no more: what waited was dropped"
"""Is told of a way that was taken out while records waited for it."""


class WayQueue:
    """A queue of the records that wait for one way out.

    Args:
        state: what is remembered; it is changed in place.
        gather_s: the first record waits so long for others of its site.
        holding: says whether a record may leave by now.

    """

    def __init__(
        self,
        state: WayState,
        gather_s: float,
        holding: Callable[[AlertRecord], RecordHold] = lambda record: FREE,
    ) -> None:
        self._state = state
        self._holding = holding
        self._gather_s = gather_s
        self._pause_s = 0.0
        """Until it is tried again."""
        self._next_pause_s = FIRST_PAUSE_S

    @property
    def state(self) -> WayState:
        """Return the state that is kept over a restart."""
        return self._state

    def add(self, records: Iterable[AlertRecord]) -> None:
        """Let records wait."""
        self._state.waiting += [WaitingRecord(one) for one in records]
        self._bound()

    def pass_time(self, passed_s: float) -> bool:
        """Let time pass; return whether something was dropped since it has waited for too long."""
        self._pause_s = max(0.0, self._pause_s - passed_s)
        for one in self._state.waiting:
            if self._is_held(one):
                one.held_s += passed_s
            else:
                one.waited_s += passed_s
        kept = [one for one in self._state.waiting if one.waited_s < KEPT_S]
        dropped = len(self._state.waiting) - len(kept)
        self._state.waiting = kept
        self._state.dropped += dropped
        return dropped > 0

    def due(self) -> tuple[AlertRecord, ...]:
        """Return what to hand over now, in order; nothing if it is too early.

        Those of one site go together, and so do all of a digest.
        """
        waiting = [one for one in self._state.waiting if not self._is_held(one)]
        if not waiting or self._pause_s > 0 or waiting[0].waited_s < self._gather_s:
            return ()
        first = waiting[0].record
        if self._holding(first).is_of_digest:
            return tuple(one.record for one in waiting if self._holding(one.record).is_of_digest)
        of_site = [
            one.record
            for one in waiting
            if one.record.site == first.site and not self._holding(one.record).is_of_digest
        ]
        return tuple(of_site[:MAX_BATCH])

    @property
    def is_left_alone(self) -> bool:
        """Return whether the way has failed, and is not to be tried again yet."""
        return self._pause_s > 0

    def _is_held(self, one: WaitingRecord) -> bool:
        return one.held_s < HELD_S and self._holding(one.record).is_held

    def taken(self, records: Iterable[AlertRecord]) -> None:
        """Note that the way out has taken records."""
        gone, waiting = {one.delivery_id for one in records}, self._state.waiting
        self._state.waiting = [one for one in waiting if one.record.delivery_id not in gone]
        self._state.delivered += len(waiting) - len(self._state.waiting)
        self._state.trouble = ""
        self._pause_s, self._next_pause_s = 0.0, FIRST_PAUSE_S

    def failed(self, why: str) -> None:
        """Note that it did not take what it was given."""
        self._state.trouble = why[:MAX_TROUBLE]
        self._pause_s = self._next_pause_s
        self._next_pause_s = min(LONGEST_PAUSE_S, 2 * self._next_pause_s)

    def refused(self, records: Iterable[AlertRecord], why: str) -> None:
        """Note that the way out will never take records."""
        before = self._state.delivered
        self.taken(records)
        self._state.dropped += self._state.delivered - before
        self._state.delivered = before
        self._state.trouble = why[:MAX_TROUBLE]

    def _bound(self) -> None:
        """Drop what is needed least: reminders, then alerts that are over, then the oldest."""
        excess = len(self._state.waiting) - MAX_WAITING
        if excess <= 0:
            return
        over = {one.record.alert for one in self._state.waiting if one.record.change == "cleared"}
        raised = {one.record.alert for one in self._state.waiting if one.record.change == "raised"}
        unseen = over & raised
        """Nobody was told of them, and they are over."""
        order = sorted(
            range(len(self._state.waiting)),
            key=lambda i: (_worth(self._state.waiting[i].record, unseen), i),
        )
        gone = set(order[:excess])
        # Of what is told as raised the end is told too, so both go or none.
        pairs = {self._state.waiting[i].record.alert for i in gone} & unseen
        self._state.waiting = [
            one
            for i, one in enumerate(self._state.waiting)
            if i not in gone and one.record.alert not in pairs
        ]
        self._state.dropped += MAX_WAITING + excess - len(self._state.waiting)


def parted(
    known: Mapping[str, WayState], ways: Iterable[str]
) -> tuple[dict[str, WayState], dict[str, WayState]]:
    """Part the ways that there are from those that have gone since; of these nothing waits on.

    Args:
        known: the states that an earlier life kept, by way; those of gone ways are changed.
        ways: that the configuration has.

    Returns:
        The states of all ways that there are, and of those gone ones that cost somebody a record.

    """
    there = {way: known.get(way, WayState()) for way in ways}
    gone = {way: one for way, one in known.items() if way not in there and one.waiting}
    for one in gone.values():
        one.dropped += len(one.waiting)
        one.waiting = []
        one.trouble = GONE
    return there, gone


def _worth(record: AlertRecord, unseen: set[str]) -> int:
    if record.change == "reminded":
        return 0
    return 1 if record.alert in unseen else 2 + (record.severity == "critical")
