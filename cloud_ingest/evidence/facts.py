"""Facts of the fleet that one micro-batch of the job tells.

The tasks that decode make it, `merged` adds up what several of them say, and the fleet's tables are
folded from it. Times are microseconds since 1970.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Interval = tuple[int, int]
"""Sequence numbers from the first to the last, both included."""
UNTIMED_US = 0
"""In place of the collector's time where nobody knows it."""
Stage = Literal["device-origin", "origin-collector", "collector-table", "origin-table"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A record in which a gateway describes itself.

    Attributes:
        gateway: the origin of the message.
        boot_epoch: its life; drawn, so never an order.
        sequence: the message's number.
        origin_us: when the origin accepted it, by its own clock; None if beyond the calendar.
        collected_us: when the collector had it on disk, by the collector's clock.
        kind: a status record, or the member record of the tree.
        payload: as it came.

    """

    gateway: str
    boot_epoch: int
    sequence: int
    origin_us: int | None
    collected_us: int
    kind: Literal["status", "member"]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Numbers:
    """New numbers of one sequence: seen for the first time, or said to stay at their origin."""

    gateway: str
    boot_epoch: int
    control: bool
    logged: bool
    seen: tuple[Interval, ...]
    kept_local: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Numbers of logged messages of clients that are missing and are looked for no longer.

    Attributes:
        gateway: the origin.
        boot_epoch: its life.
        gaps: the largest of them, in order.
        missing: how many numbers, of all of them.

    """

    gateway: str
    boot_epoch: int
    gaps: tuple[Interval, ...]
    missing: int


@dataclass(frozen=True, slots=True)
class Activity:
    """The counts of one gateway's messages in a batch.

    Attributes:
        gateway: the origin.
        messages: of its clients, each once.
        undecodable: those of them that went to quarantine.
        duplicates: copies that were dropped.
        first_us: earliest origin time, None if no message has a usable one.
        last_us: latest origin time.
        collected_us: latest time at the collector; `UNTIMED_US` where all that is told is how many
            copies came, or what stood in the quarantine before.

    """

    gateway: str
    messages: int
    undecodable: int
    duplicates: int
    first_us: int | None
    last_us: int | None
    collected_us: int


@dataclass(frozen=True, slots=True)
class Delays:
    """A histogram of one stage's delays of a gateway's messages, in one minute of the collector.

    Attributes:
        gateway: the origin.
        minute_us: the minute's beginning.
        stage: from where to where.
        counts: bucket -> messages; bucket b holds delays d with 2^(b/4) <= d ms < 2^((b+1)/4);
            what is below 1/16 ms or negative (clocks that disagree) is in the lowest, -16.

    """

    gateway: str
    minute_us: int
    stage: Stage
    counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SensorSpan:
    """A summary of what one sensor measured in the batch; numbers alone.

    Attributes:
        gateway: the origin.
        sensor: its name there.
        count: readings.
        first_us: earliest time (the device's if it says one, else the origin's).
        last_us: latest time.
        low: least value.
        high: greatest value.
        first: the value at ``first_us``.
        last: the value at ``last_us``.
        changes: how often a value differed from the one before it.

    """

    gateway: str
    sensor: str
    count: int
    first_us: int
    last_us: int
    low: float
    high: float
    first: float
    last: float
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """All of one micro-batch, or what one task or step tells of it.

    Attributes:
        batch_id: Spark's number of it; of a part it does not count.
        committed_us: when its rows were in the tables, by the driver's clock.
        read_until_us: until when all that collectors had by then is read; None if all of it is.

    """

    batch_id: int = 0
    committed_us: int = 0
    statements: tuple[Statement, ...] = ()
    numbers: tuple[Numbers, ...] = ()
    activity: tuple[Activity, ...] = ()
    delays: tuple[Delays, ...] = ()
    sensors: tuple[SensorSpan, ...] = ()
    given_up: tuple[GivenUp, ...] = ()
    read_until_us: int | None = None


def gateways_of(facts: BatchFacts) -> frozenset[str]:
    """Return the gateways of which a micro-batch tells."""
    told: list[Statement | Numbers | Activity | Delays | SensorSpan | GivenUp] = []
    told += (*facts.statements, *facts.numbers, *facts.activity)
    told += (*facts.delays, *facts.sensors, *facts.given_up)
    return frozenset(one.gateway for one in told)


def only_of(facts: BatchFacts, gateways: Collection[str]) -> BatchFacts:
    """Return what a micro-batch tells of some gateways."""
    return BatchFacts(
        batch_id=facts.batch_id,
        committed_us=facts.committed_us,
        statements=tuple(one for one in facts.statements if one.gateway in gateways),
        numbers=tuple(one for one in facts.numbers if one.gateway in gateways),
        activity=tuple(one for one in facts.activity if one.gateway in gateways),
        delays=tuple(one for one in facts.delays if one.gateway in gateways),
        sensors=tuple(one for one in facts.sensors if one.gateway in gateways),
        given_up=tuple(one for one in facts.given_up if one.gateway in gateways),
        read_until_us=facts.read_until_us,
    )


def merged(batch_id: int, committed_us: int, parts: Iterable[BatchFacts]) -> BatchFacts:
    """Return what several tasks say of one micro-batch, as one.

    Args:
        batch_id: Spark's number of it.
        committed_us: when its rows were in the tables.
        parts: of tasks; whose ``batch_id`` and ``committed_us`` do not count.

    """
    statements: list[Statement] = []
    given_up: list[GivenUp] = []
    until_us: list[int] = []
    numbers: list[Numbers] = []
    activity: dict[str, Activity] = {}
    delays: dict[tuple[str, int, Stage], Counter[int]] = {}
    sensors: dict[tuple[str, str], SensorSpan] = {}
    for part in parts:
        statements += part.statements
        numbers += part.numbers
        given_up += part.given_up
        if part.read_until_us is not None:
            until_us.append(part.read_until_us)
        for one in part.activity:
            had = activity.get(one.gateway)
            activity[one.gateway] = one if had is None else _both_active(had, one)
        for delay in part.delays:
            key = delay.gateway, delay.minute_us, delay.stage
            delays.setdefault(key, Counter()).update(delay.counts)
        for span in part.sensors:
            known = sensors.get((span.gateway, span.sensor))
            sensors[span.gateway, span.sensor] = span if known is None else _joined(known, span)
    statements.sort(key=lambda one: (one.collected_us, one.gateway, one.boot_epoch, one.sequence))
    return BatchFacts(
        batch_id=batch_id,
        committed_us=committed_us,
        statements=tuple(statements),
        numbers=tuple(numbers),
        activity=tuple(activity.values()),
        delays=tuple(Delays(*key, dict(counts)) for key, counts in delays.items()),
        sensors=tuple(sensors.values()),
        given_up=tuple(given_up),
        read_until_us=min(until_us, default=None),
    )


def _both_active(one: Activity, other: Activity) -> Activity:
    return Activity(
        one.gateway,
        one.messages + other.messages,
        one.undecodable + other.undecodable,
        one.duplicates + other.duplicates,
        min((us for us in (one.first_us, other.first_us) if us is not None), default=None),
        max((us for us in (one.last_us, other.last_us) if us is not None), default=None),
        max(one.collected_us, other.collected_us),
    )


def _joined(one: SensorSpan, other: SensorSpan) -> SensorSpan:
    """Changes are exact where the spans do not overlap, else they may be one too few."""
    early, late = (one, other) if one.first_us <= other.first_us else (other, one)
    last = late if late.last_us >= early.last_us else early
    between = late.first_us >= early.last_us and early.last != late.first
    return SensorSpan(
        one.gateway,
        one.sensor,
        one.count + other.count,
        early.first_us,
        last.last_us,
        min(one.low, other.low),
        max(one.high, other.high),
        early.first,
        last.last,
        one.changes + other.changes + between,
    )
