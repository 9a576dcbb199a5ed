"""Goal: who changed what can be read later, in bounded space."""

from __future__ import annotations

import getpass
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.base.event_log.audit import TEXT_CHARACTERS, AuditTrail, current_user


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


def test_a_remark_waits_for_no_disk_though_another_change_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail, reached, is_on_disk = AuditTrail(tmp_path / "audit"), threading.Event(), os.fsync
    disk = threading.Event()

    def slow(descriptor: int) -> None:
        reached.set()
        assert disk.wait(60)
        is_on_disk(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    appending = threading.Thread(target=trail.append, args=("reload", "policy changed"))
    appending.start()
    assert reached.wait(60)
    remarking = threading.Thread(target=trail.remark, args=("stranger", "refused"), daemon=True)
    remarking.start()
    remarking.join(60)
    try:
        assert not remarking.is_alive()
        assert [one.what for one in trail.changes()] == ["policy changed", "refused"]
    finally:
        disk.set()
        appending.join(60)


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


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that were read as JSON."""
    found: list[bytes] = []
    real = json.loads

    def loads(line: bytes, **options: Any) -> Any:
        found.append(line)
        return real(line, **options)

    monkeypatch.setattr(json, "loads", loads)
    return found


def test_who_wants_the_newest_reads_no_others(tmp_path: Path, parsed: list[bytes]) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", most_bytes=8_000)
    assert trail.newest(3) == []
    for number in range(200):
        trail.remark("alice", "changed", number=number)
    assert (tmp_path / "audit.jsonl.1").exists()
    every = list(trail.changes())
    for count in (1, 3, 100, 1_000):
        parsed.clear()
        assert trail.newest(count) == every[::-1][:count]
        assert len(parsed) == min(count, len(every))


def test_who_wants_changes_of_a_kind_reads_no_others(tmp_path: Path, parsed: list[bytes]) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", most_bytes=8_000)
    kind = 'a "quoted" kind, ü'
    assert list(trail.changes_of(kind)) == []
    for number in range(200):
        trail.remark("alice", kind if number % 20 == 7 else "other", number=number)
    trail.remark("alice", "of another", named=kind)
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"time_s": 1.0, "what": ' + json.dumps(kind).encode())  # cut off
    expected = [one for one in trail.changes() if one.what == kind]
    assert len(expected) > 3
    parsed.clear()
    assert list(trail.changes_of(kind)) == expected
    assert len(parsed) == len(expected) + 2


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_change_stands_in_the_file_that_is_current_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_replaced: bool
) -> None:
    """Another process puts the file aside between its opening here and its lock."""
    path, real, was_moved = tmp_path / "audit.jsonl", os.open, list[int]()

    def opened(file: Any, *more: Any, **options: Any) -> int:
        descriptor = real(file, *more, **options)
        if file == path and not was_moved:
            was_moved.append(descriptor)
            path.replace(tmp_path / "audit.jsonl.1")
            if is_replaced:
                path.touch()
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    AuditTrail(path).append("alice", "changed")
    assert (tmp_path / "audit.jsonl.1").read_bytes() == b""
    assert json.loads(path.read_bytes())["what"] == "changed"


def test_a_file_is_put_aside_when_it_has_grown_as_long_as_it_may(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    AuditTrail(path).append("alice", "first", 1.0)
    size = path.stat().st_size
    AuditTrail(path, most_bytes=size + 1).append("alice", "second", 1.0)
    assert not (tmp_path / "audit.jsonl.1").exists()
    AuditTrail(path, most_bytes=path.stat().st_size).append("alice", "third", 1.0)
    assert [one.what for one in AuditTrail(path).newest(2)] == ["third", "second"]
    assert len(path.read_bytes().splitlines()) == 1


def test_a_text_of_others_is_cut_only_where_it_is_too_long(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    trail.remark("a" * TEXT_CHARACTERS, "changed", names=["b" * (TEXT_CHARACTERS + 1)], count=7)
    (change,) = trail.newest(5)
    cut = "b" * (TEXT_CHARACTERS - 3) + "..."
    assert (change.who, change.of) == ("a" * TEXT_CHARACTERS, {"names": [cut], "count": 7})


@pytest.mark.parametrize(
    ("name", "before", "told"),
    [
        *[("ada", "", "ada"), ("ada", "ada", "ada"), ("root", "ada", "root (sudo by ada)")],
        ("", "ada", f"{os.getuid()} (sudo by ada)"),
    ],
)
def test_who_runs_this_is_told_with_who_became_that_user(
    monkeypatch: pytest.MonkeyPatch, name: str, before: str, told: str
) -> None:
    def getuser() -> str:
        if not name:  # a number that no user has
            raise KeyError("getpwuid(): uid not found")
        return name

    monkeypatch.setattr(getpass, "getuser", getuser)
    monkeypatch.setenv("SUDO_USER", before)
    assert current_user() == told


@pytest.mark.parametrize(("more", "is_new"), [(0, True), (1, False)])
def test_a_trail_begins_anew_when_it_is_as_long_as_it_may_grow_and_not_before(
    tmp_path: Path, more: int, is_new: bool
) -> None:
    path, older = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    AuditTrail(path).append("alice", "first", 1.0)
    AuditTrail(path, most_bytes=path.stat().st_size + more).append("alice", "second", 2.0)
    assert older.exists() is is_new
    assert [one.what for one in AuditTrail(path).changes()] == ["first", "second"]


def test_changes_of_a_kind_are_found_behind_lines_that_are_none_and_before_a_cut_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'"changed" is no change\n')
    trail = AuditTrail(path)
    trail.append("alice", "changed", number=1)
    trail.append("bob", "other", text="changed")
    trail.append("carol", "changed", number=2)
    with path.open("ab") as file:
        file.write(b'{"time_s": 1.0, "what": "changed"')
    assert [(one.who, one.of) for one in trail.changes_of("changed")] == [
        ("alice", {"number": 1}),
        ("carol", {"number": 2}),
    ]
    assert [one.who for one in trail.changes_of("other")] == ["bob"]
    assert list(trail.changes_of("nothing")) == []
