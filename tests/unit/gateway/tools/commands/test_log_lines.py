"""The log is read from a file that is begun anew, and from a journal that misbehaves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.base.event_log.lines import FILE_NAME
from gateway.process.state_folder import listeners_file
from gateway.tools.commands import log_lines
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.log_lines import (
    LINE_BYTES_MAX,
    LogSource,
    UnitJournal,
    WrittenLog,
    find_source,
    unit_in,
)

LIMIT_S = 60


async def all_of(source: LogSource, last: int | None = None) -> list[str]:
    async with asyncio.timeout(LIMIT_S):
        return [line async for line in source.lines(last=last, follows=False)]


async def taken(lines: AsyncIterator[str], count: int) -> list[str]:
    async with asyncio.timeout(LIMIT_S):
        return [await anext(lines) for _ in range(count)]


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which a test writes."""
    program = tmp_path / "bin" / "journalctl"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def configured(folder: Path) -> Path:
    """A gateway's configuration."""
    (folder / "tree.key").touch(mode=0o600)
    (folder / "tree.key").write_text("ab" * 32)
    config = folder / "gateway.toml"
    state = f'[gateway]\nid = "gw"\nstate_dir = "{folder}/state"\n'
    rest = f'[tree]\nkey_file = "{folder}/tree.key"\ntls = "off"\n[access]\nanonymous = true\n'
    config.write_text(state + rest)
    (folder / "state").mkdir()
    return config


def test_the_file_of_a_gateway_comes_before_a_journal(tmp_path: Path) -> None:
    config, file = configured(tmp_path), tmp_path / "state" / FILE_NAME
    file.touch()
    assert find_source(config, None) == WrittenLog(file)


@pytest.mark.parametrize(
    ("groups", "unit"),
    [
        ("0::/system.slice/hedgerow.service\n", "hedgerow.service"),
        ("0::/system.slice/system-hedgerow.slice/hedgerow-gw-b.service\n", "hedgerow-gw-b.service"),
        ("1:name=systemd:/system.slice/hedgerow.service\n0::/\n", "hedgerow.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n", None),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("0::/\n", None),
        ("", None),
    ],
)
def test_a_gateway_of_the_system_is_known_by_its_unit(groups: str, unit: str | None) -> None:
    assert unit_in(groups) == unit


def test_a_file_that_is_named_and_not_there_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match=r"--file: .*none: No such file"):
        find_source(None, tmp_path / "none")


async def test_the_last_lines_of_a_file_are_told_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"one\ntwo\r\n\xff three\nhalf")
    assert await all_of(WrittenLog(file)) == ["one", "two", "\ufffd three"]
    assert await all_of(WrittenLog(file), 1) == ["\ufffd three"]


async def test_a_file_is_followed_over_its_end_and_a_half_line_is_waited_for(
    tmp_path: Path,
) -> None:
    file = tmp_path / "log"
    file.write_text("one\nha")
    lines = WrittenLog(file).lines(last=None, follows=True)
    assert await taken(lines, 1) == ["one"]
    with file.open("a") as more:
        more.write("lf\ntwo\n")
    assert await taken(lines, 2) == ["half", "two"]
    file.rename(tmp_path / "log.1")
    file.write_text("anew\n")
    assert await taken(lines, 1) == ["anew"]
    os.truncate(file, 0)
    with file.open("a") as more:
        more.write("cut\n")
    assert await taken(lines, 1) == ["cut"]


async def test_the_piece_before_the_file_is_told_first(tmp_path: Path) -> None:
    file = tmp_path / "log"
    (tmp_path / "log.1").write_text("one\ntwo\nha")
    file.write_text("three\n")
    assert await all_of(WrittenLog(file)) == ["one", "two", "ha", "three"]
    assert await all_of(WrittenLog(file), 2) == ["ha", "three"]
    assert await taken(WrittenLog(file).lines(last=2, follows=True), 2) == ["ha", "three"]
    file.rename(tmp_path / "log.1")
    file.hardlink_to(tmp_path / "log.1")
    assert await all_of(WrittenLog(file)) == ["three"], "one file, though it has two names"


async def test_what_is_written_just_before_a_file_is_begun_anew_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log"
    file.write_text("one\n")
    lines = WrittenLog(file).lines(last=None, follows=True)
    assert await taken(lines, 1) == ["one"]
    looked_at = Path.stat

    def begun_anew(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == file and not (tmp_path / "log.1").exists():
            with file.open("a") as more:
                more.write("two\nhalf")
            file.rename(tmp_path / "log.1")
            file.write_text("anew\n")
        return looked_at(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", begun_anew)
    assert await taken(lines, 3) == ["two", "half", "anew"]


async def test_a_file_that_is_gone_when_it_was_to_be_opened_anew_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log"
    file.write_text("one\n")
    lines = WrittenLog(file).lines(last=None, follows=True)
    assert await taken(lines, 1) == ["one"]
    file.rename(tmp_path / "log.1")
    file.write_text("two\n")
    opened, refused = Path.open, list[Path]()

    def gone_once(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == file and not refused:
            refused.append(path)
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", gone_once)
    assert await taken(lines, 1) == ["two"]
    assert refused


async def test_a_line_without_an_end_is_told_in_parts(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("x" * (LINE_BYTES_MAX + 5) + "\n")
    assert [len(one) for one in await all_of(WrittenLog(file))] == [LINE_BYTES_MAX, 5]


async def test_a_file_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="log: No such file or directory"):
        await all_of(WrittenLog(tmp_path / "log"))


async def test_the_journal_is_asked_for_a_unit(journalctl: Path) -> None:
    journalctl.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    told = await all_of(UnitJournal("hedgerow.service"), 5)
    assert told == [
        *("--quiet", "--no-pager", "--output=cat"),
        *("--unit=hedgerow.service", "--lines=5"),
    ]


async def test_why_the_journal_can_not_be_read_is_told(journalctl: Path) -> None:
    journalctl.write_text("#!/bin/sh\necho one\necho 'No journal files were opened' >&2\nexit 1\n")
    with pytest.raises(FailedError, match="journalctl: No journal files were opened"):
        await all_of(UnitJournal("hedgerow.service"))


async def test_a_journal_with_a_line_without_an_end_is_read_to_its_end(journalctl: Path) -> None:
    journalctl.write_text("#!/bin/sh\nhead -c 200000 /dev/zero | tr '\\0' x\nprintf '\\nlast'\n")
    told = await all_of(UnitJournal("hedgerow.service"))
    assert sum(map(len, told[:-1])) == 200_000
    assert told[-1] == "last"


async def test_a_journal_that_is_not_followed_any_more_leaves_no_process(
    journalctl: Path, tmp_path: Path
) -> None:
    noted = tmp_path / "pid"
    journalctl.write_text(f"#!/bin/sh\necho $$ > {noted}\necho one\nexec sleep 600\n")
    lines = UnitJournal("hedgerow.service").lines(last=None, follows=True)
    assert await taken(lines, 1) == ["one"]
    await lines.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert not Path(f"/proc/{noted.read_text().strip()}").exists()


async def test_a_file_that_is_gone_while_another_is_begun_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log"
    file.write_text("one\n")
    lines = WrittenLog(file).lines(last=None, follows=True)
    assert await taken(lines, 1) == ["one"]
    monkeypatch.setattr(log_lines, "LOOK_S", 0.0)
    file.rename(tmp_path / "log.1")
    looked_at, missed = Path.stat, list[Path]()

    def missed_once(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        try:
            return looked_at(path, follow_symlinks=follow_symlinks)
        except FileNotFoundError:
            if path == file:
                missed.append(path)
                file.write_text("two\n")
            raise

    monkeypatch.setattr(Path, "stat", missed_once)
    assert await taken(lines, 1) == ["two"]
    assert missed == [file]


async def test_a_machine_without_journalctl_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FailedError, match=r"^journalctl: No such file or directory$"):
        await all_of(UnitJournal("hedgerow.service"))
    with pytest.raises(FailedError) as failed:
        find_source(None, None, "own.service")
    assert str(failed.value) == (
        f"this machine has no journal, and there is no {FILE_NAME}; `hedgerow run --log-file` "
        "writes one that `hedgerow logs` finds"
    )


def test_a_configuration_that_is_wrong_is_told_and_no_log_is_looked_for(tmp_path: Path) -> None:
    config = configured(tmp_path)
    config.write_text(config.read_text() + "nonsense = 1\n")
    with pytest.raises(WrongUseError, match=r"access\.nonsense: unknown key"):
        find_source(config, None)


@pytest.fixture
def journal(journalctl: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where systemd's journal takes lines."""
    exists = Path.exists

    def is_there(path: Path) -> bool:
        return path == Path("/run/systemd/journal/socket") or exists(path)

    monkeypatch.setattr(Path, "exists", is_there)
    return journalctl


@pytest.mark.parametrize(
    ("told", "groups", "unit"),
    [
        (None, "", "hedgerow.service"),
        ("damaged", "", "hedgerow.service"),
        ("{}", "", "hedgerow.service"),
        ('{"id": "gw", "pid": null}', "", "hedgerow.service"),
        ('{"id": "gw", "pid": 4}', "0::/system.slice/hedgerow-gw.service\n", "hedgerow-gw.service"),
        ('{"id": "gw", "pid": 4}', None, "hedgerow.service"),
        ('{"id": "gw", "pid": 4}', "0::/user.slice/session-3.scope\n", ""),
    ],
    ids=["none runs", "damaged", "no number", "null", "a unit", "it has ended", "by hand"],
)
def test_the_journal_is_that_of_the_unit_in_which_the_gateway_runs(
    told: str | None,
    groups: str | None,
    unit: str,
    tmp_path: Path,
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert journal.name == "journalctl"
    config = configured(tmp_path)
    if told is not None:
        (tmp_path / "state" / listeners_file.NAME).write_text(told)
    read = Path.read_text

    def read_text(path: Path, *how: Any, **more: Any) -> str:
        if path != Path("/proc/4/cgroup"):
            return read(path, *how, **more)
        if groups is None:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return groups

    monkeypatch.setattr(Path, "read_text", read_text)
    if unit:
        assert find_source(config, None) == UnitJournal(unit)
        return
    with pytest.raises(FailedError) as failed:
        find_source(config, None)
    assert str(failed.value) == (
        "gw logs to where it was started; `hedgerow run --log-file` writes one that "
        "`hedgerow logs` finds"
    )


def test_a_unit_that_is_named_is_taken(journal: Path) -> None:
    assert journal.name == "journalctl"
    assert find_source(None, None, "own.service") == UnitJournal("own.service")


async def test_a_file_that_could_not_be_looked_at_once_is_not_told_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log"
    file.write_text("one\n")
    lines = WrittenLog(file).lines(last=None, follows=True)
    assert await taken(lines, 1) == ["one"]
    monkeypatch.setattr(log_lines, "LOOK_S", 0.0)
    looked_at, failed = Path.stat, list[Path]()

    def fails_once(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == file and not failed:
            failed.append(path)
            with file.open("a") as more:
                more.write("two\n")
            raise OSError(5, "Input/output error", str(path))
        return looked_at(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", fails_once)
    assert await taken(lines, 1) == ["two"]
    coming = asyncio.create_task(taken(lines, 1))
    await asyncio.sleep(0)
    with file.open("a") as more:
        more.write("three\n")
    assert await coming == ["three"]
    assert failed == [file]
