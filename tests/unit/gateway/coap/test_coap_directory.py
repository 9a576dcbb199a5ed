"""A gateway's Resource Directory over its lives: what is registered goes on, and ends in time."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from loop_turns import turns
from unreadable_files import Unreadable

from gateway.base import watched_tasks
from gateway.base.kept_file import READS
from gateway.base.lasting_clock import LastingClock
from gateway.coap.directory import file as directory_file
from gateway.coap.directory import own
from gateway.coap.directory.file import NAME, DirectoryFile
from gateway.coap.directory.own import GatewayDirectory
from resource_directory.journal import RegistrationJournal
from resource_directory.link_format import WebLink, parse
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry, RegistryLimits
from tests.directory_records import record
from tree_handler.retained.hybrid_clock import EARLIEST_US

LINKS = parse('</t>;rt="temperature"')


@dataclass
class MachineClocks:
    """A machine's clocks, which go on when they are told to: a `Clocks`."""

    boot: int = 1
    wall: int = EARLIEST_US + 10**12
    since_boot: int = 0
    is_right: bool = True

    def boot_us(self) -> int:
        return self.since_boot

    def wall_us(self) -> int:
        return self.wall

    def wall_ahead_s(self) -> float:
        return (self.wall - self.since_boot) / 1e6

    def is_synchronised(self) -> bool:
        return self.is_right

    def pass_s(self, passed_s: float) -> None:
        self.since_boot += int(passed_s * 1e6)
        self.wall += int(passed_s * 1e6)

    def power_cut(self, off_s: float, *, is_right: bool) -> None:
        self.boot, self.since_boot, self.is_right = self.boot + 1, 0, is_right
        if is_right:
            self.wall += int(off_s * 1e6)


@asynccontextmanager
async def life(folder: Path, epoch: int, clocks: MachineClocks) -> AsyncIterator[GatewayDirectory]:
    directory = GatewayDirectory(folder, epoch, clocks=clocks)
    await directory.recall()
    directory.start()
    yield directory
    await directory.stop()


def register(directory: GatewayDirectory, name: str, lifetime_s: int = 1000) -> str:
    return directory.registry.register(
        name, LINKS, directory.now(), base="coap://h", lifetime_s=lifetime_s, owner="psk:a"
    ).location


def names(directory: GatewayDirectory) -> list[str | None]:
    search = directory.registry.find_endpoints(LookupQuery(), directory.now())
    assert search.go_on(1_000)
    return [link.get("ep") for link in parse(",".join(search.texts))]


async def test_registrations_go_on_at_their_locations_and_no_location_is_given_twice(
    tmp_path: Path,
) -> None:
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        kept, removed = register(directory, "kept"), register(directory, "removed")
        directory.registry.remove(removed, directory.now(), owner="psk:a")
    for epoch in (2, 3):
        async with life(tmp_path, epoch, clocks) as directory:
            assert names(directory)[:1] == ["kept"]
            assert register(directory, "kept") == kept
            assert register(directory, f"new{epoch}") not in (kept, removed)
            assert directory.registry.get(kept, directory.now()).owner == "psk:a"


async def test_a_lifetime_counts_the_time_off_only_if_the_wall_clock_is_right(
    tmp_path: Path,
) -> None:
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        register(directory, "n", lifetime_s=1000)
    clocks.pass_s(100)  # the process is off, the machine is not
    async with life(tmp_path, 2, clocks) as directory:
        end = directory.registry.next_timer()
        assert end is not None
        assert end - directory.now() == pytest.approx(900)
    clocks.power_cut(10_000, is_right=False)  # a Pi whose clock stood still
    async with life(tmp_path, 3, clocks) as directory:
        assert names(directory) == ["n"]
        end = directory.registry.next_timer()
        assert end is not None
        assert end - directory.now() == pytest.approx(900)
    clocks.power_cut(0, is_right=True)
    async with life(tmp_path, 4, clocks) as directory:
        assert names(directory) == ["n"]
    clocks.power_cut(899, is_right=True)
    async with life(tmp_path, 5, clocks) as directory:
        assert names(directory) == ["n"]
    clocks.power_cut(1, is_right=True)
    async with life(tmp_path, 6, clocks) as directory:
        assert names(directory) == []


async def test_a_torn_file_costs_what_was_torn_and_is_whole_again(tmp_path: Path) -> None:
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        for number in range(5):
            register(directory, f"n{number}")
    file = tmp_path / NAME
    whole = file.read_bytes()
    file.write_bytes(b"\x00\xff" * 50 + whole[:-20] + b"torn")
    async with life(tmp_path, 2, clocks) as directory:
        assert names(directory) == [f"n{number}" for number in range(5)]
    assert b"torn" not in file.read_bytes()
    async with life(tmp_path, 3, clocks) as directory:
        assert len(names(directory)) == 5


async def test_a_file_of_many_changes_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_file, "SLACK_BYTES", 1000)
    monkeypatch.setattr(directory_file, "WRITE_S", 0.001)
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        for number in range(200):
            register(directory, "n", lifetime_s=1000 + number)
            await asyncio.sleep(0.002)
    assert (tmp_path / NAME).stat().st_size < 2_000
    async with life(tmp_path, 2, clocks) as directory:
        found = directory.registry.standing("n", "", directory.now())
        assert found is not None
        assert found.lifetime_s == 1199


async def test_a_disk_that_takes_nothing_stops_nobody_and_is_caught_up_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directory_file, "WRITE_S", 0.001)
    monkeypatch.setattr(directory_file, "AGAIN_S", 0.001)
    clocks = MachineClocks()
    folder = tmp_path / "not there yet"
    async with life(folder, 1, clocks) as directory:
        register(directory, "n")
        while "No such file" not in caplog.text:
            await asyncio.sleep(0.001)
        assert names(directory) == ["n"]
        folder.mkdir()
        while not (folder / NAME).exists():
            await asyncio.sleep(0.001)
    assert caplog.text.count("No such file") == 1
    async with life(folder, 2, clocks) as directory:
        assert names(directory) == ["n"]


async def test_a_registration_that_has_no_record_costs_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directory_file, "WRITE_S", 0.001)
    clocks = MachineClocks()
    for epoch in (1, 2):  # the file is made, then appended to
        async with life(tmp_path, epoch, clocks) as directory:
            for name, owner in (("a", "psk:a"), ("bad", "\udc80"), (f"z{epoch}", "psk:a")):
                directory.registry.register(
                    name, LINKS, directory.now(), base="coap://h", owner=owner
                )
            while "'bad' is not kept" not in caplog.text:
                await asyncio.sleep(0.001)
            caplog.clear()
    async with life(tmp_path, 3, clocks) as directory:
        assert names(directory) == ["a", "z1", "z2"]


@dataclass
class ClocksThatFail(MachineClocks):
    """Clocks that raise while they are bad, once what changed has been taken to be written."""

    is_bad: bool = False

    def is_synchronised(self) -> bool:
        if self.is_bad:
            raise ValueError("bad clock")
        return self.is_right


def file_of(
    folder: Path, clocks: MachineClocks, epoch: int = 1
) -> tuple[DirectoryFile, Registry, LastingClock]:
    """A directory's file that is written when the test says so, what it keeps, and its clock."""
    changes, clock = RegistrationJournal(), LastingClock(clocks, epoch)
    registry = Registry(f"/rd/{epoch}-", listeners=(changes,))
    return DirectoryFile(folder / NAME, registry, changes, clock), registry, clock


async def test_a_file_is_appended_to_until_it_is_double_and_some_more_and_is_then_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, registry, clock = file_of(tmp_path, MachineClocks())
    kept = tmp_path / NAME
    await file.recall()
    await file.write()
    whole, size = kept.stat().st_size, kept.stat().st_size

    async def is_made_anew() -> bool:
        nonlocal size
        registry.register("n", LINKS, clock.now_us() / 1e6, base="coap://h")
        before = kept.stat()
        await file.write()
        size = kept.stat().st_size
        assert (size > before.st_size) is (kept.stat().st_ino == before.st_ino)
        return kept.stat().st_ino != before.st_ino

    for _ in range(2):
        monkeypatch.setattr(directory_file, "SLACK_BYTES", 1_000_000)
        for _ in range(3):
            assert not await is_made_anew()
        monkeypatch.setattr(directory_file, "SLACK_BYTES", size - 2 * whole)
        assert not await is_made_anew()
        monkeypatch.setattr(directory_file, "SLACK_BYTES", size - 2 * whole - 1)
        assert await is_made_anew()
        whole = size
    later, registry, clock = file_of(tmp_path, MachineClocks(), 2)
    await later.recall()
    file = later
    monkeypatch.setattr(directory_file, "SLACK_BYTES", 0)
    assert not await is_made_anew()
    while size <= 2 * whole:
        assert not await is_made_anew()
    assert await is_made_anew()


async def test_what_a_write_that_failed_had_taken_is_written_by_the_next(tmp_path: Path) -> None:
    clocks = ClocksThatFail()
    file, registry, clock = file_of(tmp_path, clocks)
    await file.recall()
    await file.write()
    registry.register("n", LINKS, clock.now_us() / 1e6, base="coap://h")
    clocks.is_bad = True
    with pytest.raises(ValueError, match="bad clock"):
        await file.write()
    clocks.is_bad = False
    await file.write()
    async with life(tmp_path, 2, MachineClocks()) as directory:
        assert names(directory) == ["n"]


async def test_who_watches_hears_of_expiry(tmp_path: Path) -> None:
    heard, clocks = asyncio.Event(), MachineClocks()
    directory = GatewayDirectory(tmp_path, 1, expired=heard.set, clocks=clocks)
    register(directory, "n", lifetime_s=10)
    clocks.pass_s(10)
    directory.start()
    await heard.wait()
    assert len(directory.registry) == 0
    await directory.stop()


async def test_others_are_told_of_the_digest_when_there_is_news_and_not_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource_directory.digest.AFTER_S", 0.0)
    directory, told = GatewayDirectory(tmp_path, 1, clocks=MachineClocks()), list[bytes]()
    directory.start(told.append)
    await turns(20)
    assert told == []
    register(directory, "n")
    await turns(20)
    assert told == [directory.offers]
    assert any(told[0])
    register(directory, "other")
    await turns(20)
    assert len(told) == 1
    await directory.stop()


async def test_what_a_large_registration_leaves_behind_is_freed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "SWEEP_S", 3_600.0)
    async with life(tmp_path, 1, MachineClocks()) as directory:
        register(directory, "one")
        while directory.registry.next_timer() == float("-inf"):
            await asyncio.sleep(0)
        many = [WebLink(f"/{number}") for number in range(1_000)]
        for links in (many, LINKS, many, LINKS):
            directory.registry.register("n", links, directory.now(), base="coap://h")
            await asyncio.sleep(0.001)
        async with asyncio.timeout(30):
            while directory.registry.next_timer() == float("-inf"):
                await asyncio.sleep(0.001)


async def test_registrations_expire_though_who_was_told_of_one_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.base.watched_tasks.FIRST_PAUSE_S", 0.001)
    told, heard, clocks = 0, asyncio.Event(), MachineClocks()

    def expired() -> None:
        nonlocal told
        told += 1
        if told == 1:
            raise ValueError("bad watcher")
        heard.set()

    directory = GatewayDirectory(tmp_path, 1, expired=expired, clocks=clocks)
    register(directory, "first", lifetime_s=10)
    clocks.pass_s(10)
    directory.start()
    while not told:
        await asyncio.sleep(0)
    register(directory, "second", lifetime_s=10)
    clocks.pass_s(10)
    await heard.wait()
    assert len(directory.registry) == 0
    await directory.stop()


def test_limits_of_a_gateway_hold_a_hundred_thousand_endpoints() -> None:
    assert RegistryLimits().registrations >= 100_000


# -- what can't be read is not missing ------------------------------------------------------------


async def kept(folder: Path, clocks: MachineClocks) -> None:
    """Leave a directory's file with a registration."""
    async with life(folder, 1, clocks) as directory:
        register(directory, "node")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
async def test_a_directory_that_can_t_be_read_now_lets_no_gateway_start_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    clocks = MachineClocks()
    await kept(tmp_path, clocks)
    before = (tmp_path / NAME).read_bytes()
    Unreadable(monkeypatch, NAME, number, 1)
    with pytest.raises(OSError, match="not now"):
        await GatewayDirectory(tmp_path, 2, clocks=clocks).recall()
    assert (tmp_path / NAME).read_bytes() == before
    async with life(tmp_path, 3, clocks) as directory:
        assert names(directory) == ["node"]


async def test_the_last_write_waits_for_no_pause_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_tasks, "FIRST_PAUSE_S", 3_600.0)
    monkeypatch.setattr(own, "LAST_WRITE_S", 3_600.0)
    written, failed = DirectoryFile.write, asyncio.Event()

    async def write(file: DirectoryFile) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("once")
        await written(file)

    monkeypatch.setattr(DirectoryFile, "write", write)
    clocks = MachineClocks()
    async with asyncio.timeout(30):
        async with life(tmp_path, 1, clocks) as directory:
            register(directory, "node")
            await failed.wait()
        monkeypatch.undo()
        async with life(tmp_path, 2, clocks) as directory:
            assert names(directory) == ["node"]


async def test_a_disk_that_fails_once_costs_the_directory_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = MachineClocks()
    await kept(tmp_path, clocks)
    Unreadable(monkeypatch, NAME, errno.EIO, 1)
    async with life(tmp_path, 2, clocks) as directory:
        assert names(directory) == ["node"]


async def test_a_directory_that_a_disk_does_not_give_back_is_set_aside_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = MachineClocks()
    await kept(tmp_path, clocks)
    before = (tmp_path / NAME).read_bytes()
    Unreadable(monkeypatch, NAME, errno.EIO, 1_000)
    async with life(tmp_path, 2, clocks) as directory:
        assert names(directory) == []
    monkeypatch.undo()
    assert (tmp_path / f"{NAME}.damaged-1").read_bytes() == before
    assert "set aside as" in caplog.text


async def test_a_start_with_less_memory_leaves_out_what_does_not_fit_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        for number in range(50):
            directory.registry.register(f"e{number}", LINKS, directory.now(), base="coap://h")
        size = sum(one.held for one in directory.registry.registrations())
    less = GatewayDirectory(tmp_path, 2, RegistryLimits(size=size // 2), clocks=clocks)
    await less.recall()
    left = [one.endpoint for one in less.registry.registrations()]
    assert left == [f"e{number}" for number in range(25)]
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    assert "25 registrations are left out" in caplog.text
    assert "the first is e25: full at a size of" in caplog.text


@pytest.mark.parametrize("is_removed", [True, False])
async def test_what_was_left_out_does_not_come_back_once_its_endpoint_has_said_more(
    tmp_path: Path, is_removed: bool
) -> None:
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        first, old = register(directory, "first"), register(directory, "node")
    less = GatewayDirectory(tmp_path, 2, RegistryLimits(registrations=1), clocks=clocks)
    await less.recall()
    less.start()
    assert names(less) == ["first"]
    less.registry.remove(first, less.now(), owner="psk:a")
    new = register(less, "node")
    if is_removed:
        less.registry.remove(new, less.now(), owner="psk:a")
    await less.stop()
    async with life(tmp_path, 3, clocks) as directory:
        assert directory.registry.at(old) is None
        assert names(directory) == ([] if is_removed else ["node"])


async def test_what_was_left_out_comes_back_with_more_memory_if_nobody_said_more(
    tmp_path: Path,
) -> None:
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        register(directory, "first")
        register(directory, "node")
    less = GatewayDirectory(tmp_path, 2, RegistryLimits(registrations=1), clocks=clocks)
    await less.recall()
    less.start()
    register(less, "first", lifetime_s=2000)
    await less.stop()
    async with life(tmp_path, 3, clocks) as directory:
        assert sorted(str(name) for name in names(directory)) == ["first", "node"]


async def test_more_links_than_are_usual_come_back_where_the_configuration_allows_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clocks, more = MachineClocks(), RegistryLimits(links_per_registration=20_000)
    links = [WebLink(f"{number:05d}") for number in range(10_001)]
    directory = GatewayDirectory(tmp_path, 1, more, clocks=clocks)
    await directory.recall()
    for name in ("large", "small"):
        given = links if name == "large" else LINKS
        directory.registry.register(name, given, directory.now(), base="coap://h")
    directory.start()
    await directory.stop()
    again = GatewayDirectory(tmp_path, 2, more, clocks=clocks)
    await again.recall()
    assert names(again) == ["large", "small"]
    assert not caplog.records
    fewer = GatewayDirectory(tmp_path, 3, clocks=clocks)
    await fewer.recall()
    assert names(fewer) == ["small"]
    assert "1 registrations are left out" in caplog.text


async def test_a_record_that_says_no_registration_is_told_as_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        register(directory, "a")
        location = register(directory, "b")
        standing = directory.registry.get(location, directory.now())
    fields = [location, "b", "", "coap://h", True, 1000, standing.expires_at, "psk:a", [], "[/t]"]
    with (tmp_path / NAME).open("ab") as file:
        file.write(record([0, *fields]))
    async with life(tmp_path, 2, clocks) as directory:
        assert names(directory) == ["a"]
    assert "1 registrations are left out" in caplog.text
    assert f"the first is {location}: its record can't be read" in caplog.text


async def test_a_file_is_never_in_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_file, "PIECE_BYTES", 100)
    clocks = MachineClocks()
    async with life(tmp_path, 1, clocks) as directory:
        for number in range(50):
            directory.registry.register(f"e{number}", LINKS, directory.now(), base="coap://h")
    async with life(tmp_path, 2, clocks) as again:
        assert len(again.registry) == 50


async def test_a_write_that_did_not_end_costs_what_it_wrote_and_nothing_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = MachineClocks()
    await kept(tmp_path, clocks)
    file = tmp_path / NAME
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:30])
    async with life(tmp_path, 2, clocks) as directory:
        assert names(directory) == ["node"]
    assert f"{file}: left out 30 torn bytes" in caplog.text
    assert not (tmp_path / f"{NAME}.damaged-1").exists()
    caplog.clear()
    async with life(tmp_path, 3, clocks) as directory:
        assert names(directory) == ["node"]
    assert "torn" not in caplog.text


@pytest.mark.parametrize(
    ("number", "times", "found"),
    [(errno.EIO, READS - 1, ["node"]), (errno.EIO, READS, []), (errno.EBADF, 1, None)],
)
async def test_a_record_is_read_three_times_from_a_disk_that_does_not_give_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    times: int,
    found: list[str] | None,
) -> None:
    clocks = MachineClocks()
    await kept(tmp_path, clocks)
    before, left, real = (tmp_path / NAME).read_bytes(), times, os.pread

    def pread(descriptor: int, length: int, at: int) -> bytes:
        nonlocal left
        if left:
            left -= 1
            raise OSError(number, "not now")
        return real(descriptor, length, at)

    monkeypatch.setattr(os, "pread", pread)
    if found is None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            await GatewayDirectory(tmp_path, 2, clocks=clocks).recall()
        assert (tmp_path / NAME).read_bytes() == before
        return
    async with life(tmp_path, 2, clocks) as directory:
        assert names(directory) == found
    aside = tmp_path / f"{NAME}.damaged-1"
    assert aside.exists() is (found == [])
    assert not aside.exists() or aside.read_bytes() == before
