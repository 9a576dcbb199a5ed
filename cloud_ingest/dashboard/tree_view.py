"""The tree at any moment, from the rows that say when it changed for whom. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cloud_ingest.dashboard.plain import times_ms

MOMENTS_MAX: Final = 400
"""Bars of the time line, each of which tells how often the tree changed."""


class TreePlaceSince(NamedTuple):
    """The place of a gateway in the tree from some time on.

    Attributes:
        time_ms: since 1970.
        root: whom it called the root.
        parent: its parent; None for a root.
        standby: neighbours whose links carry nothing and are ready to.
        rtt_ms: of the link to its parent when this was said.
        roles: of the links to `standby`, each as the gateway saw it.
        rtts_ms: likewise.

    """

    time_ms: int
    root: str | None
    parent: str | None
    standby: tuple[str, ...]
    rtt_ms: float | None
    roles: tuple[str, ...]
    rtts_ms: tuple[float | None, ...]

    def is_as(self, other: TreePlaceSince) -> bool:
        """Return whether it is the same place in the tree; round-trip times change all the time."""
        return (self.root, self.parent, self.standby) == (other.root, other.parent, other.standby)


class TreeHistory:
    """Everybody's places.

    Args:
        topology: the table, as many days of it as are to be replayed; None if there is none yet.

    """

    def __init__(self, topology: pa.Table | None) -> None:
        self._places: dict[str, list[TreePlaceSince]] = defaultdict(list)
        self._times: list[int] = []
        if topology is None:
            return
        ordered = topology.sort_by("time")
        times = times_ms(ordered["time"])
        names = ("gateway", "root", "parent", "links")
        rows = zip(times, *(ordered[name].to_pylist() for name in names), strict=True)
        for time_ms, gateway, root, parent, links in rows:
            if time_ms is None:
                continue
            spare = [
                link
                for link in links or ()
                if link["state"] != "forwarding" and link["peer"] != parent
            ]
            placed = TreePlaceSince(
                time_ms=time_ms,
                root=root,
                parent=parent,
                standby=tuple(link["peer"] for link in spare),
                rtt_ms=next((li["rtt_ms"] for li in links or () if li["peer"] == parent), None),
                roles=tuple(link["role"] or "" for link in spare),
                rtts_ms=tuple(link["rtt_ms"] for link in spare),
            )
            places = self._places[gateway]
            if not places or not places[-1].is_as(placed):
                places.append(placed)
                self._times.append(time_ms)

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """Return the times of the first change and the last, None if there is none."""
        return (self._times[0], self._times[-1]) if self._times else None

    def last_change_ms(self, time_ms: int) -> int:
        """Return when the tree became as it was at a moment; 0 for before all that is known.

        Args:
            time_ms: since 1970.

        """
        found = bisect_right(self._times, time_ms)
        return self._times[found - 1] if found else 0

    def at(self, time_ms: int) -> dict[str, Any]:
        """Return the tree at a moment, as columns, without gateways that had said nothing yet.

        Args:
            time_ms: since 1970.

        """
        names = ("gateway", "parent", "root", "since_ms", "rtt_ms")
        found: dict[str, Any] = {name: [] for name in names}
        standby: dict[tuple[str, str], tuple[str, float | None]] = {}
        for gateway, places in self._places.items():
            at = bisect_right(places, time_ms, key=lambda placed: placed.time_ms) - 1
            if at < 0:
                continue
            placed = places[at]
            found["gateway"].append(gateway)
            found["parent"].append(placed.parent)
            found["root"].append(placed.root)
            found["since_ms"].append(placed.time_ms)
            found["rtt_ms"].append(placed.rtt_ms)
            for peer, role, rtt_ms in zip(
                placed.standby, placed.roles, placed.rtts_ms, strict=True
            ):
                # Of the two ends the one that is blocked says why nothing goes over the link.
                ends = (gateway, peer) if gateway < peer else (peer, gateway)
                if ends not in standby or role != "designated":
                    standby[ends] = (role, rtt_ms)
        found["standby"] = [[*ends, *said] for ends, said in sorted(standby.items())]
        found["time_ms"] = time_ms
        return found

    def moments(self) -> dict[str, Any]:
        """Return when the tree changed: how often in each part of its time, each change if few."""
        span = self.span_ms
        if span is None:
            return {"first_ms": None, "last_ms": None, "counts": [], "changes_ms": []}
        first, last = span
        width = max(1, (last - first) / MOMENTS_MAX)
        counts = [0] * MOMENTS_MAX
        for time_ms in self._times:
            counts[min(MOMENTS_MAX - 1, int((time_ms - first) / width))] += 1
        several = sorted(set(self._times))
        return {
            "first_ms": first,
            "last_ms": last,
            "counts": counts,
            "changes_ms": several if len(several) <= 10 * MOMENTS_MAX else [],
        }
