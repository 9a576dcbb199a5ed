"""Finds the message with which a task fails: what it was to decode is halved until that is alone.

Then the message goes to quarantine, as bytes and with the reason, and all others are decoded as
ever. Only what a message can be blamed for is halved: a store that fails is tried again with the
whole batch, and blames nobody (decision 86).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from deltalake.exceptions import DeltaError

from cloud_ingest.evidence.facts import Interval
from cloud_ingest.ingest.plan import SpoolStretch, UnsureStretch
from cloud_ingest.ingest.tasks import TaskOrder, TaskResult, batches

STORAGE_ERRORS: Final = (OSError, DeltaError)
"""Errors of a disk, a network or an object store; also `cloud_ingest.tables.delta.TableError`."""
BLAMED: Final = "can't be decoded: "
"""The start of the reason in quarantine of a message that a task, or the driver, fails with."""

KILLED: Final = "no task outlives it: "
"""Likewise, of what ends each process that looks at it."""


@dataclass(frozen=True, slots=True)
class BlamedStretch(SpoolStretch):
    """One message with which a task fails: it goes to quarantine without being looked at."""

    why: str = ""


def fault_of(error: Exception) -> str | None:
    """Return why a message is to blame for a task's error; None if none is."""
    if isinstance(error, STORAGE_ERRORS):
        return None
    return f"{BLAMED}{type(error).__name__}: {error}"


def halved(
    order: TaskOrder,
    carry_out: Callable[[TaskOrder], TaskResult],
    why: Callable[[Exception], str | None] = fault_of,
) -> TaskResult:
    """Carry an order out, whole or in as few parts as can be.

    Args:
        order: what is to be decoded.
        carry_out: does so, and may fail.
        why: a message is to blame for a failure; None if none is.

    Raises:
        Exception: what ``carry_out`` raises and no message is to blame for; nothing is lost, the
            batch comes again.

    """
    try:
        return carry_out(order)
    except Exception as error:
        told = why(error)
        if told is None or not order.stretches:
            raise
        failure = error
    parts = _halves(order.stretches)
    if parts is None:
        return _set_aside(order, carry_out, told, failure)
    result = TaskResult()
    for part in parts:
        result.add(halved(replace(order, stretches=part), carry_out, why))
    return result


def _set_aside(
    order: TaskOrder,
    carry_out: Callable[[TaskOrder], TaskResult],
    why: str,
    failure: Exception,
) -> TaskResult:
    """Blame one message, if a task that does not look at it succeeds."""
    one = order.stretches[0]
    if isinstance(one, UnsureStretch | BlamedStretch):  # it was not looked at
        raise failure
    spot = one.spool, one.segment, one.start, one.end
    try:
        return carry_out(replace(order, stretches=[BlamedStretch(*spot, _numbers(one), why)]))
    except Exception as error:
        raise failure from error


def _halves(
    stretches: list[SpoolStretch],
) -> tuple[list[SpoolStretch], list[SpoolStretch]] | None:
    """Two parts, each about a half; None of a single message."""
    middle = len(stretches) // 2
    if middle:
        return stretches[:middle], stretches[middle:]
    one = stretches[0]
    if one.keep is None:
        ends = [at + header.end for at, _, header in batches(one)]
        if len(ends) > 1:
            cut = ends[len(ends) // 2 - 1]
            return [replace(one, end=cut)], [replace(one, start=cut)]
    numbers = _numbers(one)
    count = sum(last - first + 1 for first, last in numbers)
    if count < 2:
        return None
    low, high = _split(numbers, count // 2)
    return [replace(one, keep=low)], [replace(one, keep=high)]


def _numbers(one: SpoolStretch) -> tuple[Interval, ...]:
    """Return the numbers that are wanted of a single batch."""
    if one.keep is not None:
        return one.keep
    return tuple((header.first, header.last) for _, _, header in batches(one))


def _split(
    numbers: tuple[Interval, ...], count: int
) -> tuple[tuple[Interval, ...], tuple[Interval, ...]]:
    """Return the first so many numbers, and the others."""
    low: list[Interval] = []
    for i, (first, last) in enumerate(numbers):
        there = last - first + 1
        if there > count:
            cut = first + count - 1
            begun = [(first, cut)] if count else []
            return (*low, *begun), ((cut + 1, last), *numbers[i + 1 :])
        low.append((first, last))
        count -= there
    return tuple(low), ()
