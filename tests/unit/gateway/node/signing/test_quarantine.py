"""Refused batches are kept for a look. A flood of them costs neither disk nor log."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gateway.node.signing import quarantine
from gateway.node.signing.quarantine import (
    FOLDER,
    KEPT_AT_ONCE,
    MAX_BYTES,
    SAY_INTERVAL_S,
    Quarantine,
)
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.proof import Verdict
from tree_handler.replication.actions import Refuse


def refused(verdict: Verdict = Verdict.FORGED, payload: bytes = b"x") -> Refuse:
    rows = [Entry("t", payload, 1).row()]
    frame, header = batch.make("gw-a", 1, 7, rows, flags=Flags.LOGGED, origin_time_us=0)
    return Refuse(frame, header, 1, verdict)


class Kept:
    """A quarantine, its clock and its folder."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.quarantine = Quarantine(folder, lambda: self.now)
        self._folder = folder / FOLDER

    def files(self) -> list[Path]:
        return sorted(self._folder.glob("*"))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_file_says_who_handed_a_batch_over_and_why_it_was_refused(kept: Kept) -> None:
    refuse = refused()
    kept.quarantine.take(refuse, "gw-x")
    (file,) = kept.files()
    told, _, frame = file.read_bytes().partition(b"\n")
    assert (
        json.loads(told).items()
        >= {
            "neighbour": "gw-x",
            "batch": "batch gw-a/1 logged 7..7",
            "why": "forged",
        }.items()
    )
    assert frame == refuse.frame
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_flood_of_one_neighbour_leaves_room_for_others(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(1_000):
        kept.quarantine.take(refused(), "gw-x")
    kept.quarantine.take(refused(), "gw-y")
    assert len(kept.files()) == KEPT_AT_ONCE + 1
    assert len(caplog.records) == 1
    kept.now = 1.0
    kept.quarantine.take(refused(Verdict.UNSIGNED), "gw-y")
    assert "gw-x 999 (forged)" in caplog.text


def test_so_many_files_are_kept_and_so_much_of_each(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MAX_FILES", 3)
    for number in range(5):
        kept.quarantine.take(refused(payload=bytes(2 * MAX_BYTES)), f"gw-{number}")
    names = [file.name for file in kept.files()]
    assert [name.partition("-")[2] for name in names] == [f"gw-{n}.batch" for n in (2, 3, 4)]
    assert all(file.stat().st_size < MAX_BYTES + 1_000 for file in kept.files())


def test_a_disk_that_takes_nothing_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("no folder")
    Quarantine(tmp_path).take(refused(), "gw-x")


def test_a_file_of_another_name_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "notes.batch").write_text("somebody's")
    Quarantine(tmp_path).take(refused(), "gw-x")
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == {
        "notes.batch",
        "0000000001-gw-x.batch",
    }


def test_files_are_numbered_in_their_order_from_1_and_the_folder_is_its_owners(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("gw-x", "gw-y", "gw-x"):
        kept.quarantine.take(refused(), name)
    assert [file.name for file in kept.files()] == [
        "0000000001-gw-x.batch",
        "0000000002-gw-y.batch",
        "0000000003-gw-x.batch",
    ]
    assert kept.files()[0].parent.stat().st_mode & 0o777 == 0o700
    assert len(caplog.messages) == 1  # of the first, and of no others so far
    kept.now = SAY_INTERVAL_S
    kept.quarantine.take(refused(), "gw-z")
    assert caplog.messages[-1].endswith(": gw-y 1 (forged), gw-x 1 (forged), gw-z 1 (forged)")
    kept.now = 2 * SAY_INTERVAL_S
    kept.quarantine.take(refused(), "gw-z")
    assert len(caplog.messages) == 4
