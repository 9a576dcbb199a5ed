"""Whoever looks at a gateway sees that its backups are overdue, or would not serve."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fleet_gateway import Fleet
from hypothesis import given
from hypothesis import strategies as st

from gateway.backups import notes, trials
from gateway.backups.backup_state import OVERDUE_DAYS, BackupFiles, BackupState, standing
from gateway.backups.trials import BackupTrial
from gateway.process.fleet_status.own_status import OwnStatus
from gateway.process.fleet_status.pace import StatusPace
from gateway.process.fleet_status.status_sources import StatusFindings
from gateway.process.status.doctor import DoctorObservations, Weight, findings
from record_formats.status_record import StatusRecord, decode
from tree_handler.members.place import Place

DAY_S = 86_400.0
NOW_S = 1_795_829_400.0
GOOD = {"at": NOW_S - DAY_S, "name": "gw-south.000042", "bytes": 9}
FAILED = {"at": NOW_S, "why": "the place is full"}
ILL = {"at_s": NOW_S, "backup": "x", "is_well": False, "why": "its log is cut"}
WELL = {**ILL, "is_well": True, "why": ""}


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        ({"good": GOOD, "failure": None}, BackupState("good", "", DAY_S)),
        ({"good": GOOD, "trial": WELL}, BackupState("good", "", DAY_S)),
        ({"good": GOOD, "failure": FAILED}, BackupState("good", "the place is full", DAY_S)),
        ({"good": GOOD, "trial": ILL}, BackupState("trial failed", "its log is cut", DAY_S)),
        ({}, BackupState("none yet", "", None)),
        ({"failure": FAILED}, BackupState("none yet", "the place is full", None)),
        (
            {"good": {**GOOD, "at": NOW_S - 4 * DAY_S}, "failure": FAILED, "trial": WELL},
            BackupState("overdue", "no good backup for 4 days: the place is full", 4 * DAY_S),
        ),
        ({"good": {**GOOD, "at": NOW_S + DAY_S}}, BackupState("good", "", 0.0)),
    ],
)
def test_what_is_noted_decides_how_it_stands(noted: dict[str, Any], expected: BackupState) -> None:
    assert standing(noted, NOW_S - 2 * DAY_S, 3, NOW_S) == expected


def test_a_timer_that_never_made_one_is_overdue_from_its_settings_on() -> None:
    found = standing({}, NOW_S - 4 * DAY_S, 3, NOW_S)
    assert (found.backup, found.backup_why) == ("overdue", "no good backup for 4 days")


def test_without_settings_backups_are_off_and_what_cannot_be_read_is_not_known(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "backup.toml"
    files = BackupFiles(settings, tmp_path, lambda: NOW_S)
    assert files.read() == files.last == BackupState("off")
    settings.write_text("not toml")
    assert files.read() == BackupState()
    settings.write_text("overdue_days = 0.5\n")
    os.utime(settings, (NOW_S, NOW_S))
    assert files.read().backup == "none yet"
    notes.write(tmp_path, {"good": GOOD})
    assert files.read().backup == "overdue"
    (tmp_path / notes.NOTED).write_text("[" * 100_000)
    assert files.read().backup == "none yet"


@pytest.mark.parametrize(
    ("line", "days"),
    [
        ("overdue_days = 2", 2),
        ("overdue_days = 0", OVERDUE_DAYS),
        ("overdue_days = -1", OVERDUE_DAYS),
        ('overdue_days = "2"', OVERDUE_DAYS),
        ("overdue_days = true", OVERDUE_DAYS),
        ("overdue_days = inf", OVERDUE_DAYS),
        ("", OVERDUE_DAYS),
    ],
)
def test_a_backup_is_overdue_after_the_days_of_the_settings_or_the_usual_ones(
    line: str, days: float, tmp_path: Path
) -> None:
    settings = tmp_path / "backup.toml"
    settings.write_text(line)
    for age_s, found in ((days * DAY_S, "good"), (days * DAY_S + 1, "overdue")):
        notes.write(tmp_path, {"good": {**GOOD, "at": NOW_S - age_s}})
        assert BackupFiles(settings, tmp_path, lambda: NOW_S).read().backup == found


KEYS = ("good", "failure", "trial", "at", "at_s", "why", "is_well", "backup")
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner),
)


async def test_whatever_the_word_of_a_trial_is_the_record_is_one_that_others_read(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path)
    try:
        gateway = fleet.gateway("gw-a", tls=False)
        await gateway.start()
        parts = gateway.process.parts
        own = OwnStatus(
            gateway.read().gateway,
            parts.node,
            parts.broker.core,
            parts.members.known,
            parts.readings.sampler,
        )
        pace = StatusPace("gw-a", 1.0, own.place_in_tree(), 0.0)

        @given(st.text(), st.floats(0))
        def is_read(why: str, age_s: float) -> None:
            looked = StatusFindings(backup=BackupState("trial failed", why, age_s))
            record = own.record(1.0, 1.0, Place(), looked, pace)
            assert decode(record.encode()).backup == "trial failed"

        is_read()
    finally:
        await fleet.stop()


@given(JSON)
def test_whatever_is_noted_is_looked_at_without_an_error(noted: object) -> None:
    found = standing(noted if isinstance(noted, dict) else {"good": noted}, 0, 3, NOW_S)
    record = StatusRecord(interval_s=1, backup=found.backup, backup_age_s=found.backup_age_s)
    assert found.backup and record.backup == found.backup


def test_a_trial_reads_as_it_was_left_and_anything_else_is_none() -> None:
    trial = BackupTrial(NOW_S, "gw", False, "why")
    assert trials.parsed(ILL | {"backup": "gw", "why": "why"}) == trial
    for bad in (None, [], {**ILL, "at_s": "1"}, {**ILL, "is_well": 1}, {**ILL, "at_s": 1e999}):
        assert trials.parsed(json.loads(json.dumps(bad))) is None


def test_the_record_and_the_doctor_tell_it() -> None:
    why = "no good backup for 4 days"
    record = StatusRecord(interval_s=1, backup="overdue", backup_why=why, backup_age_s=4 * DAY_S)
    assert decode(record.encode()) == record
    (found,) = findings(DoctorObservations(backup=BackupState("overdue", why, None)))
    assert (found.weight, found.about) == (Weight.WRONG, "backup")
    (found,) = findings(DoctorObservations(backup=BackupState("trial failed", "cut", 1.0)))
    assert found.weight is Weight.WRONG and "backup check" in found.advice
    (found,) = findings(DoctorObservations(backup=BackupState("good", "full", 1.0)))
    assert found.weight is Weight.LOOK
    assert findings(DoctorObservations(backup=BackupState("good", "", 1.0))) == []
