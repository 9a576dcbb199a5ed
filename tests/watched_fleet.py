"""A fleet as its collector hears it, in the facts of micro-batches: with all that can go wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cloud_ingest.evidence.facts import (
    Activity,
    BatchFacts,
    Delays,
    Interval,
    Numbers,
    SensorSpan,
    Statement,
)
from record_formats.status_record import LinkStatus, StatusRecord

START_US = 1_700_000_000_000_000
MESSAGES = 5
"""That a gateway's clients send with each of its records."""
DISK_BYTES = 32_000_000_000


def at(second: float) -> int:
    """A time of the collector's clock."""
    return START_US + round(second * 1_000_000)


@dataclass
class Gateway:
    """One gateway; a test changes what it does."""

    name: str
    phase_s: float
    epoch: int
    root: str = "gw-0000"
    interval_s: float = 10.0
    started_s: float = -1_000.0
    is_down: bool = False
    ahead_us: Callable[[float], int | None] = lambda second: 0
    temperature_cel: Callable[[float], float] = lambda second: 50.0
    written_per_s: float = 1_000.0
    disk_free: float = 0.5
    under_voltage: bool = False
    elections: int = 0
    value: Callable[[float], float] = lambda second: second
    loses: bool = False
    sequence: int = 0
    next_s: float = 0.0
    lost: list[Interval] = field(default_factory=list)

    def restart(self, second: float, epoch: int) -> None:
        """Begin another life."""
        self.epoch, self.started_s, self.sequence, self.elections = epoch, second, 0, 0

    def record(self, second: float) -> StatusRecord:
        parent = None if self.root == self.name else self.root
        links = () if parent is None else (LinkStatus(parent, 1.5, "root", "forwarding"),)
        return StatusRecord(
            interval_s=self.interval_s,
            software="0.1.0",
            up_s=round(second - self.started_s, 1),
            domain="campus",
            group="north",
            temperature_cel=self.temperature_cel(second),
            under_voltage=self.under_voltage,
            disk_free_bytes=round(self.disk_free * DISK_BYTES),
            disk_total_bytes=DISK_BYTES,
            disk_written_bytes=round((second + 100_000) * self.written_per_s),
            root=self.root,
            parent=parent,
            links=links,
            elections=self.elections,
            counters={"published": self.sequence},
        )


@dataclass
class Sent:
    """The messages that a gateway sent at one time."""

    origin: Gateway
    epoch: int
    sequence: int
    origin_us: int | None
    payload: bytes
    first: int
    last: int
    value: float
    second: float

    @property
    def gateway(self) -> str:
        """The origin's name."""
        return self.origin.name


@dataclass(frozen=True)
class Heard:
    """The part of a `Sent` that a collector has.

    Attributes:
        sent: its status, the last of its messages, is there always.
        come_us: when that was on the collector's disk.
        numbers: of its messages that came; the others are lost.

    """

    sent: Sent
    come_us: int
    numbers: Interval


class WatchedFleet:
    """Gateways, and a collector that hears them.

    Args:
        count: gateways.
        seed: of all that is drawn.
        batch_s: how often the job has a batch.

    """

    def __init__(self, count: int, seed: int = 1, batch_s: float = 10.0) -> None:
        self.random = random.Random(seed)
        self.gateways = [
            Gateway(f"gw-{i:04}", self.random.uniform(0, 10), self.random.randrange(1, 2**31))
            for i in range(count)
        ]
        for one in self.gateways:
            one.next_s = one.phase_s
        self.batch_s = batch_s
        self.second = 0.0
        self.batch_id = -1
        self.is_collector_away = False
        self.cut_off: set[str] = set()
        """The gateways whose messages wait."""
        self._waiting: list[Sent] = []
        self._at: list[tuple[float, Callable[[], None]]] = []

    def __getitem__(self, index: int) -> Gateway:
        return self.gateways[index]

    def when(self, second: float, what: Callable[[], None]) -> None:
        """Do something at a time."""
        self._at.append((second, what))
        self._at.sort(key=lambda each: each[0])

    def batches(self, until_s: float) -> Iterator[BatchFacts]:
        """Let time pass: the facts that the job makes of what is heard."""
        for heard in self.heard(until_s):
            yield self._facts(heard)

    def heard(self, until_s: float) -> Iterator[list[Heard]]:
        """Let time pass: what the collector has on disk anew."""
        while self.second < until_s:
            begin, end = self.second, self.second + self.batch_s
            while self._at and self._at[0][0] < end:
                self._at.pop(0)[1]()
            sent = [each for one in self.gateways for each in self._sent(one, end)]
            self.second = end
            come, self._waiting = self._waiting + sent, []
            if self.is_collector_away:
                self._waiting = come
                continue
            self._waiting = [each for each in come if each.gateway in self.cut_off]
            come = [each for each in come if each.gateway not in self.cut_off]
            if come:
                yield [self._come(each, begin) for each in come]

    def _come(self, sent: Sent, begin: float) -> Heard:
        """Each waits for a moment on its way; what waited longer comes when the batch begins."""
        come_us = at(max(sent.second, begin)) + self.random.randrange(200_000)
        if not (sent.origin.loses and self.random.random() < 0.5):
            return Heard(sent, come_us, (sent.first, sent.last))
        sent.origin.lost.append((sent.first, sent.last - 1))
        return Heard(sent, come_us, (sent.last, sent.last))

    def _sent(self, one: Gateway, end: float) -> Iterator[Sent]:
        while one.next_s < end:
            second = one.next_s
            one.next_s += one.interval_s
            if one.is_down:
                continue
            one.sequence += MESSAGES
            ahead_us = one.ahead_us(second)
            yield Sent(
                one,
                one.epoch,
                one.sequence,
                None if ahead_us is None else at(second) + ahead_us,
                one.record(second).encode(),
                one.sequence - MESSAGES + 1,
                one.sequence,
                one.value(second),
                second,
            )

    def _facts(self, heard: list[Heard]) -> BatchFacts:
        self.batch_id += 1
        statements, numbers, delays, sensors = [], [], [], []
        activity: dict[str, Activity] = {}
        for one in heard:
            each, come_us = one.sent, one.come_us
            about = each.gateway, each.epoch
            statements.append(
                Statement(*about, each.sequence, each.origin_us, come_us, "status", each.payload)
            )
            numbers.append(
                Numbers(*about, control=False, logged=True, seen=(one.numbers,), kept_local=())
            )
            before = activity.get(each.gateway) or Activity(each.gateway, 0, 0, 0, None, None, 0)
            activity[each.gateway] = replace(
                before,
                messages=before.messages + MESSAGES,
                collected_us=max(before.collected_us, come_us),
            )
            minute_us = come_us // 60_000_000 * 60_000_000
            delays.append(Delays(each.gateway, minute_us, "origin-collector", {12: MESSAGES}))
            when_us = at(each.second)
            value = each.value
            sensors.append(
                SensorSpan(
                    gateway=each.gateway,
                    sensor="water/level",
                    count=1,
                    first_us=when_us,
                    last_us=when_us,
                    low=value,
                    high=value,
                    first=value,
                    last=value,
                    changes=0,
                )
            )
        self.random.shuffle(statements)
        return BatchFacts(
            batch_id=self.batch_id,
            committed_us=at(self.second) + 300_000,
            statements=tuple(statements),
            numbers=tuple(numbers),
            activity=tuple(activity.values()),
            delays=tuple(delays),
            sensors=tuple(sensors),
        )
