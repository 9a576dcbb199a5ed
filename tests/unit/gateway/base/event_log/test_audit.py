"""Goal: who changed what can be read later, in bounded space."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

from gateway.base.event_log.audit import AuditTrail


def test_changes_come_back_in_order(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    for number in range(3):
        trail.append("alice", "policy changed", float(number), rules=number, roles=["a", "b"])
    assert [one.as_json() for one in trail.changes()] == [
        {
            "time_s": float(number),
            "who": "alice",
            "what": "policy changed",
            "rules": number,
            "roles": ["a", "b"],
        }
        for number in range(3)
    ]
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600


def test_there_are_never_more_than_two_files_and_the_newest_changes_stay(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", most_bytes=1_000)
    for number in range(200):
        trail.append("alice", "changed", number=number)
    assert {file.name for file in tmp_path.iterdir()} == {"audit.jsonl", "audit.jsonl.1"}
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2_400
    numbers = [one.of["number"] for one in trail.changes()]
    assert numbers == list(range(200))[-len(numbers) :]
    assert len(numbers) > 10


def test_what_others_chose_is_cut_short(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    trail.append("a" * 10_000, "changed", name="b" * 10_000, names=["c" * 10_000])
    assert (tmp_path / "audit.jsonl").stat().st_size < 1_000


def test_a_line_that_a_power_cut_has_cut_off_hides_no_other(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    trail.append("alice", "first")
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"time_s": 1, "wh\n[]\n\xff\n{"time_s": []}\n')
    trail.append("alice", "second")
    assert [one.what for one in trail.changes()] == ["first", "second"]


def test_no_file_is_no_change(tmp_path: Path) -> None:
    assert list(AuditTrail(tmp_path / "audit.jsonl").changes()) == []


def test_processes_that_append_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    program = "import sys; from gateway.base.event_log.audit import AuditTrail; "
    program += "from pathlib import Path; "
    program += "t = AuditTrail(Path(sys.argv[1]), 10_000); "
    program += "[t.append(sys.argv[2], 'changed', number=n) for n in range(100)]"
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(path), who]) for who in ("a", "b")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = [(one.who, one.of["number"]) for one in AuditTrail(path).changes()]
    assert len(found) == len(set(found)) == 200


def test_a_line_that_a_power_cut_has_cut_off_costs_the_next_one_nothing(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    trail.append("alice", "first")
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"time_s": 1.0, "who": "al')
    trail.append("alice", "second")
    assert [one.what for one in trail.changes()] == ["first", "second"]
