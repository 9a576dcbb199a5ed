"""The result of every benchmark: our figure beside a peer's, as text and as JSON.

The JSON is a list of objects with the keys ``case``, ``ours``, ``peer``, ``peer_name``,
``unit``, ``ratio`` (always ours / peer) and ``better`` (``higher`` or ``lower``). A case without
a figure of ours or of the peer's is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Better = Literal["higher", "lower"]

QUICK_S = 50.0
"""``--quick`` ends within this time."""
_SIGNIFICANT_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of ours and the same figure of a peer's, both greater than 0.

    Raises:
        ValueError: a figure is not greater than 0, so that there is no ratio.

    """

    case: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    better: Better

    def __post_init__(self) -> None:
        for name, figure in (("ours", self.ours), ("peer", self.peer)):
            if not figure > 0:
                raise ValueError(f"{self.case}: {name} is {figure}, not greater than 0")

    @property
    def ratio(self) -> float:
        """Ours / peer."""
        return self.ours / self.peer

    def as_json(self) -> dict[str, str | float]:
        """Return the object of the JSON list."""
        return {
            "case": self.case,
            "ours": rounded(self.ours),
            "peer": rounded(self.peer),
            "peer_name": self.peer_name,
            "unit": self.unit,
            "ratio": rounded(self.ratio),
            "better": self.better,
        }


def rounded(figure: float) -> float:
    """To four significant digits: more would be noise."""
    return float(f"{figure:.{_SIGNIFICANT_DIGITS}g}")


def shown(figure: float) -> str:
    """Return a figure for a table: ``1,234,000``, ``81.2``, ``0.534``."""
    figure = rounded(figure)
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:g}"


def write_json(path: Path, comparisons: Iterable[Comparison]) -> None:
    """Write the list.

    Raises:
        OSError: the file can't be written.

    """
    path.write_text(json.dumps([one.as_json() for one in comparisons], indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments that all benchmarks take; `case` is a part of the names of those to run."""

    quick: bool
    json_file: Path | None
    case: str = ""


def options(
    name: str, description: str, arguments: Sequence[str] | None, cases: Sequence[str] = ()
) -> Options:
    """Parse the arguments; a wrong one ends the program with exit code 2.

    Where there are ``cases``, by name, ``--case`` chooses those that hold its text.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument(
        "--quick", action="store_true", help=f"fewer cases, ends within {QUICK_S:.0f} s"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparisons there")
    if cases:
        shown_cases = "; ".join(cases)
        parser.add_argument("--case", default="", metavar="TEXT", help=f"of: {shown_cases}")
    parser.add_argument(
        "--one-core", action="store_true", help="all on one core, so that none has to be woken"
    )
    parsed = parser.parse_args(arguments)
    if cases and not any(parsed.case in case for case in cases):
        parser.error(f"--case: no case has {parsed.case!r} in its name")
    if parsed.json is not None and not parsed.json.absolute().parent.is_dir():
        parser.error(f"--json: {parsed.json.parent}: no such folder")
    if parsed.one_core:  # what is started inherits it
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return Options(parsed.quick, parsed.json, parsed.case if cases else "")
