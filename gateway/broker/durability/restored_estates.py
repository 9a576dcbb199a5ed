"""Estates after a start: what sessions left of shared subscriptions, and nobody had taken on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.broker.outbound.message import IN_PACKET
from gateway.broker.sessions.backlog import QueuedDelivery
from gateway.broker.sessions.estates import Estate
from gateway.broker.sessions.places import Places, WaitingRun
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals

_Taken = dict[tuple[int, Epoch], Intervals]
"""Numbers that others have gone on with, by the mark of the group and the stream."""


class RestoredEstates:
    """Estates as the journal tells of them, and what it tells of those who went on with them."""

    def __init__(self) -> None:
        self._told: list[Estate | tuple[Epoch, Sequence[int], int]] = []

    def left(self, estate: Estate) -> None:
        """A session has ended and left this."""
        self._told.append(estate)

    def taken(self, key: Epoch, ranges: Sequence[int], mark: int) -> None:
        """Somebody has gone on with messages, or nobody could.

        Args:
            key: their stream.
            ranges: their numbers there, the first and the last of each range in turn.
            mark: of the group that they are delivered for.

        """
        if self._told:
            self._told.append((key, ranges, mark))

    def rest(self) -> list[Estate]:
        """Return what is left of each, in their order.

        What was taken before an estate was left is none of it, though it may have come to it since:
        so what was told last is looked at first.
        """
        taken: _Taken = {}
        found: list[Estate] = []
        for told in reversed(self._told):
            if isinstance(told, Estate):
                estate = _without(told, taken)
                if estate.items:
                    found.append(estate)
            else:
                key, ranges, mark = told
                numbers = taken.setdefault((mark, key), Intervals())
                for first, last in zip(ranges[::2], ranges[1::2], strict=True):
                    numbers.add(first, last)
        found.reverse()
        return found


def _without(estate: Estate, taken: _Taken) -> Estate:
    """Return an estate without what others have gone on with."""
    none = Intervals()
    items: list[QueuedDelivery | Places] = []
    for item in estate.items:
        if isinstance(item, Places):
            places = Places()
            for run in item.runs():
                key, flags, _ = run.way
                mark = flags & ~IN_PACKET
                if mark not in estate.groups:
                    continue
                numbers = taken.get((mark, key), none)
                for first, last in numbers.missing(run.first, run.last):
                    places.add(WaitingRun(run.way, first, last, run.timing, run.moment_ms))
            if places.count:
                items.append(places)
        elif (ref := item[0].ref) is not None:
            mark = item[1] & ~IN_PACKET
            if mark in estate.groups and ref[1] not in taken.get((mark, ref[0]), none):
                items.append(item)
    return replace(estate, items=items)
