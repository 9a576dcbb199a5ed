"""A file of records: what is read of it, and that it is never written over what was not read."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from unreadable_files import Unopened

from gateway.base.kept_file import KeptFile
from gateway.base.record_file import RecordFile
from tree_handler.errors import ProtocolError


def of(file: Path, take: Callable[[bytes], None]) -> RecordFile:
    return RecordFile(KeptFile(file, "they are gone"), "words", take)


def test_records_come_back_in_order_and_what_is_none_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def take(record: bytes) -> None:
        if record == b"old":
            raise ProtocolError("no such kind")
        taken.append(record)

    taken = list[bytes]()
    file = tmp_path / "words"
    of(file, take).save(lambda: [b"a", b"old", b"b"])
    assert msgpack.unpackb(file.read_bytes()) == [b"a", b"old", b"b"]
    again = of(file, take)
    again.recall()
    assert (taken, again.next_timer()) == ([b"a", b"b"], math.inf)
    assert f"{file}: a record is left out: no such kind" in caplog.text


def test_a_file_that_can_not_be_read_is_not_written_and_read_again_before_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file, taken = tmp_path / "words", list[bytes]()
    of(file, taken.append).save(lambda: [b"a"])
    records = of(file, taken.append)
    unopened = Unopened(monkeypatch, "words")
    records.recall()
    assert "only what the log tells of words is known until this can be read" in caplog.text
    due_s = records.next_timer()
    records.handle_timer(due_s - 0.5)
    assert unopened.tries == 1
    records.handle_timer(due_s)
    records.save(lambda: [b"lost"])
    assert unopened.tries == 3
    assert records.next_timer() > due_s
    unopened.end()
    records.handle_timer(records.next_timer())
    assert (taken, records.next_timer()) == ([b"a"], math.inf)
    records.save(lambda: [b"b", *taken])
    assert msgpack.unpackb(file.read_bytes()) == [b"b", b"a"]


def test_records_that_can_not_be_kept_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = of(tmp_path / "none" / "words", lambda _record: None)
    records.recall()
    records.save(lambda: [b"a"])
    told = f"words are not kept, so a restart may not know all: [Errno {errno.ENOENT}]"
    assert told in caplog.text
