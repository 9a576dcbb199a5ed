"""A release on trial: what the Pi does by itself, whatever moment its power fails at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.releases import trial as trials
from gateway.releases.folder import ReleaseFolder
from gateway.releases.guard import ReleaseGuard
from gateway.releases.trial import BOOTS, RESTARTS, Trial, TrialError

OLD, NEW, NEWER = "1-old", "2-new", "3-newer"


class PowerCutError(BaseException):
    """The power fails; nothing catches it."""


class Machine:
    """A service that only counts, on a machine that can be booted."""

    def __init__(self) -> None:
        self.boots = 0
        self.starts = 0
        self.ends = 0
        self.guards = 0

    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    def restarts(self) -> int:
        return self.ends

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

    def close(self, trial: Trial, why: str) -> None:
        self._change()
        super().close(trial, why)


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
        machine.ends += 1

    guard.watch(another_end)
    assert folder.current() == OLD
    assert machine.ends == RESTARTS


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
    st.lists(
        st.tuples(
            st.floats(0, 100), st.integers(0, 6).map(lambda boot: f"boot-{boot}"), st.integers(0, 5)
        )
    )
)
def test_a_trial_never_comes_to_life_again_and_no_time_is_given_back(
    looks: list[tuple[float, str, int]],
) -> None:
    trial = trials.begun(OLD, NEW, 200, "boot-0", None, ["mqtt"])
    for seconds, boot_id, restarts in looks:
        after = trials.passed(trial, seconds, boot_id, restarts)
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
