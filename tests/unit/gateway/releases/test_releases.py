"""A release on trial: what the Pi does by itself, whatever moment its power fails at."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.releases import guard as guards
from gateway.releases import trial as trials
from gateway.releases.folder import ReleaseFolder
from gateway.releases.guard import ReleaseGuard
from gateway.releases.trial import BOOTS, RESTARTS, ServiceEnds, Trial, TrialError

OLD, NEW, NEWER = "1-old", "2-new", "3-newer"
ENDS = st.none() | st.builds(ServiceEnds, st.integers(0, 5), st.none() | st.integers(0, 2))


class PowerCutError(BaseException):
    """The power fails; nothing catches it."""


class Machine:
    """A service that only counts, on a machine that can be booted."""

    def __init__(self) -> None:
        self.boots = 0
        self.starts = 0
        self.restarts = 0
        self.failed_at: int | None = None
        self.guards = 0

    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    def ends(self) -> ServiceEnds:
        return ServiceEnds(self.restarts, self.failed_at)

    def restart(self) -> None:
        self.starts += 1

    def start_guard(self) -> None:
        self.guards += 1


class Answering:
    """ListenersOnTrial that answer, or say why they do not."""

    def __init__(self, *why: str, schemes: Sequence[str] = ()) -> None:
        self.why = why
        self.asked: Sequence[str] = ()
        self._schemes = schemes

    def schemes(self) -> list[str]:
        return list(self._schemes)

    def complaints(self, schemes_before: Sequence[str]) -> Sequence[str]:
        self.asked = schemes_before
        return self.why


def guard_of(
    folder: ReleaseFolder, machine: Machine, listeners: Answering | None = None
) -> ReleaseGuard:
    return ReleaseGuard(folder, machine, listeners or Answering())


class CutFolder(ReleaseFolder):
    """A folder whose power fails before the change with a number, or after it."""

    def __init__(self, path: Path, changes: int) -> None:
        super().__init__(path)
        self._left = changes

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise PowerCutError

    def _write(self, name: str, data: bytes) -> None:
        self._change()
        super()._write(name, data)

    def switch(self, release: str) -> None:
        self._change()
        super().switch(release)

    def close(self, trial: Trial, why: str) -> str:
        self._change()
        return super().close(trial, why)


@pytest.fixture
def folder(tmp_path: Path) -> ReleaseFolder:
    return installed(tmp_path)


def installed(path: Path) -> ReleaseFolder:
    for release in (OLD, NEW, NEWER):
        (path / "releases" / release).mkdir(parents=True)
        (path / "releases" / release / "installed").touch()
    folder = ReleaseFolder(path)
    folder.switch(OLD)
    return folder


def test_a_release_that_is_confirmed_stays(folder: ReleaseFolder) -> None:
    machine = Machine()
    guard = guard_of(folder, machine)
    guard.try_release(NEW, 60)
    assert (folder.current(), machine.starts, machine.guards) == (NEW, 1, 1)
    guard.confirm(NEW)
    guard.watch()
    assert folder.current() == NEW
    assert folder.trial() is None
    assert (folder.last() or {})["outcome"] == "confirmed"


def test_one_that_nobody_confirms_goes_back_by_itself(folder: ReleaseFolder) -> None:
    guard = guard_of(folder, machine := Machine())
    guard.try_release(NEW, 0.0)
    guard.watch(lambda _s: None)
    assert folder.current() == OLD
    assert machine.starts == 2
    assert (folder.last() or {})["why"] == "nobody confirmed it in time"


def test_one_whose_service_ends_again_and_again_goes_back_at_once(folder: ReleaseFolder) -> None:
    guard = guard_of(folder, machine := Machine())
    guard.try_release(NEW, 3600)

    def another_end(_seconds: float) -> None:
        machine.restarts += 1

    guard.watch(another_end)
    assert folder.current() == OLD
    assert machine.restarts == RESTARTS


def test_how_often_its_service_ended_before_the_trial_counts_for_nothing(
    folder: ReleaseFolder,
) -> None:
    guard = guard_of(folder, machine := Machine())
    machine.restarts = RESTARTS + 3  # of before
    guard.try_release(NEW, 3600)
    looks: list[str] = []

    def look(_seconds: float) -> None:
        looks.append(folder.current())
        # systemd begins to count anew when it carries out the restart, which takes a while.
        machine.restarts = (
            machine.restarts if len(looks) < 3 else 0 if len(looks) == 3 else machine.restarts + 1
        )

    guard.watch(look)
    assert looks == [NEW] * (3 + RESTARTS)
    assert folder.current() == OLD
    assert (folder.last() or {})["why"] == f"its service ended {RESTARTS} times"


def test_one_that_fails_as_the_one_before_had_failed_goes_back_at_once(
    folder: ReleaseFolder,
) -> None:
    guard = guard_of(folder, machine := Machine())
    machine.failed_at = 5_000_000  # of before
    guard.try_release(NEW, 3600)
    looks: list[str] = []

    def look(_seconds: float) -> None:
        looks.append(folder.current())
        if len(looks) == 2:  # it was started, and ended again, between two looks
            machine.failed_at = 9_000_000

    guard.watch(look)
    assert looks == [NEW, NEW]
    assert folder.current() == OLD


def test_one_that_has_failed_since_a_boot_goes_back() -> None:
    trial = trials.begun(OLD, NEW, 60, "boot", None, told=ServiceEnds(0, failed_at=5))
    assert not trials.passed(trial, 0.0, "boot", ServiceEnds(0, failed_at=5)).why
    assert trials.passed(trial, 0.0, "another boot", ServiceEnds(0, failed_at=5)).why


def test_a_count_that_systemd_does_not_tell_at_the_beginning_begins_when_it_does() -> None:
    trial = trials.begun(OLD, NEW, 60, "boot", None)
    for count, ends in ((None, 0), (9, 0), (None, 0), (10, 1), (0, 1), (2, 3)):
        told = None if count is None else ServiceEnds(count)
        trial = trials.passed(trial, 0.0, "boot", told)
        assert (trial.ends, trial.why) == (ends, "")
    trial = trials.passed(trial, 0.0, "another boot", None)
    assert trials.passed(trial, 0.0, "another boot", ServiceEnds(3)).ends == 3


class FullFolder(ReleaseFolder):
    """A folder on a disk that takes nothing new."""

    is_full = True

    def _write(self, name: str, data: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        super()._write(name, data)


def test_on_a_full_disk_a_bad_release_goes_back_and_what_is_not_noted_is_told(
    folder: ReleaseFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    guard_of(folder, machine := Machine()).try_release(NEW, 3600)

    def another_end(_seconds: float) -> None:
        machine.restarts += 1

    guard_of(FullFolder(folder.path), machine).watch(another_end)
    assert (folder.current(), folder.trial(), machine.starts) == (OLD, None, 2)
    told = capsys.readouterr().err
    assert "the trial goes on, and is not noted: " in told
    assert "how the trial of 2-new ended is not noted: " in told and "No space left" in told


def test_on_a_full_disk_time_goes_on_all_the_same(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr("gateway.releases.guard.time.monotonic", lambda: now_s)
    guard_of(folder, machine := Machine()).try_release(NEW, 600)

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    guard_of(FullFolder(folder.path), machine).watch(sleep)
    assert 600 <= now_s < 610
    assert folder.current() == OLD


def test_a_trial_that_can_not_be_noted_does_not_begin(folder: ReleaseFolder) -> None:
    machine = Machine()
    with pytest.raises(OSError, match="No space left"):
        guard_of(FullFolder(folder.path), machine).try_release(NEW, 60)
    assert (folder.current(), folder.trial(), machine.starts) == (OLD, None, 0)


def test_a_release_is_confirmed_though_that_can_not_be_noted(
    folder: ReleaseFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    guard_of(folder, machine := Machine()).try_release(NEW, 60)
    guard_of(FullFolder(folder.path), machine).confirm(NEW)
    assert (folder.current(), folder.trial()) == (NEW, None)
    assert "is not noted" in capsys.readouterr().err


def test_who_watches_and_ended_amid_the_way_back_has_the_service_start_again(
    folder: ReleaseFolder,
) -> None:
    guard = guard_of(folder, machine := Machine())
    guard.try_release(NEW, 3600)
    trial = folder.trial()
    assert trial is not None
    folder.keep(replace(trial, why="it failed"))  # and no more
    guard_of(folder, machine).resume()  # of the unit that systemd starts again
    assert (folder.current(), folder.trial(), machine.starts) == (OLD, None, 2)


def test_a_trial_whose_file_is_damaged_meanwhile_goes_on_as_it_was_read(
    folder: ReleaseFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = guard_of(folder, machine := Machine())
    guard.try_release(NEW, 3600)

    def damage(_seconds: float) -> None:
        (folder.path / "trial.json").write_bytes(b"\0")
        machine.restarts += 1

    guard.watch(damage)
    assert (folder.current(), folder.trial()) == (OLD, None)
    assert capsys.readouterr().err.count("the trial goes on as it was read before") == 1


def test_one_that_boots_the_pi_again_and_again_goes_back_before_the_service_starts(
    folder: ReleaseFolder,
) -> None:
    guard = guard_of(folder, machine := Machine())
    guard.try_release(NEW, 3600)
    for _ in range(BOOTS):
        machine.boots += 1
        guard.resume()
        assert folder.current() == NEW
    machine.boots += 1
    guard.resume()
    assert folder.current() == OLD
    assert machine.starts == 1  # the boot itself starts it


def test_a_second_look_at_one_boot_counts_once(folder: ReleaseFolder) -> None:
    guard = guard_of(folder, machine := Machine())
    guard.try_release(NEW, 3600)
    machine.boots += 1
    for _ in range(BOOTS + 2):
        guard.resume()
    assert folder.current() == NEW


def test_the_way_back_of_a_second_trial_is_what_was_healthy_before_the_first(
    folder: ReleaseFolder,
) -> None:
    guard = guard_of(folder, Machine())
    guard.try_release(NEW, 60)
    guard.try_release(NEWER, 60)
    assert guard.send_back("it failed") == OLD
    assert folder.current() == OLD


def test_what_is_not_possible_is_refused_and_changes_nothing(folder: ReleaseFolder) -> None:
    guard = guard_of(folder, machine := Machine())
    with pytest.raises(TrialError, match="runs already"):
        guard.try_release(OLD, 60)
    with pytest.raises(TrialError, match="not installed"):
        guard.try_release("4-none", 60)
    with pytest.raises(TrialError, match="not on trial"):
        guard.confirm(NEW)
    assert guard.send_back("why") is None
    assert (folder.current(), folder.trial(), machine.starts) == (OLD, None, 0)


def test_one_that_has_failed_is_not_confirmed_any_more(folder: ReleaseFolder) -> None:
    folder.keep(Trial(NEW, OLD, 60, BOOTS, "boot-0", "it failed"))
    folder.switch(NEW)
    with pytest.raises(TrialError, match="has failed"):
        guard_of(folder, Machine()).confirm(NEW)


def test_one_whose_listeners_do_not_answer_is_not_confirmed_and_goes_back(
    folder: ReleaseFolder,
) -> None:
    listeners = Answering("mqtt 127.0.0.1:1883: no CONNACK within 5 s", schemes=["mqtt", "coap"])
    guard = guard_of(folder, Machine(), listeners)
    guard.try_release(NEW, 0.0)
    with pytest.raises(TrialError, match=r"does not answer: mqtt .* no CONNACK"):
        guard.confirm(NEW)
    assert listeners.asked == ("mqtt", "coap")  # those of the release before
    guard.watch(lambda _s: None)
    assert folder.current() == OLD


def test_a_second_trial_is_held_to_the_listeners_of_what_was_healthy_before_the_first(
    folder: ReleaseFolder,
) -> None:
    guard_of(folder, Machine(), Answering(schemes=["mqtt", "coap"])).try_release(NEW, 60)
    guard_of(folder, Machine(), Answering(schemes=["coap"])).try_release(NEWER, 60)
    guard_of(folder, Machine(), listeners := Answering()).confirm(NEWER)
    assert listeners.asked == ("mqtt", "coap")


def test_a_trial_that_an_older_release_began_is_read(folder: ReleaseFolder) -> None:
    told = json.loads(trials.encode(Trial(NEW, OLD, 60, BOOTS, "boot-0")))
    del told["schemes"]
    (folder.path / "trial.json").write_text(json.dumps(told))
    assert folder.trial() == Trial(NEW, OLD, 60, BOOTS, "boot-0")


@pytest.mark.parametrize("changes", range(8))
@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_power_cut_at_any_step_leaves_a_release_that_is_whole_and_a_way_back(
    tmp_path: Path, changes: int, is_confirmed: bool
) -> None:
    installed(tmp_path)
    machine = Machine()
    cut = guard_of(CutFolder(tmp_path, changes), machine)
    try:
        cut.try_release(NEW, 3600)
        if is_confirmed:
            cut.confirm(NEW)
        else:
            cut.send_back("it failed")
    except PowerCutError:
        machine.boots += 1
    folder = ReleaseFolder(tmp_path)
    guard = guard_of(folder, machine)
    guard.resume()
    assert folder.current() in {OLD, NEW}
    trial = folder.trial()
    if trial is None:  # decided before the cut
        return
    assert trial.before == OLD
    guard.send_back("nobody is there")
    assert (folder.current(), folder.trial()) == (OLD, None)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 6).map(lambda boot: f"boot-{boot}"), ENDS))
)
def test_a_trial_never_comes_to_life_again_and_no_time_is_given_back(
    looks: list[tuple[float, str, ServiceEnds | None]],
) -> None:
    trial = trials.begun(OLD, NEW, 200, "boot-0", None, ["mqtt"])
    for seconds, boot_id, told in looks:
        after = trials.passed(trial, seconds, boot_id, told)
        assert after.left_s <= trial.left_s
        assert after.boots_left <= trial.boots_left
        assert not trial.why or after.why == trial.why
        assert trials.decode(trials.encode(after)) == after
        trial = after


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"release": 1}', b'{"left_s": NaN}', b"\xff", b"nul"]
)
def test_a_damaged_trial_is_named(folder: ReleaseFolder, data: bytes) -> None:
    (folder.path / "trial.json").write_bytes(data)
    with pytest.raises(TrialError, match=r"trial\.json"):
        folder.trial()


TOLD = {"release": NEW, "before": OLD, "left_s": 5.0, "boots_left": 1, "boot_id": "b", "why": ""}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"left_s": float("inf")}, "left_s: inf"),
        ({"left_s": float("nan")}, "left_s: nan"),
        ({"boots_left": True}, "boots_left: True"),
        ({"boots_left": 1.5}, "boots_left: 1.5"),
        ({"why": None}, "why: None"),
        ({"schemes": "mqtt"}, "schemes: 'mqtt'"),
        ({"schemes": ["mqtt", 1]}, "schemes: ['mqtt', 1]"),
        ({"ends": 1.0}, "ends: 1.0"),
        ({"ends": True}, "ends: True"),
        ({"restarts": "1"}, "restarts: '1'"),
        ({"failed_at": 1.5}, "failed_at: 1.5"),
        ({"ring": True}, "ring: True"),
    ],
)
def test_a_field_of_another_kind_is_named(changed: dict[str, object], why: str) -> None:
    with pytest.raises(TrialError) as raised:
        trials.decode(json.dumps(TOLD | changed).encode())
    assert str(raised.value) == why


def test_a_whole_trial_is_read_as_it_was_written() -> None:
    trial = Trial(NEW, OLD, 5, 1, "b", "w", ("mqtt", "coaps"), 4, 2, 7, 3)
    assert trials.decode(trials.encode(trial)) == trial
    assert trials.decode(json.dumps(TOLD).encode()) == Trial(NEW, OLD, 5.0, 1, "b")


def test_a_trial_ends_at_its_last_boot_its_last_restart_and_its_last_second() -> None:
    trial = trials.begun(OLD, NEW, 60, "boot 0", None, told=ServiceEnds(7))
    for boot in range(1, BOOTS + 1):
        trial = trials.passed(trial, 0.0, f"boot {boot}", None)
        assert (trial.boots_left, trial.why) == (BOOTS - boot, "")
    assert trials.passed(trial, 0.0, "one more", None).why == (
        f"the Pi booted {BOOTS + 1} times and nobody confirmed it"
    )
    trial = trials.begun(OLD, NEW, 60, "boot", None, told=ServiceEnds(7))
    assert trials.passed(trial, 59.9, "boot", ServiceEnds(7 + RESTARTS - 1)).why == ""
    assert trials.passed(trial, 0, "boot", ServiceEnds(7 + RESTARTS)).why == (
        f"its service ended {RESTARTS} times"
    )
    assert trials.passed(trial, 60.0, "boot", None).why == "nobody confirmed it in time"
    assert trials.passed(trial, -5.0, "boot", None).left_s == 60, "no time is given back"


def test_another_trial_while_one_goes_back_and_one_of_what_it_goes_back_to_are_refused() -> None:
    opened = trials.begun(OLD, NEW, 60, "boot", None)
    for trial, release in ((opened, OLD), (replace(opened, why="slow"), NEWER)):
        with pytest.raises(TrialError) as raised:
            trials.begun(NEW, release, 60, "boot", trial)
        assert str(raised.value) == f"{NEW} is on trial: first let {OLD} return"


def test_a_release_that_does_not_run_is_not_confirmed(folder: ReleaseFolder) -> None:
    guard = guard_of(folder, Machine())
    guard.try_release(NEW, 60)
    folder.switch(OLD)
    with pytest.raises(TrialError) as raised:
        guard.confirm(NEW)
    assert str(raised.value) == f"{NEW} is on trial, and {OLD} is what runs"


def test_the_link_leads_to_nothing_that_is_not_whole(folder: ReleaseFolder, tmp_path: Path) -> None:
    for release in ("4-none", f"../releases/{NEW}"):
        with pytest.raises(TrialError) as raised:
            folder.switch(release)
        assert str(raised.value) == f"{release} is not installed in {tmp_path}/releases"
    assert folder.current() == OLD
    (tmp_path / "venv").unlink()
    with pytest.raises(TrialError, match=f"^{tmp_path}/venv: No such file or directory$"):
        folder.current()


def test_a_trial_whose_file_was_damaged_from_the_beginning_is_watched_by_nobody(
    folder: ReleaseFolder, tmp_path: Path
) -> None:
    (tmp_path / "trial.json").write_text("{}")
    with pytest.raises(TrialError, match=r"trial\.json: release: None$"):
        guard_of(folder, Machine()).watch(lambda _s: None)


def test_a_trial_is_written_every_ten_seconds_and_loses_no_more_to_a_power_cut(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = guard_of(folder, Machine())
    guard.try_release(NEW, 31.0)
    now_s = [100.0]
    monkeypatch.setattr(guards, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    kept: list[float] = []

    def look(seconds: float) -> None:
        assert seconds == guards.LOOK_S
        trial = folder.trial()
        assert trial is not None
        kept.append(trial.left_s)
        now_s[0] += 5.0

    guard.watch(look)
    assert kept == [31.0, 31.0, 21.0, 21.0, 11.0, 11.0, 1.0]
    assert folder.current() == OLD
    assert (folder.last() or {})["why"] == "nobody confirmed it in time"


class FixedLinkFolder(ReleaseFolder):
    """A folder that can't have its link moved; the trial of a release can be kept."""

    def switch(self, release: str) -> None:
        raise OSError(errno.EROFS, f"the link can't lead to {release}")


def test_a_second_trial_that_can_not_begin_leaves_the_first_one_open(
    folder: ReleaseFolder, tmp_path: Path
) -> None:
    guard_of(folder, Machine()).try_release(NEW, 60)
    before = folder.trial()
    with pytest.raises(OSError, match="can't lead to 3-newer"):
        guard_of(FixedLinkFolder(tmp_path), Machine()).try_release(NEWER, 60)
    assert folder.trial() == before
    assert folder.current() == NEW


def test_nobody_is_asked_for_answers_of_a_release_that_can_not_be_confirmed(
    folder: ReleaseFolder,
) -> None:
    guard = guard_of(folder, Machine(), listeners := Answering(schemes=["mqtt"]))
    guard.try_release(NEW, 60)
    with pytest.raises(TrialError, match="not on trial"):
        guard.confirm(NEWER)
    assert listeners.asked == ()
    guard.confirm(NEW)
    assert listeners.asked == ("mqtt",)
