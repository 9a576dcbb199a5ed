"""The world of `aging_ingest` with collectors that share, and with all that raises alerts in it.

Gateways say how they are each `STEP_S`, and their sensors measure. Collectors of a group hear all
of it, share it, and write their spools. The job reads those, and judges. A test begins and ends
causes: of each the world knows which alert is to be open, and how often each was to be raised.

All time is the world's own. A clock may be wrong: of a collector, the job, or the gateways.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import deltalake
from aging_ingest import JOB, AgingIngest
from restored_ingest import KilledError
from shared_collectors import Member

from alerts.record import AlertRecord
from cloud_ingest.fleet import rules, state
from cloud_ingest.fleet.way_out_thread import WayOutThread
from cloud_ingest.job.micro_batches import MOMENTS, Ingest, IngestSettings
from cloud_ingest.spool.receipts import PAIR, SUFFIX
from cloud_ingest.tables.store import TableStore
from record_formats.record import Record
from record_formats.status_record import StatusRecord
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header

STEP_S = 10.0
"""The seconds between two reports of a gateway, and between two looks of the job."""
TURNS = 4
"""Turns of the collectors within a step; each is shorter than they take another one for dead."""
SETTLES = 11
"""Steps after which whatever began or ended has been judged."""
NAMES = ("gw-a", "gw-b", "gw-c", "gw-d")
SENSOR = "tank/level"
WINDOW_S = 600.0
RULES = rules.read(f"""
[flapping]
raises = 4
window-s = 300
steady-s = 60
[gap]
after-s = 30
[[override]]
sensor = "{SENSOR}"
sensor-stuck = {{after-s = 60, readings = 4}}
sensor-range = {{high = 1000, margin = 10}}
[ingest]
behind = {{opens-s = 60, clears-s = 40}}
failing = {{times = 3, window-s = {WINDOW_S}}}
quarantine-growing = {{share = 0.2, least = 6, window-s = 60}}
collector-silent = {{after-s = 40}}
collector-disk = {{clears-s = 60}}
""")
About = tuple[str, str, str]
"""Kind, gateway, and sensor or spool."""


@dataclass
class Sender:
    """A gateway, and its one sensor; what is published is kept until all collectors have it."""

    name: str
    phase: int
    epoch: int = 1
    first: int = 1
    began_us: int = 0
    number: int = 0
    is_down: bool = False
    is_cut_off: bool = False
    is_hot: bool = False
    is_weak: bool = False
    is_high: bool = False
    is_still: bool = False
    is_unreadable: bool = False
    ahead_us: int = 0
    withheld: list[tuple[bytes, Header]] = field(default_factory=list)

    def entries(self, now_us: int, true_us: int) -> tuple[list[Entry], list[bool]]:
        """Return what it publishes in a step, and which of it can be read."""
        self.number += 1
        record = StatusRecord(
            interval_s=STEP_S,
            software="1",
            up_s=round((true_us - self.began_us) / 1e6, 1),
            domain="d",
            group="g",
            temperature_cel=90.0 if self.is_hot else 50.0,
            under_voltage=self.is_weak,
            root=NAMES[0],
            parent=None,
            links=(),
        )
        level = 5.0 if self.is_still else float(self.number % 97)
        reading = Record(SENSOR, "m", level + 5_000 * self.is_high, now_us / 1e6, self.number)
        entries = [Entry(f"d/g/{self.name}/tank", reading.encode(), 1)]
        if self.is_unreadable:
            entries += [Entry("d/g/odd", b"no reading", 1)] * 6
        is_readable = [True] + [False] * (len(entries) - 1)
        entries.append(Entry(f"d/g/{self.name}/$status", record.encode(), 1))
        return entries, [*is_readable, True]


class Collector(Member):
    """A member of the group whose spool is a folder."""

    def __init__(self, number: int, names: list[str], world: WatchedIngest) -> None:
        super().__init__(names[number], names)
        self.number, self.world = number, world
        self.refused = 0
        self.frames: dict[tuple[str, int, int], bytes] = {}

    def deliver(self, one: tuple[bytes, Header], now: float) -> None:
        """Deliver as `Member` does, and keep the frame."""
        frame, header = one
        self.frames[header.origin, header.epoch, header.first] = frame
        super().deliver(one, now)

    def sync(self) -> None:
        """Sync as `Member` does; what is synced is in a segment of its spool."""
        if self.is_disk_full:
            self.refused += 1
        headers = self.unsynced
        frames = [self.frames[each.origin, each.epoch, each.first] for each in headers]
        super().sync()
        if frames:
            self.world.store(self.number, b"".join(frames))
        self.write()


class AtOnce(WayOutThread):
    """A way out without a thread, so that a run is the same each time."""

    def offer(self, records: Sequence[AlertRecord]) -> None:
        """Hand the records over at once."""
        self._hand_over(records)


class WatchedIngest(AgingIngest):
    """The world of `aging_ingest` with senders, collectors that share, and a job that watches."""

    trigger_bytes = 4_000

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.published.clear()
        self.senders = {name: Sender(name, at % TURNS) for at, name in enumerate(NAMES)}
        for sender in self.senders.values():
            sender.began_us = self.now_us - 1_000_000_000
        names = ["c0", "c1"]
        self.collectors = [Collector(number, names, self) for number in range(2)]
        self.now_s = 0.0
        for one in self.collectors:
            one.start(self.now_s)
        self.unsent: list[tuple[bytes, Header]] = []
        self.job: Ingest | None = None
        self.reads = True
        self.open: set[About] = set()
        self.raised: Counter[About] = Counter()
        self.killed_s: list[float] = []
        self.records: dict[str, AlertRecord] = {}
        self.out = AtOnce(self)

    # -- what goes on by itself -------------------------------------------------------------------

    def settings(self) -> IngestSettings:
        return IngestSettings(TableStore(str(self.tables)), JOB, rules=RULES, way_out=self.out)

    def take(self, records: Sequence[AlertRecord]) -> None:
        """A way out's: it drops what it has had."""
        (record,) = records
        self.records.setdefault(record.delivery_id, record)

    def clock_of(self, name: str) -> int:
        """Return the time of a gateway's clock, in microseconds."""
        return self.clock_us("gateways") + self.senders[name].ahead_us

    def settle(self, steps: int = SETTLES) -> None:
        """Let time pass until everything is judged."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Let `STEP_S` pass, for everybody."""
        for turn in range(TURNS):
            self.now_us += round(STEP_S / TURNS * 1e6)
            self.now_s += STEP_S / TURNS
            for sender in self.senders.values():
                if sender.phase == turn and not sender.is_down:
                    self._send(sender)
            self._collect()
        for one in self.collectors:
            if one.core is not None:
                self._write_status(one)
        self.turn_job()

    def _send(self, sender: Sender) -> None:
        now_us = self.clock_of(sender.name)
        entries, readable = sender.entries(now_us, self.now_us)
        for at, is_readable in enumerate(readable):
            self.published.add((f"{sender.name}/{sender.epoch}", sender.first + at, is_readable))
        frame = batch.encode(
            sender.name,
            sender.epoch,
            sender.first,
            entries,
            flags=Flags.LOGGED,
            origin_time_us=max(0, now_us),
        )
        sender.first += len(entries)
        one = (frame, batch.check(frame))
        (sender.withheld if sender.is_cut_off else self.unsent).append(one)

    def _collect(self) -> None:
        alive = [one for one in self.collectors if one.core is not None]
        for one in alive:
            for each in self.unsent:
                one.deliver(each, self.now_s)
        told = []
        for one in alive:
            one.turn(self.now_s)
            one.sync()
            assert one.core is not None
            if not one.core.speaks(self.now_s):
                continue
            told += [one.core.tell(name) for name in one.core.others]
        for each in told:
            self.collectors[int(each.receiver[1])].hear(each, self.now_s)
        # A gateway forgets what each collector has said that a spool has.
        self.unsent = [
            (frame, header)
            for frame, header in self.unsent
            if not all(self._is_safe(one, header) for one in self.collectors)
        ]

    def _is_safe(self, one: Collector, header: Header) -> bool:
        held = one.core.kept.elsewhere.get(header.stream) if one.core else None
        return header in one.synced or (held is not None and held.covers(header.first, header.last))

    def store(self, number: int, data: bytes) -> None:
        """A collector has synced something."""
        segment = self.spools[number] / f"{self._starts[number]:020d}.log"
        segment.write_bytes(data)
        noted = PAIR.pack(len(data), self.clock_us(number))
        segment.with_suffix(SUFFIX).write_bytes(noted)
        (self.spools[number] / "synced").write_text(f"{segment.name} {len(data)}\n")
        self._starts[number] += len(data)

    def _write_status(self, one: Collector) -> None:
        path = self.spools[one.number] / "status.json"
        refusals = {"segment": one.refused} if one.refused else {}
        path.write_text(json.dumps({"neighbours": [{"forwarding": True}], "refusals": refusals}))
        at_us = self.clock_us(one.number)
        os.utime(path, ns=(at_us * 1_000, at_us * 1_000))

    # -- the job ----------------------------------------------------------------------------------

    def turn_job(self) -> None:
        """Have the job read all that there is, and look; it is started if it does not run."""
        with (
            mock.patch.object(time, "time_ns", lambda: self.clock_us("job") * 1_000),
            mock.patch.object(time, "monotonic_ns", lambda: self.now_us * 1_000),
        ):
            try:
                if self.job is None:
                    self.job = self.start_job()
                if self.reads:
                    self.read_all(self.job)
                self.job.nothing_came(self.spools)
            except KilledError:
                self.job = None

    def end_job(self) -> None:
        """The job is asked to end."""
        with mock.patch.object(time, "time_ns", lambda: self.clock_us("job") * 1_000):
            if self.job is not None:
                self.job.close()
        self.job = None

    def kill_job(self) -> None:
        """The job is killed: at a drawn moment of its next micro-batch, or between two."""
        moment = self.draw.choice((*MOMENTS, ""))
        if self.job is not None and moment:

            def watch(now: str) -> None:
                if now == moment:
                    raise KilledError

            self.job.watch = watch
            self.step()
        self.job = None
        self.killed_s = [s for s in self.killed_s if s > self.now_s - WINDOW_S] + [self.now_s]
        failing = ("ingest-failing", "", "")
        if len(self.killed_s) >= 3 and failing not in self.open:
            self.begins(failing)

    # -- what is to be told -----------------------------------------------------------------------

    def begins(self, about: About) -> None:
        """An alert is to be raised."""
        self.open.add(about)
        self.raised[about] += 1

    def ends(self, about: About) -> None:
        """It is to be cleared."""
        self.open.discard(about)

    def look(self) -> None:
        """Hold what is told against what is so."""
        if self.killed_s and self.now_s - self.killed_s[-1] > WINDOW_S + STEP_S:
            self.killed_s.clear()
            self.ends(("ingest-failing", "", ""))
        remembered = state.decode((self.tables / "_fleet" / "state").read_bytes())
        told = list(remembered.alerts.all())
        is_open = {(a.kind, a.gateway, a.sensor) for a in told if a.cleared_us is None}
        assert is_open == self.open, f"open {is_open - self.open}, not open {self.open - is_open}"
        raised = Counter((a.kind, a.gateway, a.sensor) for a in told)
        assert raised == self.raised, f"more {raised - self.raised}, fewer {self.raised - raised}"
        assert len({a.id for a in told}) == len(told), told
        changes = {(a.id, "raised") for a in told}
        changes |= {(a.id, "cleared") for a in told if a.cleared_us is not None}
        left = {(one.alert, one.change) for one in remembered.outgoing.pending}
        handed = {(one.alert, one.change) for one in self.records.values()} | left
        handed = {each for each in handed if each[1] != "reminded"}  # by whichever clock
        assert handed == changes, handed ^ changes

    # -- what is in tables ------------------------------------------------------------------------

    def check(self) -> None:
        """Each message once, in the table that it belongs to."""
        self.end_job()
        found: Counter[tuple[str, int, bool]] = Counter()
        for part in ("telemetry", "quarantine"):
            table = deltalake.DeltaTable(self.place(part)).to_pyarrow_dataset()
            for row in table.to_table(["origin", "boot_epoch", "sequence"]).to_pylist():
                found[
                    f"{row['origin']}/{row['boot_epoch']}", row["sequence"], part == "telemetry"
                ] += 1
        missing, extra = self.published - set(found), set(found) - self.published
        doubled = [one for one, times in found.items() if times > 1]
        assert not (missing or extra or doubled), (missing, extra, doubled)
