"""A gateway tells of its release, its last trial and a reboot that is due."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cloud_ingest.dashboard import fleet_view
from cloud_ingest.tables.fleet_schemas import GATEWAYS
from gateway.process.fleet_status.own_release import ON_TRIAL, ReleaseFiles, ReleaseReading
from gateway.releases import trial as trials
from gateway.releases.folder import ReleaseFolder
from record_formats.status_record import MAX_TEXT, StatusError, StatusRecord, decode

OLD, NEW = "0.1.0-old-cp313-aarch64", "0.1.0-new-cp313-aarch64"


@pytest.fixture
def folder(tmp_path: Path) -> ReleaseFolder:
    for release in (OLD, NEW):
        (tmp_path / "opt/releases" / release).mkdir(parents=True)
        (tmp_path / "opt/releases" / release / "installed").touch()
    (tmp_path / "run").mkdir()
    made = ReleaseFolder(tmp_path / "opt")
    made.switch(OLD)
    return made


def told(folder: ReleaseFolder) -> ReleaseReading:
    return ReleaseFiles(folder.path / "venv", folder.path.parent).read()


def on_trial(ring: int | None) -> trials.Trial:
    return replace(trials.begun(OLD, NEW, 60, "boot", None), ring=ring)


def test_a_release_that_was_never_on_trial_is_told_by_its_name(folder: ReleaseFolder) -> None:
    assert told(folder) == ReleaseReading(release=OLD, reboot_due=False)


def test_a_trial_is_told_while_it_is_open_and_how_it_ended_with_its_ring_and_why(
    folder: ReleaseFolder,
) -> None:
    trial = on_trial(2)
    folder.keep(trial)
    folder.switch(NEW)
    is_open = ReleaseReading(
        release=NEW, ring=2, trial=ON_TRIAL, trial_release=NEW, reboot_due=False
    )
    assert told(folder) == is_open
    folder.switch(OLD)
    folder.close(trial, "its service ended 4 times")
    went_back = replace(
        is_open, release=OLD, trial="returned", trial_why="its service ended 4 times"
    )
    assert told(folder) == went_back
    folder.close(trial, "")
    assert told(folder).trial == "confirmed"


def test_a_gateway_that_is_read_by_another_user_may_read_how_the_trial_goes(
    folder: ReleaseFolder,
) -> None:
    folder.keep(on_trial(1))
    folder.close(on_trial(1), "")
    assert (folder.path / "last-trial.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("ring", ["2", 0, True, None])
def test_a_trial_of_before_has_no_ring_and_what_is_no_ring_is_not_told(
    folder: ReleaseFolder, ring: object
) -> None:
    last = {"release": NEW, "before": OLD, "why": "", "outcome": "confirmed", "ring": ring}
    (folder.path / "last-trial.json").write_text(json.dumps(last))
    assert told(folder).ring is None
    before = json.loads(trials.encode(on_trial(None)))
    del before["ring"]
    assert trials.decode(json.dumps(before).encode()).ring is None


def test_a_why_that_is_long_or_has_line_breaks_fits_into_a_record(folder: ReleaseFolder) -> None:
    folder.close(on_trial(1), "Traceback:\n" + "x" * 1000)
    why = told(folder).trial_why
    assert why.startswith("Traceback:\\nx")
    assert len(why) == MAX_TEXT
    assert decode(StatusRecord(interval_s=1.0, trial_why=why).encode()).trial_why == why


def test_files_that_are_damaged_leave_the_release_alone(folder: ReleaseFolder) -> None:
    (folder.path / "trial.json").write_text("{")
    assert told(folder) == ReleaseReading(release=OLD, reboot_due=False)


def test_a_package_that_waits_for_a_reboot_is_told(folder: ReleaseFolder) -> None:
    (folder.path.parent / "run/reboot-required").touch()
    assert told(folder).reboot_due is True


def test_a_gateway_that_came_in_another_way_tells_no_release(tmp_path: Path) -> None:
    assert ReleaseFiles(tmp_path / "usr/lib/hedgerow", tmp_path).read() == ReleaseReading()


def test_a_record_has_them_and_a_reader_of_before_keeps_what_it_does_not_know() -> None:
    record = StatusRecord(
        interval_s=10.0, release=NEW, ring=2, trial="returned", trial_why="no", reboot_due=True
    )
    assert decode(record.encode()) == record
    assert len(record.encode()) < 100
    with pytest.raises(StatusError, match=r"\$\.ty"):
        decode(replace(record, trial_why="a\nb").encode())


def test_the_dashboard_has_them_and_reads_tables_of_before() -> None:
    names = ("release", "ring", "trial", "trial_release", "trial_why", "reboot_due")
    row = {"gateway": "gw-a", "release": NEW, "ring": 2, "trial": "returned", "trial_why": "no"}
    table = GATEWAYS.empty_table().from_pylist([row], GATEWAYS)
    found = fleet_view.gateway(table, "gw-a")
    assert found is not None
    assert {name: found[name] for name in row} == row
    of_before = fleet_view.gateway(table.drop_columns(list(names)), "gw-a")
    assert of_before is not None
    assert {of_before[name] for name in names} == {None}
