"""Recorded series: values with their times, from the files in ``data/`` or a file of one's own.

A file is CSV with two columns: ``elapsed_s``, seconds since the first sample, and the value, whose
heading is its SenML unit.
"""

from __future__ import annotations

import csv
import importlib.resources
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

MAX_POINTS = 1_000_000


class SeriesError(ValueError):
    """A recorded series can't be used; the message names the file and line."""


class Series:
    """Values over time.

    Args:
        unit: the SenML unit of the values.
        elapsed_s: seconds since the first sample, from 0, rising.
        values: one for each time.

    Raises:
        SeriesError: fewer than two points, or times that do not rise from 0.

    """

    __slots__ = ("_elapsed_s", "_values", "duration_s", "unit")

    def __init__(self, unit: str, elapsed_s: Sequence[float], values: Sequence[float]) -> None:
        if len(values) != len(elapsed_s) or len(values) < 2:
            raise SeriesError(f"{len(elapsed_s)} times with {len(values)} values")
        if elapsed_s[0] != 0:
            raise SeriesError(f"starts at {elapsed_s[0]} s instead of 0")
        if any(later <= earlier for earlier, later in pairwise(elapsed_s)):
            raise SeriesError("times do not rise")
        self.unit = unit
        self.duration_s = elapsed_s[-1] + (elapsed_s[-1] - elapsed_s[-2])
        """Length of one round, seconds: the last value holds as long as the one before it."""
        self._elapsed_s = elapsed_s
        self._values = values

    def at(self, elapsed_s: float) -> float:
        """Return the value at a time since the start; after the end the series begins again."""
        within_s = math.fmod(elapsed_s, self.duration_s)
        return self._values[max(0, bisect_right(self._elapsed_s, within_s) - 1)]

    def __len__(self) -> int:
        return len(self._values)


def names() -> list[str]:
    """Return the series that ship with the gateway."""
    folder = importlib.resources.files("gateway.sensors") / "data"
    return sorted(
        file.name.removesuffix(".csv") for file in folder.iterdir() if file.name.endswith(".csv")
    )


def load(series: str) -> Series:
    """Read a series that ships with the gateway, by its name, or a CSV file, by its path.

    Raises:
        SeriesError: there is none of this name, or a line of it is wrong.

    """
    if series.endswith(".csv"):
        try:
            with Path(series).open(newline="", encoding="utf-8") as file:
                return parse(file, series)
        except (OSError, UnicodeDecodeError) as error:
            raise SeriesError(f"{series}: {error}") from error
    known = names()
    if series not in known:
        raise SeriesError(f"{series!r} is neither a .csv file nor one of {', '.join(known)}")
    resource = importlib.resources.files("gateway.sensors") / "data" / f"{series}.csv"
    with resource.open(encoding="utf-8") as file:
        return parse(file, series)


def parse(lines: Iterable[str], source: str) -> Series:
    """Read the CSV form of a series.

    Args:
        lines: the lines of the file.
        source: what to call it in an error.

    Raises:
        SeriesError: the heading or a line is wrong, or there are more than ``MAX_POINTS``.

    """
    rows = csv.reader(lines)
    elapsed_s: list[float] = []
    values: list[float] = []
    try:
        heading = next(rows, [])
        if len(heading) != 2 or heading[0] != "elapsed_s":
            raise SeriesError("line 1: the heading is not 'elapsed_s,UNIT'")
        for row in rows:
            if len(values) == MAX_POINTS:
                raise SeriesError(f"line {rows.line_num}: over {MAX_POINTS} points")
            time_s, value = (float(field) for field in row)
            if not (math.isfinite(time_s) and math.isfinite(value)):
                raise ValueError("not finite")
            elapsed_s.append(time_s)
            values.append(value)
        return Series(heading[1], elapsed_s, values)
    except SeriesError as error:
        raise SeriesError(f"{source}: {error}") from error
    except (ValueError, csv.Error) as error:
        raise SeriesError(f"{source}, line {rows.line_num}: {error}") from error
