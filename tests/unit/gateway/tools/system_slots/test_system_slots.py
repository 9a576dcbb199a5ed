"""Two systems on a card: power may be cut between any two writes, and a whole one starts."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pi_firmware import started_partition

from gateway.tools.system_slots import board as boards
from gateway.tools.system_slots import fat_file, slots, trial
from gateway.tools.system_slots.folder import SystemFolder
from gateway.tools.system_slots.guard import SystemGuard
from gateway.tools.system_slots.slots import Slot, SystemSlotError
from gateway.tools.system_slots.trial import (
    CloseTrial,
    KeepTrial,
    MakeDefault,
    RestartPi,
    StartedSlots,
    SystemTrial,
    TrialStep,
)


class PowerCutError(Exception):
    """Nothing after it happens."""


@dataclass
class ModelCard:
    """The content of a card, as a power cut leaves it."""

    autoboot_txt: bytes = slots.autoboot(Slot.A)
    whole: dict[Slot, str | None] = field(default_factory=lambda: {Slot.A: "1", Slot.B: None})
    trial: bytes | None = None
    last: SystemTrial | None = None


@dataclass
class ModelPi:
    """A Pi with such a card; `writes_left` of them happen before its power is cut."""

    card: ModelCard
    writes_left: int = 1 << 30
    tries_next: bool = False
    starts: list[Slot] = field(default_factory=list)

    def write(self) -> None:
        if self.writes_left <= 0:
            self.tries_next = False  # the flag of a try is gone with the power
            raise PowerCutError
        self.writes_left -= 1

    @property
    def running(self) -> StartedSlots:
        return StartedSlots(self.starts[-1], slots.parse_autoboot(self.card.autoboot_txt))

    @property
    def opened(self) -> SystemTrial | None:
        return None if self.card.trial is None else trial.decode(self.card.trial)

    def start(self) -> None:
        is_try, self.tries_next = self.tries_next, False
        slot = Slot.booted_from(started_partition(self.card.autoboot_txt, is_try=is_try))
        assert self.card.whole[slot], "half a system is started"
        self.starts.append(slot)

    def carry_out(self, steps: tuple[TrialStep, ...]) -> bool:
        """Carry steps out, and return whether the Pi restarts."""
        for step in steps:
            match step:
                case RestartPi(is_try=is_try):
                    self.tries_next = is_try
                    return True
                case KeepTrial(trial=kept):
                    self.write()
                    self.card.trial = trial.encode(kept)
                case MakeDefault(slot=slot):
                    self.write()
                    self.card.autoboot_txt = slots.autoboot(slot)
                case CloseTrial(trial=closed):
                    self.write()
                    self.card.last = closed
                    self.write()
                    self.card.trial = None
        return False

    def install(self, version: str, attempts: int) -> None:
        other = self.running.slot.other
        trial.check_install(self.running, self.opened)
        self.write()
        self.card.whole[other] = None
        for _ in range(3):  # the boot partition, the root partition, what is carried over
            self.write()
        self.card.whole[other] = version
        assert self.carry_out(
            trial.begun(self.running, SystemTrial(other, version, attempts, 60, True))
        )

    def live(self, healthy: dict[str, bool]) -> None:
        """Start, and go on until nothing is left to do."""
        for _ in range(20):
            self.start()
            if self.carry_out(trial.at_boot(self.running, self.opened)):
                continue
            opened = self.opened
            if opened is None:
                return
            assert self.running.slot is opened.slot
            if healthy[opened.version]:
                assert not self.carry_out(trial.confirmed(self.running, opened))
                return
            late = trial.passed(opened, opened.within_s)
            assert late.why
            assert self.carry_out(trial.sent_back(self.running, late, ""))
        pytest.fail(f"restarts for ever: {self.starts}")


def lived_through(cuts: list[int], *, is_healthy: bool, attempts: int = 2) -> ModelPi:
    """An upgrade from 1 to 2 with power cuts after so many writes each, and then none."""
    pi = ModelPi(ModelCard())
    pi.start()
    healthy = {"1": True, "2": is_healthy}
    pending: Iterator[int] = itertools.chain(cuts, itertools.repeat(1 << 30))
    pi.writes_left = next(pending)
    begins = True
    for _ in range(len(cuts) + 2):
        try:
            if begins:
                begins = False
                pi.install("2", attempts)
            pi.live(healthy)
            return pi
        except PowerCutError:
            pi.writes_left = next(pending)
    pytest.fail("it does not end")


@given(cuts=st.lists(st.integers(0, 12), max_size=5), is_healthy=st.booleans())
def test_after_power_cuts_at_any_writes_one_whole_system_runs_and_no_trial_is_open(
    cuts: list[int], is_healthy: bool
) -> None:
    pi = lived_through(cuts, is_healthy=is_healthy)
    assert pi.opened is None
    assert pi.running.slot is pi.running.default
    version = pi.card.whole[pi.running.slot]
    assert version == "1" or (version == "2" and is_healthy)
    if version == "1" and pi.card.last is not None:
        assert pi.card.last.why


def test_an_upgrade_that_is_healthy_stays_and_one_that_is_not_returns() -> None:
    stays = lived_through([], is_healthy=True)
    assert (stays.running.default, stays.card.whole[Slot.B]) == (Slot.B, "2")
    assert stays.card.last is not None and not stays.card.last.why
    returns = lived_through([], is_healthy=False)
    assert returns.running == StartedSlots(Slot.A, Slot.A)
    assert returns.card.last is not None
    assert "not healthy in time" in returns.card.last.why


@given(attempts=st.integers(1, trial.MOST_ATTEMPTS))
def test_a_system_that_never_comes_up_is_started_as_often_as_it_may_be_and_then_left(
    attempts: int,
) -> None:
    pi = ModelPi(ModelCard())
    pi.start()
    pi.install("2", attempts)
    tried = 0
    while pi.tries_next:
        pi.start()  # the kernel panics: nothing of ours runs
        pi.start()
        assert pi.starts[-2:] == [Slot.B, Slot.A]
        tried += 1
        pi.carry_out(trial.at_boot(pi.running, pi.opened))
    assert tried == attempts
    assert pi.opened is None
    assert pi.card.last is not None and "did not come up" in pi.card.last.why


def test_a_confirmation_that_is_cut_off_after_the_first_write_holds() -> None:
    pi = ModelPi(ModelCard())
    pi.start()
    pi.install("2", 1)
    pi.start()
    pi.writes_left = 1
    with pytest.raises(PowerCutError):
        pi.carry_out(trial.confirmed(pi.running, pi.opened))
    pi.writes_left = 10
    pi.live({"2": False})
    assert pi.running == StartedSlots(Slot.B, Slot.B)
    assert pi.card.last is not None and not pi.card.last.why


def test_what_the_firmware_starts_no_more_after_all_gives_way_to_what_it_starts() -> None:
    opened = SystemTrial(Slot.B, "2", 0, 60, True)
    steps = trial.at_boot(StartedSlots(Slot.A, Slot.B), opened)
    assert steps[0] == MakeDefault(Slot.A)
    assert isinstance(steps[1], CloseTrial) and steps[1].trial.why


def test_nothing_is_installed_over_a_system_that_is_needed() -> None:
    opened = SystemTrial(Slot.B, "2", 1, 60, True)
    with pytest.raises(SystemSlotError, match="2 is on trial in slot B"):
        trial.check_install(StartedSlots(Slot.A, Slot.A), opened)
    with pytest.raises(SystemSlotError, match="slot B runs, and A is what is started"):
        trial.check_install(StartedSlots(Slot.B, Slot.A), None)
    with pytest.raises(SystemSlotError, match="slot A runs already"):
        trial.begun(StartedSlots(Slot.A, Slot.A), SystemTrial(Slot.A, "2", 1, 60, True))


@pytest.mark.parametrize(("attempts", "within_s"), [(0, 60.0), (11, 60.0), (1, 0.0), (1, 901.0)])
def test_attempts_and_time_have_a_range(attempts: int, within_s: float) -> None:
    made = SystemTrial(Slot.B, "2", attempts, within_s, True)
    with pytest.raises(SystemSlotError, match=r"attempts|within"):
        trial.begun(StartedSlots(Slot.A, Slot.A), made)


def test_only_what_runs_on_trial_is_confirmed() -> None:
    opened = SystemTrial(Slot.B, "2", 1, 60, True)
    for running, found, why in (
        (StartedSlots(Slot.A, Slot.A), None, "no system is on trial"),
        (StartedSlots(Slot.A, Slot.A), opened, "and A runs"),
        (StartedSlots(Slot.B, Slot.A), trial.passed(opened, 61), "has failed"),
    ):
        with pytest.raises(SystemSlotError, match=why):
            trial.confirmed(running, found)


@pytest.mark.parametrize("default", list(Slot))
def test_autoboot_txt_says_both_starts_within_one_sector_always_of_one_length(
    default: Slot,
) -> None:
    text = slots.autoboot(default)
    assert len(text) == slots.AUTOBOOT_BYTES
    assert started_partition(text, is_try=False) == default.boot_partition
    assert started_partition(text, is_try=True) == default.other.boot_partition
    assert slots.parse_autoboot(text) is default


def test_an_autoboot_txt_of_somebody_else_is_refused() -> None:
    with pytest.raises(SystemSlotError, match="not ours"):
        slots.parse_autoboot(b"[all]\nboot_partition=2\n")


def test_texts_of_an_image_are_made_those_of_a_card_and_slot() -> None:
    command_line = "console=tty1 root=PARTUUID=0a0b0c0d-05 rootfstype=ext4 rootwait"
    for_b = slots.for_slot(command_line, "cafe0123", Slot.B)
    assert for_b == "console=tty1 root=PARTUUID=cafe0123-06 rootfstype=ext4 rootwait"
    table = "PARTUUID=0a0b0c0d-02 /boot/firmware vfat\nPARTUUID=0a0b0c0d-07 /data ext4\n"
    assert slots.for_slot(table, "cafe0123", Slot.B) == (
        "PARTUUID=cafe0123-03 /boot/firmware vfat\nPARTUUID=cafe0123-07 /data ext4\n"
    )
    assert slots.for_slot(slots.for_slot(table, "cafe0123", Slot.B), "0a0b0c0d", Slot.A) == table
    assert slots.disk_id_in(for_b) == "cafe0123"
    with pytest.raises(SystemSlotError, match="PARTUUID"):
        slots.disk_id_in("root=/dev/sda2")


trials = st.builds(
    SystemTrial,
    st.sampled_from(Slot),
    st.text(max_size=20),
    st.integers(0, 10),
    st.floats(0, 1e6),
    st.booleans(),
    st.text(max_size=40),
)


@given(trials)
def test_a_trial_is_read_as_it_was_written(written: SystemTrial) -> None:
    assert trial.decode(trial.encode(written)) == written


@given(st.binary(max_size=60))
def test_any_bytes_are_a_trial_or_refused(data: bytes) -> None:
    try:
        trial.decode(data)
    except SystemSlotError:
        return
    pytest.fail("sixty bytes hold no trial")


@pytest.mark.parametrize(
    "name", ["slot", "version", "attempts_left", "within_s", "has_gateway", "why"]
)
def test_a_damaged_field_is_named(name: str) -> None:
    data = trial.encode(SystemTrial(Slot.B, "2", 1, 60, True))
    with pytest.raises(SystemSlotError, match=name):
        trial.decode(data.replace(f'"{name}": '.encode(), f'"{name}": [], "x{name}": '.encode()))


@pytest.mark.parametrize("within_s", ["Infinity", "-Infinity", "NaN"])
def test_a_time_that_never_comes_is_refused(within_s: str) -> None:
    data = trial.encode(SystemTrial(Slot.B, "2", 1, 60.5, True))
    with pytest.raises(SystemSlotError, match="within_s"):
        trial.decode(data.replace(b"60.5", within_s.encode()))


class Board:
    """A Pi that notes what it is told."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.restarts: list[bool] = []

    def running(self) -> StartedSlots:
        return StartedSlots(self.slot, Slot.A)

    def make_default(self, slot: Slot) -> None:
        raise AssertionError("nothing is confirmed here")

    def restart(self, *, is_try: bool) -> None:
        self.restarts.append(is_try)


class Unwell:
    """A gateway that is never healthy."""

    def has_gateway(self) -> bool:
        return True

    def status(self) -> dict[str, Any]:
        return {}

    def complaints(self, before: Mapping[str, Any], *, has_to_run: bool) -> list[str]:
        return ["it does not answer"]


def on_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch, *, attempts: int) -> SystemFolder:
    folder = SystemFolder(path)
    with folder.locked():
        folder.keep(SystemTrial(Slot.B, "2", attempts, 60.0, True))
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("gateway.tools.system_slots.folder.replace", full)
    return folder


def test_on_a_full_disk_a_system_that_fails_is_left_and_what_is_not_noted_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = on_a_full_disk(tmp_path, monkeypatch, attempts=1)
    now_s = itertools.count(0.0, 30.0)
    tried = SystemGuard(folder, board := Board(Slot.B), Unwell())
    tried.watch("2", lambda _s: None, lambda: next(now_s))
    assert board.restarts == [False]
    told = capsys.readouterr().err
    assert "which version runs is not noted" in told
    assert "why the system is left is not noted" in told


@pytest.mark.parametrize("attempts", [0, 1])
def test_on_a_full_disk_the_system_before_stays_and_tries_nothing_that_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    folder = on_a_full_disk(tmp_path, monkeypatch, attempts=attempts)
    before = SystemGuard(folder, board := Board(Slot.A), Unwell())
    with contextlib.suppress(OSError):
        before.watch("1", lambda _s: None, lambda: 0.0)
    assert board.restarts == []
    assert (folder.trial() is None) is (attempts == 0)


def blocks_with(folder: Path, lines: str) -> Path:
    device = Path("/").stat().st_dev
    told = folder / f"{os.major(device)}:{os.minor(device)}" / "uevent"
    told.parent.mkdir()
    told.write_text(lines)
    return folder


def test_a_slots_partitions_are_on_the_card_that_its_own_root_is_on(tmp_path: Path) -> None:
    number = Slot.B.root_partition
    blocks = blocks_with(tmp_path, f"MAJOR=179\nDEVNAME=mmcblk0p{number}\nDEVTYPE=partition\n")
    board = boards.Board(blocks=blocks)
    assert board.partition(1, Slot.B) == Path("/dev/mmcblk0p1")
    with pytest.raises(SystemSlotError, match="no card of ours"):
        board.partition(1, Slot.A)


@pytest.mark.parametrize("lines", ["", "MAJOR=254\nDEVNAME=dm-0\n"])
def test_a_root_on_no_partition_of_a_slot_is_no_card_of_ours(tmp_path: Path, lines: str) -> None:
    board = boards.Board(blocks=blocks_with(tmp_path, lines))
    with pytest.raises(SystemSlotError, match="no card of ours"):
        board.partition(1, Slot.A)


def test_a_root_that_the_kernel_tells_nothing_of_is_on_no_partition(tmp_path: Path) -> None:
    with pytest.raises(SystemSlotError, match="on no partition"):
        boards.Board(blocks=tmp_path).partition(1, Slot.A)


@pytest.mark.parametrize(
    ("is_try", "arguments"), [(True, ["--reboot-argument=0 tryboot"]), (False, [])]
)
def test_a_try_restarts_the_pi_with_the_argument_that_the_firmware_forgets(
    is_try: bool, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", run := Mock())
    boards.Board().restart(is_try=is_try)
    assert list(run.call_args.args[0]) == ["/usr/bin/systemctl", "reboot", *arguments]
    assert run.call_args.kwargs["check"] is True


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (subprocess.CalledProcessError(1, "a", stderr="Access denied"), "Access denied"),
        (OSError(2, "No such file or directory"), "[Errno 2] No such file or directory"),
    ],
)
def test_a_pi_that_does_not_restart_says_why(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=error))
    with pytest.raises(SystemSlotError) as raised:
        boards.Board().restart(is_try=False)
    assert str(raised.value) == f"/usr/bin/systemctl reboot: {why}"


def test_a_first_partition_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "partition").write_bytes(Slot.A.boot_partition.to_bytes(4, "big"))
    with pytest.raises(SystemSlotError) as raised:
        boards.Board(tmp_path, f"{tmp_path}/card").running()
    assert str(raised.value) == f"{tmp_path}/card1: No such file or directory"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[]", "no JSON object"),
        (
            b'{"slot": "C", "version": "1", "attempts_left": 1, "within_s": 1,'
            b' "has_gateway": true, "why": ""}',
            "slot: 'C'",
        ),
    ],
)
def test_a_file_without_a_trial_is_named(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "trial.json").write_bytes(data)
    with pytest.raises(SystemSlotError) as raised:
        SystemFolder(tmp_path).trial()
    assert str(raised.value) == f"{tmp_path}/trial.json: {why}"


def test_two_commands_do_not_change_the_systems_at_once(tmp_path: Path) -> None:
    folder = SystemFolder(tmp_path / "system")
    with folder.locked():
        assert folder.path.stat().st_mode & 0o777 == 0o700
        with (
            pytest.raises(SystemSlotError, match="another `hedgerow system` is at it"),
            SystemFolder(folder.path).locked(),
        ):
            pytest.fail("both are at it")
    with folder.locked():
        pass


def test_a_start_that_goes_on_with_a_try_restarts_and_asks_nobody(tmp_path: Path) -> None:
    folder = SystemFolder(tmp_path)
    with folder.locked():
        folder.keep(SystemTrial(Slot.B, "2", 1, 60.0, True))
    asked = Mock(spec=Unwell)
    SystemGuard(folder, board := Board(Slot.A), asked).watch("1", lambda _s: None, lambda: 0.0)
    assert board.restarts == [True]
    assert asked.mock_calls == []
    kept = folder.trial()
    assert kept is not None
    assert kept.attempts_left == 0


def fat16(entries: bytes, *, sector: int = 512, clusters: int = 2, count: int = 16) -> bytes:
    """A FAT16 file system: one reserved sector, two tables of three, then the first folder."""
    numbers = struct.pack("<HBHBH", sector, clusters, 1, 2, count)
    boot = bytearray(512)
    boot[11 : 11 + len(numbers)] = numbers
    boot[22:24] = (3).to_bytes(2, "little")
    boot[54:59] = b"FAT16"
    boot[510:512] = b"\x55\xaa"
    return bytes(boot) + bytes(6 * 512) + entries.ljust(512, b"\0") + bytes(1 << 14)


def entry(name: bytes, *, size: int = 256, cluster: int = 2, attributes: int = 0x20) -> bytes:
    rest = bytes([attributes]) + bytes(14) + struct.pack("<HI", cluster, size)
    return name + rest


OURS = b"AUTOBOOTTXT"


def place_in(file_system: bytes) -> int:
    return fat_file.offset_of(lambda at, size: file_system[at : at + size], "autoboot.txt", 256)


@pytest.mark.parametrize(
    ("entries", "sector"),
    [
        (entry(OURS), 8),
        (entry(OURS, cluster=5), 8 + 3 * 2),
        (entry(b"ANOTHER TXT") + entry(OURS, cluster=3), 8 + 2),
        # The label of a volume and a folder may have its name, and are no file.
        (entry(OURS, attributes=0x08) + entry(OURS, attributes=0x10) + entry(OURS), 8),
        (entry(b"\xe5UTOBOOTTXT") + entry(OURS), 8),
    ],
)
def test_a_small_file_is_found_by_the_first_folder_of_a_fat16(entries: bytes, sector: int) -> None:
    # One sector, six of tables and one of the folder come before the first cluster, number 2.
    assert place_in(fat16(entries)) == sector * 512


@pytest.mark.parametrize(
    ("file_system", "why"),
    [
        (fat16(b""), "the first partition has no autoboot.txt: no card of ours"),
        # Behind the first entry that was never used there is nothing.
        (
            fat16(bytes(32) + entry(OURS)),
            "the first partition has no autoboot.txt: no card of ours",
        ),
        (fat16(entry(OURS, size=257)), "autoboot.txt has 257 bytes, and ours 256"),
        (fat16(entry(OURS, cluster=1)), "autoboot.txt is at no place of its own"),
        (
            fat16(entry(OURS), sector=1024),
            "the first partition's FAT16 has numbers that are not ours",
        ),
        (
            fat16(entry(OURS), clusters=0),
            "the first partition's FAT16 has numbers that are not ours",
        ),
        (fat16(entry(OURS), count=0), "the first partition's FAT16 has numbers that are not ours"),
        (
            fat16(entry(OURS), count=4097),
            "the first partition's FAT16 has numbers that are not ours",
        ),
        (fat16(entry(OURS))[:511], "the first partition has no FAT16 file system: no card of ours"),
    ],
)
def test_what_is_no_place_of_ours_is_told(file_system: bytes, why: str) -> None:
    with pytest.raises(SystemSlotError) as raised:
        place_in(file_system)
    assert str(raised.value) == why


def test_the_largest_first_folder_is_taken() -> None:
    assert place_in(fat16(entry(OURS), count=4096)) == (7 + 4096 * 32 // 512) * 512
    # A folder whose last sector is begun takes all of it.
    assert place_in(fat16(entry(OURS), count=17)) == (7 + 2) * 512


@pytest.mark.parametrize(("why", "outcome"), [("no radio", "returned"), ("", "confirmed")])
def test_a_trial_that_is_closed_again_is_closed_and_how_it_ended_stays(
    tmp_path: Path, why: str, outcome: str
) -> None:
    folder = SystemFolder(tmp_path)
    assert folder.last() is None
    ended = SystemTrial(Slot.B, "2", 1, 60.0, True, why)
    with folder.locked():
        folder.keep(ended)
        for _ in range(2):
            assert folder.close(ended) == ""
            assert folder.trial() is None
            assert folder.last() == {
                "slot": "B",
                "version": "2",
                "why": why,
                "outcome": outcome,
            }


def test_which_versions_are_whole_and_what_the_gateway_said_is_kept_by_itself(
    tmp_path: Path,
) -> None:
    folder = SystemFolder(tmp_path / "a/system")
    with folder.locked():
        assert folder.version_in(Slot.A) is None
        assert folder.status_before() == {}
        folder.note_version(Slot.A, "1")
        folder.note_version(Slot.B, "2")
        folder.note_version(Slot.A, None)
        folder.note_status({"id": "gw"})
    assert (folder.version_in(Slot.A), folder.version_in(Slot.B)) == (None, "2")
    assert folder.status_before() == {"id": "gw"}
    names = {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()}
    assert names == dict.fromkeys((".lock", "slots.json", "status-before.json"), 0o600)
    for text in ("[1]", "{"):
        for name in ("slots.json", "status-before.json", "last-trial.json"):
            (folder.path / name).write_text(text)
        assert folder.version_in(Slot.B) is None
        assert (folder.status_before(), folder.last()) == ({}, None)
    (folder.path / "slots.json").write_text('{"b": 2}')
    assert folder.version_in(Slot.B) is None


class OpenBoard(Board):
    """A Pi whose slot B is on trial, and may be confirmed."""

    def __init__(self) -> None:
        super().__init__(Slot.B)
        self.defaults: list[Slot] = []

    def make_default(self, slot: Slot) -> None:
        self.defaults.append(slot)


class WellAfter(Unwell):
    """A gateway that is healthy but for some of its first looks."""

    def __init__(self, *ill_at: int) -> None:
        self.looks = 0
        self._ill_at = ill_at

    def complaints(self, before: Mapping[str, Any], *, has_to_run: bool) -> list[str]:
        assert (before, has_to_run) == ({"id": "gw"}, True)
        self.looks += 1
        return ["it does not answer"] if self.looks in self._ill_at else []


@pytest.mark.parametrize(("ill_at", "looks"), [((), 3), ((1,), 4), ((3,), 6), ((1, 3), 6)])
def test_a_system_is_confirmed_when_its_gateway_is_healthy_three_times_in_a_row(
    ill_at: tuple[int, ...], looks: int, tmp_path: Path
) -> None:
    folder, board, asked = SystemFolder(tmp_path), OpenBoard(), WellAfter(*ill_at)
    slept = list[float]()
    with folder.locked():
        folder.keep(SystemTrial(Slot.B, "2", 1, 60.0, True))
        folder.note_status({"id": "gw"})
    SystemGuard(folder, board, asked).watch("2", slept.append, lambda: 0.0)
    assert (asked.looks, slept) == (looks, [2.0] * (looks - 1))
    assert (board.defaults, board.restarts) == ([Slot.B], [])
    assert folder.trial() is None
    last = folder.last()
    assert last is not None and (last["version"], last["outcome"]) == ("2", "confirmed")
    assert folder.version_in(Slot.B) == "2"
