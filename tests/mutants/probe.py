"""Notes which tests reach the place of a change, from within the copy that `reach` runs.

It is a plug-in of pytest, too, that notes how long each test took. Probes are called in whatever
process a test starts, so what is noted goes to a file beside this one.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reached.txt")  # noqa: PTH118,PTH120,PTH100
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
        with open(RECORD, "a", encoding="utf-8") as record:  # noqa: PTH123
            record.write(line)
    except OSError:
        pass  # a process that may write nothing, such as a driver: those beside it are seen
