"""Asks whether the tests notice: changes one module at a time a little, and runs what imports it.

    python tests/mutants --seed 7 --count 100            a hundred modules, drawn by their lines
    python tests/mutants --seed 7 --count 100 --at 31    only the 31st of them
    python tests/mutants --seed 7 --count 100 --at 1-10  the first ten: a draw in slices
    python tests/mutants --seed 7 --only tree_handler    modules below that folder
    python tests/mutants --seed 7 --count 100 --reached FILE

With --reached all tests run once, with a probe at the place of each change, and FILE keeps which
of them came there (a slice of the same draw finds it there); so a change is tried by those alone
that can notice it. Without, it is tried by the tests that import its module, the nearest first.

Each change is made in a copy of what is committed; the working tree is never touched. A change is
noticed when a test fails with it twice and passes without it in between, so that one which fails
now and then notices nothing; or when tests go on that end without it in half the time. The tests of
a change end at the first failure, or when --seconds-each are over, of which those count alone in
which the machine let this process go on. Exit code 1 where fewer than
--at-least of a hundred were noticed.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from draw import PACKAGES, Mutant, drawn, drawn_as
from importers import importers_of, in_portions, read_sources, test_files_for
from leftover import TRIED_IN, kill_those_left
from patience import Patience
from reach import Reached, probed, read
from summary import first_failed

ROOT = Path(__file__).resolve().parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
PROBED_AT_ONCE = (os.cpu_count() or 1) + 2
"""Processes that run all tests once: for half of the time a test waits."""
OUT_OF_TIME = "no end"
"""Stands for the test that failed, where those of a call were not through in time."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of the tests for one mutant.

    Args:
        test: the first test that failed with the change and not without; None if none did.
        run: how many portions of tests ran.
        all: how many could have.
    """

    test: str | None
    run: int
    all: int

    def __str__(self) -> str:
        if self.test is not None:
            return f"noticed by {self.test}"
        return f"NOT NOTICED by {self.run} of {self.all} portions of tests that had time"


class Copy:
    """A copy of what is committed, in which one change at a time is made and tried."""

    def __init__(
        self,
        folder: Path,
        sources: Mapping[str, str],
        importers: Mapping[str, set[str]],
        reached: Reached,
    ) -> None:
        self._folder = folder
        self._sources = sources
        self._importers = importers
        self._reached = reached

    def outcome(self, mutant: Mutant, seconds: float) -> Outcome:
        """Run tests that may notice a change until one does or the time is over."""
        text = mutant.change.applied_to(self._sources[mutant.module])
        portions = list(self._reached.portions(mutant.number)) or in_portions(
            test_files_for(mutant.module, self._sources, self._importers)
        )
        patience = Patience(seconds)
        tried = 0
        blind: set[str] = set()
        while tried < len(portions) and patience.left_s > 0:
            left = patience.left_s
            some = portions[tried]
            with self._changed(mutant.module, text):
                failed = self._first_failure(some, blind, patience)
            if failed is None:
                tried += 1
            elif failed == OUT_OF_TIME:
                # Only what takes much longer than without the change has noticed it.
                noticed = self._first_failure(some, blind, Patience(left / 2)) is None
                return Outcome(f"{some[0]} (no end)" if noticed else None, tried, len(portions))
            elif self._is_noticed_by(failed, mutant.module, text, seconds):
                return Outcome(failed, tried + 1, len(portions))
            else:
                blind.add(failed)
        return Outcome(None, tried, len(portions))

    def _is_noticed_by(self, test: str, module: str, text: str, seconds: float) -> bool:
        """Return whether a test that failed passes without the change, and fails with it again."""
        if self._first_failure([test], set(), Patience(seconds)) is not None:
            return False
        with self._changed(module, text):
            return self._first_failure([test], set(), Patience(seconds)) is not None

    @contextmanager
    def _changed(self, module: str, text: str) -> Iterator[None]:
        path = self._folder / module
        before = path.read_text()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(before)

    def _first_failure(self, tests: list[str], blind: set[str], patience: Patience) -> str | None:
        """Return what failed first: a test, the first file if none came so far, or OUT_OF_TIME."""
        command = [*PYTEST, "-x", "-rfE", "--no-header", "--timeout", "60", "-n0"]
        command += [f"--deselect={test}" for test in sorted(blind)]
        environment = os.environ | {
            "PYTHONPATH": str(self._folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            TRIED_IN: str(self._folder),
        }
        with subprocess.Popen(
            [*command, *tests],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            if (output := patience.output_of(running)) is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
                kill_those_left(self._folder)
                return OUT_OF_TIME
        if running.returncode in (0, 5):  # all passed, or none was there to run
            return None
        return first_failed(output) or tests[0]


def main() -> int:
    """Draw, try and tell; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python tests/mutants", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="of what is drawn")
    parser.add_argument("--count", type=int, default=100, help="how many modules (default 100)")
    parser.add_argument("--at", type=_span, help="only the one with this number, or FIRST-LAST")
    parser.add_argument("--only", default="", metavar="FOLDER", help="modules below it")
    parser.add_argument("--reached", type=Path, metavar="FILE", help="try what reaches it alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="tried at a time")
    parser.add_argument("--seconds-each", type=float, default=300.0, help="bound for one change")
    parser.add_argument("--at-least", type=int, default=85, help="of a hundred (default 85)")
    parser.add_argument("--list", action="store_true", help="draw and name them, run nothing")
    asked = parser.parse_args()
    archive = _committed()
    sources = read_sources(archive)
    draw = drawn(asked.seed, asked.count, sources, asked.only)
    mutants = [mutant for mutant in draw if asked.at is None or mutant.number in asked.at]
    if asked.list:
        print(*mutants, sep="\n")
        return 0
    reached = Reached() if asked.reached is None else _reached(asked.reached, draw, archive)
    noticed = _try_all(mutants, archive, reached, asked.jobs, asked.seconds_each)
    print(f"{noticed} of {len(mutants)} noticed")
    return 0 if noticed * 100 >= asked.at_least * len(mutants) else 1


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _reached(kept: Path, draw: list[Mutant], archive: bytes) -> Reached:
    """Read which tests reach which change; run all tests with probes where nothing is kept yet."""
    if not kept.exists():
        sources = read_sources(archive)
        with tempfile.TemporaryDirectory(prefix="mutants-") as name:
            folder = Path(name) / "probed"
            _unpack(archive, folder)
            shutil.copy(Path(__file__).parent / "probe.py", folder)
            for mutant in draw:
                text = probed(sources[mutant.module], mutant.change, mutant.number)
                if text is not None:
                    (folder / mutant.module).write_text(text)
            command = [*PYTEST, "-p", "probe", "-n", str(PROBED_AT_ONCE)]
            command += ["--dist", "loadscope", "--no-loadscope-reorder"]
            environment = os.environ | {"PYTHONPATH": str(folder)}
            # A test that fails here has reached what it reached: nothing is changed yet.
            subprocess.run([*command, "tests"], cwd=folder, env=environment, check=False)
            kept.write_text(f"{drawn_as(draw)}\n{(folder / 'reached.txt').read_text()}")
    first, *noted = kept.read_text().splitlines()
    if first != drawn_as(draw):
        sys.exit(f"--reached {kept}: of another draw or other sources; name a file that is not yet")
    return read(noted)


def _try_all(
    mutants: list[Mutant], archive: bytes, reached: Reached, jobs: int, seconds: float
) -> int:
    sources = read_sources(archive)
    importers = importers_of(sources)
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    outcomes: list[Outcome] = []

    def work(folder: Path) -> None:
        copy = Copy(folder, sources, importers, reached)
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            outcomes.append(outcome := copy.outcome(mutant, seconds))
            print(f"{mutant}: {outcome}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folders = [Path(name) / str(number) for number in range(min(jobs, len(mutants)))]
        _unpack(archive, folders[0])
        for folder in folders[1:]:
            shutil.copytree(folders[0], folder, symlinks=True)
        threads = [threading.Thread(target=work, args=(folder,)) for folder in folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sum(outcome.test is not None for outcome in outcomes)


def _unpack(archive: bytes, folder: Path) -> None:
    """Make a copy with byte code that is told from its source by what stands there.

    By date and size, as is usual, it would hide many a change.
    """
    folder.mkdir()
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
    subprocess.run([*command, *PACKAGES], cwd=folder, check=True)


def _committed() -> bytes:
    return subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=-1).stdout


if __name__ == "__main__":
    sys.exit(main())
