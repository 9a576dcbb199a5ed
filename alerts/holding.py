"""Release of a record on a way: at once, after quiet hours, or in the digest of a day. Pure.

A record is held only if each route by which it goes that way by now holds it. What is held waits
for a day at most, by a clock that nobody sets: one that is set back keeps nothing for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from alerts.record import AlertRecord
from alerts.terms import AlertRoute
from light_dataclasses import dataclass

HELD_S: Final = 86_400.0
DAY_S: Final = 86_400
_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A reading of the clock on the wall.

    Attributes:
        wall_us: microseconds since 1970, in UTC.
        offset_s: local time less UTC.

    """

    wall_us: int
    offset_s: int = 0

    def second_of(self, at_us: int) -> int:
        """Return local seconds since the first day of 1970 at a time."""
        return at_us // 1_000_000 + self.offset_s


@dataclass(frozen=True, slots=True)
class RecordHold:
    """A decision on one record for one way out: hold it back or hand it over.

    Attributes:
        is_held: it does not leave yet.
        is_of_digest: it leaves together with all others of the digest, whatever their site.

    """

    is_held: bool = False
    is_of_digest: bool = False


FREE: Final = RecordHold()


def holding_of(
    record: AlertRecord,
    way: str,
    routes: Sequence[AlertRoute],
    now: LocalTime,
    untaken_s: float = 0.0,
) -> RecordHold:
    """Return whether a record is held.

    Args:
        record: it.
        way: on which it would leave.
        routes: all that there are.
        now: when.
        untaken_s: since its alert was told, if nobody has taken it on: an escalation lets it go.

    """
    found = FREE
    for route in routes:
        if way in route.ways and route.after_s <= untaken_s and route.matcher.matches(record):
            found = _held_by(route, record, now)
            if not found.is_held and not found.is_of_digest:
                return FREE
    return found


def _held_by(route: AlertRoute, record: AlertRecord, now: LocalTime) -> RecordHold:
    second = now.second_of(now.wall_us)
    if route.digest_min is not None:
        at_s = route.digest_min * _MINUTE_S
        days = (now.second_of(record.at_us) - at_s) // DAY_S + 1
        return RecordHold(is_held=second < days * DAY_S + at_s, is_of_digest=True)
    if route.quiet_min is not None:
        begins, ends = route.quiet_min
        minute = second % DAY_S // _MINUTE_S
        is_quiet = (minute - begins) % (24 * 60) < (ends - begins) % (24 * 60)
        return RecordHold(is_held=is_quiet)
    return FREE
