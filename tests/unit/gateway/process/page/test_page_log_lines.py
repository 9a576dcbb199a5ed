"""The lines of the log that a page shows: which, how many, and how they are waited for."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.process.page.log_lines import RecentLines


def record(
    level: int, text: str, *args: object, name: str = "gateway.x", at_s: float = 1.0
) -> logging.LogRecord:
    made = logging.LogRecord(name, level, __file__, 1, text, args, None)
    made.created = at_s
    return made


@pytest.fixture
async def lines() -> RecentLines:
    return RecentLines(asyncio.get_running_loop())


async def test_a_line_is_told_with_its_number_time_and_level(lines: RecentLines) -> None:
    lines.emit(record(logging.WARNING, "a %s\n", "b", at_s=1.2345))
    failed = record(logging.ERROR, "no")
    failed.exc_info = (OSError, OSError("x\ty"), None)
    lines.emit(failed)
    bare = record(logging.ERROR, "no")
    bare.exc_info = (None, None, None)
    lines.emit(bare)
    assert lines.after(0) == [
        {
            "number": 1,
            "time_ms": 1234,
            "level": "WARNING",
            "from": "gateway.x",
            "text": "a b\\n",
        },
        {
            "number": 2,
            "time_ms": 1000,
            "level": "ERROR",
            "from": "gateway.x",
            "text": "no (OSError('x\\ty'))",
        },
        {"number": 3, "time_ms": 1000, "level": "ERROR", "from": "gateway.x", "text": "no"},
    ]
    assert lines.number == 3


async def test_a_line_that_can_not_be_told_is_left_out(
    lines: RecentLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    lines.emit(record(logging.ERROR, "%d", "no number"))
    assert (lines.number, lines.after(0)) == (0, [])


async def test_the_newest_1000_lines_are_kept_each_with_2000_characters(lines: RecentLines) -> None:
    for number in range(1_001):
        lines.emit(record(logging.INFO, f"{number}" + "x" * 2_000))
    found = lines.after(0)
    assert [len(found), found[0]["number"], found[-1]["number"]] == [1_000, 2, 1_001]
    assert {len(one["text"]) for one in found} == {2_000}
    assert [one["number"] for one in lines.after(999)] == [1_000, 1_001]


async def test_lines_are_chosen_by_level_and_by_a_text_of_theirs_or_of_their_origin(
    lines: RecentLines,
) -> None:
    for level, text, name in (
        (logging.DEBUG, "one", "gateway.mqtt"),
        (logging.INFO, "Two", "gateway.coap"),
        (logging.WARNING, "three", "gateway.coap"),
        (5, "four", "gateway.coap"),
        (logging.CRITICAL, "five", "gateway.mqtt"),
    ):
        lines.emit(record(level, text, name=name))

    def numbers(level: str = "DEBUG", text: str = "") -> list[int]:
        return [one["number"] for one in lines.after(0, level, text)]

    assert numbers() == [1, 2, 3, 5]
    assert numbers("INFO") == [2, 3, 5]
    assert numbers("WARNING") == [3, 5]
    assert numbers("ERROR") == [5]
    assert numbers(text="tWO") == [2]
    assert numbers(text="COAP") == [2, 3]
    assert numbers(text="none") == []


async def test_who_waits_is_woken_by_a_line_and_waits_no_longer_than_it_wants(
    lines: RecentLines,
) -> None:
    await lines.wait(0.0)
    waiting = [asyncio.create_task(lines.wait(60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    lines.emit(record(logging.INFO, "x"))
    await asyncio.gather(*waiting)
