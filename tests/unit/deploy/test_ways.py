"""The two ways through the code are as short as docs/architecture.md says (`deploy/ways.py`)."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "deploy"))

import ways  # noqa: E402  # found by the line above

SPARE_CALLS = 5
"""A timer that falls into each of the requests makes some more."""


def told() -> list[tuple[int, int]]:
    """Return the calls and classes of each way, as the page has them in its order."""
    page = (ROOT / "docs" / "architecture.md").read_text().replace("\n", " ")
    return [
        (int(one), int(other)) for one, other in re.findall(r"makes (\d+) calls of (\d+)", page)
    ]


def test_a_publish_and_a_get_make_no_more_calls_than_the_page_says() -> None:
    measured = asyncio.run(ways.measured())
    for way, (calls, classes) in zip(measured, told(), strict=True):
        met = "\n".join(f"{call.module} {call.function}" for call in way.calls)
        assert len(way.calls) <= calls + SPARE_CALLS, f"{way.name}: {len(way.calls)} calls\n{met}"
        assert len(way.classes) <= classes, f"{way.name}: {len(way.classes)} classes\n{met}"
