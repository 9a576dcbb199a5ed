"""Gateways, two collectors that can be killed, and a reader of the tables that is none of ours."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import pyarrow.parquet as pq

from record_formats.record import Record
from record_formats.status_record import StatusRecord
from tree_handler import batch
from tree_handler.batch import Entry, Flags

HERE = Path(__file__).parent
HOLED = "holed"
"""The gateway of which batches are kept back; each goes to both collectors, so no other is late."""
GATEWAYS = ("gw-0", "gw-1", "gw-2", HOLED)
ODD = "odd/"
"""The beginning of the names of sensors that raise an alert."""
A_BATCH = 10
PACE_S = 0.2
A_SECOND = round(1 / PACE_S)
RULES = f"""
[gap]
on = false
[[override]]
gateway = "{HOLED}"
gap = {{on = true, after-s = 1.0}}
flapping = {{on = false}}
[[override]]
sensor = "{ODD}*"
sensor-range = {{high = 100.0}}
[ingest]
behind = {{on = false}}
failing = {{on = false}}
quarantine-growing = {{on = false}}
collector-silent = {{on = false}}
"""
"""Each round raises two alerts. Those about the ingest, which dies all the time, are off."""
Stamp = tuple[str, int]


class RoundCollector:
    """A process of `round_collector`: started, killed, and given again what it has not told.

    Args:
        spool: its folder.

    """

    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self.clock_s = 0.0
        self._sent: list[bytes] = []
        self._told = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None

    def start(self, clock_s: float = 0.0) -> None:
        """Start it, with a clock that is ahead by so much."""
        command = (sys.executable, HERE / "round_collector.py", self.spool, str(clock_s))
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        self.clock_s = clock_s
        with self._lock:
            self._process = process
            self._sent = self._sent[self._told :]
            self._told = 0
            for frame in self._sent:
                self._hand(frame)
        self._listener = threading.Thread(target=self._listen, args=(process,))
        self._listener.start()

    def kill(self) -> None:
        """Kill it; what it has told before counts."""
        process = self._process
        if process is not None:
            process.kill()
            self._gone(process)

    def end(self) -> None:
        """Have it take all, and end."""
        process = self._process
        if process is not None:
            with self._lock:
                _close(process.stdin)
            self._gone(process)

    def _gone(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if self._listener is not None:
            self._listener.join()
        with self._lock:
            self._process = None
            _close(process.stdin)
            _close(process.stdout)

    def take(self, frame: bytes) -> None:
        with self._lock:
            self._sent.append(frame)
            self._hand(frame)

    def _hand(self, frame: bytes) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # killed: the next one gets it
                process.stdin.write(len(frame).to_bytes(4) + frame)
                process.stdin.flush()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        while told := os.read(process.stdout.fileno(), 4096):
            self._told += len(told)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


class RoundFleet:
    """Gateways whose messages go to one collector or both; what it holds is what was published.

    Args:
        spools: a folder for each collector.
        chance: which collector gets what.

    """

    def __init__(self, spools: list[Path], chance: random.Random) -> None:
        self.spools = spools
        self.collectors = [RoundCollector(spool) for spool in spools]
        self.published: set[Stamp] = set()
        self._chance = chance
        self._next = dict.fromkeys(GATEWAYS, 1)
        self._kept_back: list[bytes] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._publish, name="gateways")

    @contextlib.contextmanager
    def publishing(self) -> Iterator[None]:
        for one in self.collectors:
            one.start()
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()
            for one in self.collectors:
                one.kill()

    def stop(self) -> None:
        """Publish no more; what is published comes to its collectors."""
        self._stopped.set()
        self._thread.join()
        for one in self.collectors:
            one.end()

    def kill_one(self, clock_s: float) -> None:
        """Kill a collector, and start it again with a clock that is ahead by so much."""
        one = self._chance.choice(self.collectors)
        one.kill()
        time.sleep(self._chance.uniform(0, 1))
        one.start(clock_s)

    def set_clocks_right(self) -> None:
        """Start collectors again whose clock is wrong."""
        for one in self.collectors:
            if one.clock_s:
                one.kill()
                one.start()

    def read_odd(self, number: int, value: float) -> None:
        """Have a gateway read this from one sensor, once."""
        record = Record(f"{ODD}{number}", "", value, time.time(), 1).encode()
        with self._lock:
            self._give(GATEWAYS[0], [Entry(f"{ODD}{number}", record, 1)])

    def keep_back(self) -> None:
        """Number a batch, and hand it to nobody before `bring`."""
        with self._lock:
            self._kept_back.append(self._frame(HOLED, self._readings(HOLED)))

    def bring(self) -> None:
        """Let what was kept back come to the collectors."""
        with self._lock:
            for frame in self._kept_back:
                for one in self.collectors:
                    one.take(frame)
            self._kept_back.clear()

    def _publish(self) -> None:
        turn = 0
        while not self._stopped.wait(PACE_S):
            with self._lock:
                for name in GATEWAYS:
                    self._give(name, self._readings(name))
                    if turn % A_SECOND == 0:
                        self._give(name, [self._status(name, turn // A_SECOND)])
            turn += 1

    def _give(self, name: str, entries: list[Entry]) -> None:
        frame = self._frame(name, entries)
        one, other = self.collectors
        among = [(one, other)] if name == HOLED else [(one,), (other,), (one, other)]
        for collector in self._chance.choice(among):
            collector.take(frame)

    def _readings(self, name: str) -> list[Entry]:
        first = self._next[name]
        payloads = [
            b"no reading" if n % A_BATCH == 0 else Record("t", "", n, time.time(), n).encode()
            for n in range(first, first + A_BATCH)
        ]
        return [Entry("t", payload, 1) for payload in payloads]

    def _status(self, name: str, up_s: int) -> Entry:
        record = StatusRecord(interval_s=60.0, up_s=float(up_s), domain="campus", group="a")
        return Entry(f"campus/a/{name}/$status", record.encode(), 1)

    def _frame(self, name: str, entries: list[Entry]) -> bytes:
        first = self._next[name]
        self._next[name] += len(entries)
        self.published |= {(name, first + n) for n in range(len(entries))}
        now_us = time.time_ns() // 1_000
        return batch.encode(name, 1, first, entries, flags=Flags.LOGGED, origin_time_us=now_us)


class TableReader:
    """Counts how often each message stands in the tables, by Delta's log and Parquet alone.

    Args:
        tables: the folder of all tables.

    """

    def __init__(self, tables: Path) -> None:
        self._tables = tables
        self._read: dict[Path, list[Stamp]] = {}

    def count(self) -> Counter[Stamp]:
        stamps: Counter[Stamp] = Counter()
        for name in ("telemetry", "quarantine"):
            for path in files_of(self._tables / name):
                if path not in self._read:  # a file that stands in the log stays as it is
                    columns = pq.ParquetFile(path).read(["origin", "sequence"]).to_pydict()
                    self._read[path] = list(
                        zip(columns["origin"], columns["sequence"], strict=True)
                    )
                stamps.update(self._read[path])
        return stamps


def files_of(table: Path) -> set[Path]:
    """Follow a Delta log from its first commit."""
    log = table / "_delta_log"
    found: set[Path] = set()
    commits = sorted(path for path in log.glob("*.json") if path.stem.isdigit())
    assert [int(path.stem) for path in commits] == list(range(len(commits))), "commits are gone"
    for commit in commits:
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                found.add(table / unquote(action["add"]["path"]))
            elif "remove" in action:
                found.discard(table / unquote(action["remove"]["path"]))
    return found
