"""A spool to write into, and one Spark session for all tests, since its start takes seconds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cloud_ingest.job import java
from cloud_ingest.job.session import session
from record_formats.record import Record
from tree_handler import batch
from tree_handler.batch import Entry, Flags

ORIGIN_TIME_US = 1_760_000_000_000_000


class SpoolWriter:
    """Writes a spool the way its documentation says, independent of the collector's code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.start = 0
        self.length = 0

    @property
    def segment(self) -> Path:
        return self.folder / f"{self.start:020d}.log"

    def append(self, frame: bytes) -> int:
        """Append without syncing; where in the segment the frame starts."""
        with self.segment.open("ab") as file:
            file.write(frame)
        at = self.length
        self.length += len(frame)
        return at

    def roll(self) -> None:
        self.start += self.length
        self.length = 0
        self.segment.touch()

    def sync(self) -> None:
        (self.folder / "synced").write_text(f"{self.segment.name} {self.length}\n")

    def readings(
        self,
        origin: str,
        epoch: int,
        first: int,
        count: int = 1,
        *,
        flags: int = Flags.LOGGED,
        origin_time_us: int = ORIGIN_TIME_US,
    ) -> int:
        """Append a batch of ``count`` readings, each taken 250 ms before its acceptance."""
        device_time_s = (origin_time_us - 250_000) / 1e6
        payloads = [
            Record("host/load1", "/", 0.5 + number, device_time_s, number).encode()
            for number in range(first, first + count)
        ]
        topic = f"campus/north/{origin}/host/load1"
        return self.payloads(
            origin, epoch, first, payloads, topic=topic, flags=flags, origin_time_us=origin_time_us
        )

    def payloads(
        self,
        origin: str,
        epoch: int,
        first: int,
        payloads: Sequence[bytes],
        *,
        topic: str = "campus/north/gw/any",
        flags: int = Flags.LOGGED,
        origin_time_us: int = ORIGIN_TIME_US,
    ) -> int:
        entries = [Entry(topic, payload, qos=1) for payload in payloads]
        frame = batch.encode(
            origin, epoch, first, entries, flags=flags, origin_time_us=origin_time_us
        )
        return self.append(frame)


@pytest.fixture
def spool(tmp_path: Path) -> SpoolWriter:
    return SpoolWriter(tmp_path / "spool")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    found = java.provide(os.environ)
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            # An archive of Java's classes is written anew for each installation, and takes a third
            # of all that these tests take: for one more session it is not worth it.
            patch.setenv("XDG_CACHE_HOME", os.devnull)
            started = stack.enter_context(session(found))
        yield started
