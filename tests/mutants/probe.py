"""Notes which tests reach the place of a change, from within the copy that `reach` runs.

It is a plug-in of pytest, too, that notes how long each test took. Probes are called in whatever
process a test starts, so what is noted goes to a file beside this one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a gateway that comes to a probe needs none of it
    import pytest

RECORD = Path(__file__).resolve().with_name("reached.txt")
"""Lines of a number, a tab and a test: the change that the test reached, or the seconds it took."""
_noted: set[tuple[int, str]] = set()
_seconds: dict[str, float] = defaultdict(float)


def note(number: int) -> None:
    """Note that the test that goes on reached the place of a change.

    Pytest says in the environment which test it is, and processes inherit that.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test and (number, test) not in _noted:
        _noted.add((number, test))
        _append(f"{number}\t{test}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what a test took: all three parts of it."""
    _seconds[report.nodeid] += report.duration
    if report.when == "teardown" and "PYTEST_XDIST_WORKER" not in os.environ:
        _append(f"{_seconds.pop(report.nodeid):.3f}\t{report.nodeid}\n")


def _append(line: str) -> None:
    try:
        with RECORD.open("a", encoding="utf-8") as record:
            record.write(line)
    except OSError:
        pass  # a process that may write nothing, such as a driver: those beside it are seen
