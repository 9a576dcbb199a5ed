"""The feasibility condition and the memory it needs (RFC 8966 sections 3.2.5, 3.5.1, 3.7.3).

A gateway remembers for each root the best distance it has itself announced. It takes a
neighbour as its parent only if that neighbour's distance is better than what it remembers.
Whoever sits below it has heard of the root through it, so is never better: no gateway can
choose one of its own descendants, however old the news are that it decides on.
"""

from __future__ import annotations

from typing import NamedTuple

from light_dataclasses import dataclass
from tree_handler.spanning.bpdu import UNREACHABLE_MS
from tree_handler.spanning.election import Root

RISES = 3
"""A sequence that has risen so often since it was heard first is raised still."""
MAX_SOURCES = 1024
"""Roots remembered at most; the one announced longest ago goes first."""


class Distance(NamedTuple):
    """A distance to a root, as one gateway announced it.

    Attributes:
        epoch: the root's boot epoch.
        sequence: the root's sequence number, raised by the root alone.
        cost_ms: path cost in milliseconds of round trip.

    """

    epoch: int
    sequence: int
    cost_ms: int


def feasible(offered: Distance, remembered: Distance | None) -> bool:
    """Return whether ``offered`` may be used, given the best distance announced so far.

    RFC 8966 section 3.5.1: the metric is infinite; or nothing is remembered; or the sequence
    is newer; or the sequence is the same and the metric is strictly lower. Here a sequence is
    (epoch, sequence), so that a root that restarted is not ignored.
    """
    if offered.cost_ms == UNREACHABLE_MS or remembered is None:
        return True
    newer = (offered.epoch, offered.sequence) > (remembered.epoch, remembered.sequence)
    same = (offered.epoch, offered.sequence) == (remembered.epoch, remembered.sequence)
    return newer or (same and offered.cost_ms < remembered.cost_ms)


@dataclass(slots=True)
class SourceEntry:
    """The best announced distance of a root, and its earlier life if one is still announced.

    Attributes:
        distance: the best that was announced.
        announced_s: when, the last time.
        earlier_epoch: of an earlier life that a neighbour announces; 0 for none.
        earlier_sequence: with which it did so first.
        earlier_s: when that was.

    """

    distance: Distance
    announced_s: float
    earlier_epoch: int = 0
    earlier_sequence: int = 0
    earlier_s: float = 0.0


class Sources:
    """The announced distances of each root (the source table of RFC 8966 3.2.5)."""

    __slots__ = ("_by_root",)

    def __init__(self) -> None:
        self._by_root: dict[str, SourceEntry] = {}

    def remembered(self, root_id: str) -> Distance | None:
        """Return the feasibility distance of a root, None if it was never announced or is
        forgotten."""
        source = self._by_root.get(root_id)
        return None if source is None else source.distance

    def announce(self, root: Root, sequence: int, cost_ms: int, now: float) -> None:
        """Note a finite announcement before it is sent (RFC 8966 section 3.7.3)."""
        announced = Distance(root.boot_epoch, sequence, cost_ms)
        source = self._by_root.get(root.gateway_id)
        if source is not None:
            source.announced_s = now
            if announced[:2] > source.distance[:2] or (
                announced[:2] == source.distance[:2] and cost_ms < source.distance.cost_ms
            ):
                source.distance = announced
            return
        if len(self._by_root) >= MAX_SOURCES:
            oldest = min(self._by_root, key=lambda root_id: self._by_root[root_id].announced_s)
            del self._by_root[oldest]
        self._by_root[root.gateway_id] = SourceEntry(announced, now)

    def heard(self, root: Root) -> None:
        """Note that a root is known to have restarted: its earlier epochs are over."""
        source = self._by_root.get(root.gateway_id)
        if source is None or root.boot_epoch < source.distance.epoch:
            return
        source.earlier_epoch = 0
        if root.boot_epoch > source.distance.epoch:
            source.distance = Distance(root.boot_epoch, 0, UNREACHABLE_MS)

    def goes_on(self, root: Root, sequence: int, now: float, stale_s: float) -> None:
        """Note that a neighbour announces a life of a root, which may be an earlier one.

        Only a root itself raises its sequence. So an earlier life whose sequence rises for longer
        than news of a root that is gone can be under way is no old news: the root has lost its
        disk, or has an older copy of it, and the later life is over. That is for those who are not
        in its tree: there, the distance alone keeps rings out.

        Args:
            root: as announced.
            sequence: of the announcement.
            now: in seconds.
            stale_s: how long such news can be under way.

        """
        source = self._by_root.get(root.gateway_id)
        if source is None or root.boot_epoch >= source.distance.epoch:
            return
        if source.earlier_epoch != root.boot_epoch or sequence < source.earlier_sequence:
            source.earlier_epoch = root.boot_epoch
            source.earlier_sequence, source.earlier_s = sequence, now
        elif now - source.earlier_s > stale_s and sequence - source.earlier_sequence > RISES:
            del self._by_root[root.gateway_id]

    def superseded(self, root: Root) -> bool:
        """Return whether a later epoch of ``root`` is known."""
        source = self._by_root.get(root.gateway_id)
        return source is not None and source.distance.epoch > root.boot_epoch

    def forget(self, before_s: float, current: str) -> None:
        """Forget roots last announced before ``before_s``, except ``current``."""
        stale = [
            root_id
            for root_id, source in self._by_root.items()
            if source.announced_s < before_s and root_id != current
        ]
        for root_id in stale:
            del self._by_root[root_id]

    def __len__(self) -> int:
        return len(self._by_root)
