"""A trial of a release of whose calls each fails: it goes back, or stays, and is never stuck."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from failing_calls import OF_THE_DISK, Draw, FailingCalls, Fault

from gateway.releases.folder import ReleaseFolder
from gateway.releases.guard import ReleaseGuard
from gateway.releases.trial import ServiceEnds, TrialError

OLD, NEW = "1-old", "2-new"
SHORT_S = 1e-6
"""A second look comes later than that."""


class Machine:
    """A service that only counts, and that runs the release that the link led to."""

    def __init__(self, folder: ReleaseFolder) -> None:
        self._folder = folder
        self.runs = OLD
        self.starts = 0

    def boot_id(self) -> str:
        return "boot"

    def ends(self) -> ServiceEnds:
        return ServiceEnds(7, failed_at=1)  # of before

    def restart(self) -> None:
        self.starts += 1
        self.runs = self._folder.current()

    def start_guard(self) -> None:
        pass


class Silent:
    """Listeners of which nobody asks."""

    def schemes(self) -> list[str]:
        return []

    def complaints(self, schemes_before: object) -> list[str]:
        return []


def installed(path: Path) -> tuple[ReleaseFolder, Machine, ReleaseGuard]:
    for release in (OLD, NEW):
        (path / "releases" / release).mkdir(parents=True)
        (path / "releases" / release / "installed").touch()
    folder = ReleaseFolder(path)
    folder.switch(OLD)
    machine = Machine(folder)
    return folder, machine, ReleaseGuard(folder, machine, Silent())


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_release_that_fails_goes_back_whatever_fails_on_its_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def lived(name: str, number: int = 0) -> tuple[ReleaseFolder, Machine]:
        releases, machine, guard = installed(folder / name)
        if number:
            calls.fail(number, fault)
        looks = 0

        def sleep(_seconds: float) -> None:
            nonlocal looks
            looks += 1
            assert looks < 100, "it never comes to an end"
            if looks == 3:
                calls.mend()

        with contextlib.suppress(OSError, TrialError):
            guard.try_release(NEW, SHORT_S)
        with contextlib.suppress(OSError):  # the unit is started again after its first step failed
            guard.resume()
        guard.watch(sleep)
        calls.mend()
        return releases, machine

    installed(folder / "counted")
    begun = calls.counts["disk"]
    releases, machine = lived("whole")
    assert (releases.current(), machine.runs, machine.starts) == (OLD, OLD, 2)
    for number in draw(calls.counts["disk"] - begun):
        releases, machine = lived(str(number), number)
        where = (str(fault), number, calls.failed)
        assert (releases.current(), releases.trial()) == (OLD, None), where
        assert machine.runs == OLD and machine.starts <= 2, where


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_release_that_is_confirmed_stays_or_goes_back_and_whoever_confirms_knows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def tried(name: str) -> tuple[ReleaseFolder, Machine, ReleaseGuard]:
        made = installed(folder / name)
        made[2].try_release(NEW, SHORT_S)
        return made

    _, _, guard = tried("whole")
    begun = calls.counts["disk"]
    guard.confirm(NEW)
    for number in draw(calls.counts["disk"] - begun):
        releases, machine, guard = tried(str(number))
        calls.fail(number, fault)
        try:
            guard.confirm(NEW)
            is_told = False
        except (OSError, TrialError):
            is_told = True
        calls.mend()
        is_open = releases.trial() is not None
        assert is_told or not is_open
        guard.watch(lambda _seconds: None)
        assert machine.runs == releases.current() == (OLD if is_open else NEW)
