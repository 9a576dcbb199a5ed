"""The order in which a micro-batch's facts are taken; that in which they come says nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cloud_ingest.evidence.facts import Activity, Interval, Numbers, SensorSpan, Statement

_LAST: Final = 2**63


def by_time(each: Statement | Activity) -> tuple[int, str, int, int]:
    """Return what a gateway says comes before how much it said."""
    if isinstance(each, Statement):
        return (each.collected_us, each.gateway, each.boot_epoch, each.sequence)
    return (each.collected_us, each.gateway, _LAST, 0)


def by_sensor(span: SensorSpan) -> tuple[str | int | float, ...]:
    """By time; what else there is in it decides between two of one time."""
    about = span.gateway, span.sensor
    values = span.first, span.last, span.low, span.high
    return (*about, span.first_us, span.last_us, span.count, span.changes, *values)


def merged_numbers(
    all_numbers: Iterable[Numbers],
) -> Iterator[tuple[str, int, Sequence[Interval], int]]:
    """Logged numbers of clients' messages by gateway and life, and how many stay there."""
    come: dict[tuple[str, int], list[Interval]] = {}
    kept_local: Counter[tuple[str, int]] = Counter()
    for numbers in all_numbers:
        if numbers.logged and not numbers.control:
            key = numbers.gateway, numbers.boot_epoch
            come.setdefault(key, []).extend((*numbers.seen, *numbers.kept_local))
            kept_local[key] += sum(last - first + 1 for first, last in numbers.kept_local)
    for key in sorted(come):
        yield *key, come[key], kept_local[key]
