"""Messages that wait in the log are read from it, and stay in place while a read fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.broker.durability.queue_log_reader import QueueLogReader
from gateway.log.message_log import LogError, MessageLog
from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header

STREAM: Epoch = ("gw", 1)


class OneLog:
    """The log, as far as it is read here: a `History`."""

    own = STREAM

    def __init__(self, log: MessageLog) -> None:
        self._log = log

    def read(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        return self._log.in_sequence(key, first, last)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    made = MessageLog(tmp_path / "log", segment_bytes=4_096)
    made.open()
    for number in range(1, 101):
        row = ("a", 1, b"%d" % number + bytes(400))
        made.append(*batch.make(*STREAM, number, [row], flags=Flags.LOGGED, origin_time_us=1))
    yield made
    made.close()


def read_all(reading: QueueLogReader, first: int) -> list[int]:
    """The numbers that can be read from one on."""
    found: list[int] = []
    while first <= 100:
        messages, until = reading.messages(STREAM, first, 100)
        found += sorted(number for number in messages if first <= number <= until)
        first = until + 1
    return found


def test_what_stands_before_a_segment_that_can_not_be_opened_is_read(log: MessageLog) -> None:
    segments = sorted(log.folder.glob("*.log"))
    assert len(segments) > 4
    away = segments[3].with_suffix(".away")
    segments[3].rename(away)
    reading = QueueLogReader(OneLog(log), lambda: 0.0)  # type: ignore[arg-type]  # only read here
    first, found = 1, list[int]()
    with pytest.raises(LogError, match=segments[3].name):
        while True:
            messages, until = reading.messages(STREAM, first, 100)
            found += sorted(number for number in messages if first <= number <= until)
            first = until + 1
    assert found == list(range(1, len(found) + 1))
    at = log.where(STREAM, len(found) + 1)
    assert at == int(segments[3].stem), "the first that is missing is the first that stands there"
    with pytest.raises(LogError):
        reading.messages(STREAM, first, 100)
    away.rename(segments[3])
    assert found + read_all(reading, first) == list(range(1, 101))
