"""A log says that it refuses for as long as what it refused would be refused, in every order."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base import replaced_file
from gateway.log.disk_failure import DiskFailure
from gateway.log.message_log import MARK_NAME, MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))


def frame(number: int) -> tuple[bytes, Header]:
    made = batch.encode(
        "gw", 1, number, [Entry("t", b"x", 1)], flags=Flags.LOGGED, origin_time_us=0
    )
    return made, batch.check(made)


def room(free: int) -> os.statvfs_result:
    return os.statvfs_result((1, 1, free, free, free, 0, 0, 0, 0, 255))


def test_a_short_batch_that_was_refused_last_hides_no_longer_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _folder: room(100))
    failure = DiskFailure(tmp_path)
    failure.refused(FULL, 5_000)
    failure.refused(FULL, 200)
    failure.took(200)
    assert failure.why == FULL.strerror
    failure.took(5_000)
    assert failure.why == ""


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("batch"), st.integers(1, 4)),
            st.tuples(st.just("room"), st.integers(0, 4)),
            st.tuples(st.just("sync"), st.integers(0, 1)),
        ),
        max_size=30,
    )
)
def test_a_log_says_that_it_refuses_while_what_it_refused_does_not_fit_or_no_sync_succeeds(
    steps: list[tuple[str, int]],
) -> None:
    """Of all orders, as of the last batch or sync."""
    free, longest, is_synced = 2, 0, True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _folder: room(free))
        failure = DiskFailure(Path())
        for what, number in steps:
            if what == "room":
                free = number
            elif what == "sync" and number:
                is_synced = True
                failure.synced()
            elif what == "sync":
                is_synced = False
                failure.unsynced(BROKEN)
            elif number > free:
                longest = max(longest, number)
                failure.refused(FULL, number)
            else:
                longest = 0 if longest <= free else longest
                failure.took(number)
            assert bool(failure.why) == (longest > 0 or not is_synced)


def test_a_mark_that_the_disk_does_not_take_is_a_failure_and_is_written_by_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for the sync is refused: the status says so, and readers get the mark later."""

    def full(*_given: object, **_more: object) -> None:
        raise FULL

    log = MessageLog(tmp_path / "spool", mark=True)
    log.open()
    log.append(*frame(1))
    log.sync()
    log.append(*frame(2))
    mark = tmp_path / "spool" / MARK_NAME
    before = mark.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(replaced_file, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            log.sync()
        assert log.failure == FULL.strerror
    assert mark.read_text() == before
    log.sync()
    assert log.failure == ""
    assert mark.read_text() != before
    log.close()


def test_a_disk_of_which_nobody_knows_the_room_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_folder: object) -> os.statvfs_result:
        raise BROKEN

    monkeypatch.setattr(os, "statvfs", broken)
    failure = DiskFailure(tmp_path)
    failure.refused(FULL, 200)
    failure.took(199)
    assert failure.why == FULL.strerror
    failure.took(200)
    assert failure.why == ""


def test_a_failure_that_has_no_name_is_told_in_its_own_words(tmp_path: Path) -> None:
    failure = DiskFailure(tmp_path)
    failure.unsynced(OSError("the card was pulled"))
    assert failure.why == "the card was pulled"
    failure.synced()
    assert failure.why == ""
