"""Lines of a gateway's log are read again by level and part, whatever stands between them."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.event_log import lines
from gateway.base.event_log.read_lines import FURTHER_MAX, LEVELS, LogFilter, LogRecord, records_of

NODE = "2026-11-28 08:50:16,047 INFO gateway.node.links.node: linked to gw-barn"
BROKER = "2026-11-28 08:50:17,001 WARNING gateway.broker.upkeep: queue is full"


def written(level: int, name: str, message: str) -> str:
    """A record as a gateway writes it."""
    return lines.LineFormatter().format(
        logging.LogRecord(name, level, "x.py", 1, message, (), None)
    )


@given(st.sampled_from(LEVELS), st.text(min_size=0, max_size=80))
def test_what_a_gateway_writes_is_read_as_it_was_meant(level: str, message: str) -> None:
    number = logging.getLevelNamesMapping()[level.upper()]
    (record,) = records_of([written(number, "gateway.node.links.node", message)])
    assert (record.level, record.part) == (level.upper(), "gateway.node.links.node")
    assert record.text.isprintable()


def test_a_traceback_belongs_to_its_record() -> None:
    told = [NODE, "  Traceback (most recent call last):", "  ValueError: x", BROKER]
    first, second = records_of(told)
    assert first.lines == tuple(told[:3])
    assert second.lines == (BROKER,)


def test_of_a_traceback_without_an_end_the_first_lines_are_kept() -> None:
    (record,) = records_of([NODE, *["  more"] * (FURTHER_MAX + 50)])
    assert len(record.further) == FURTHER_MAX


def test_words_of_others_stand_for_themselves() -> None:
    told = list(records_of(["Started hedgerow.service", NODE, "Stopping"]))
    assert [one.level for one in told] == ["", "INFO", ""]


@pytest.mark.parametrize(
    ("level", "part", "taken"),
    [
        ("", "", [NODE, BROKER, "odd"]),
        ("debug", "", [NODE, BROKER]),
        ("warning", "", [BROKER]),
        ("error", "", []),
        ("", "links", [NODE]),
        ("", "links.node", [NODE]),
        ("", "gateway.node.links", [NODE]),
        ("", "node", [NODE]),
        ("", "nod", []),
        ("warning", "links", []),
    ],
)
def test_records_are_chosen_by_level_and_part(level: str, part: str, taken: list[str]) -> None:
    wanted = LogFilter(level, part)
    found = [one.line for one in records_of([NODE, BROKER, "odd"]) if wanted.takes(one)]
    assert found == taken


@given(st.lists(st.text(max_size=100), max_size=30))
def test_any_lines_are_records_and_none_is_lost(told: list[str]) -> None:
    found = [line for one in records_of(told) for line in one.lines]
    assert found == told


def test_a_log_goes_to_a_file_too_that_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "getLogger", lambda _name=None: root)
    file = tmp_path / "state" / lines.FILE_NAME
    lines.also_to(file)
    assert file.parent.stat().st_mode & 0o077 == 0
    for number in range(3):
        root.warning("%s", f"{number}" * (lines.FILE_BYTES_MAX // 2))
    kept = sorted(path.name for path in file.parent.iterdir())
    assert kept == [lines.FILE_NAME, f"{lines.FILE_NAME}.1"]
    assert all(path.stat().st_size <= lines.FILE_BYTES_MAX for path in file.parent.iterdir())
    (record,) = records_of(file.read_text().splitlines()[-1:])
    assert record.text[:1] == "2"


def test_a_line_that_the_disk_does_not_take_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, said = logging.Logger("root"), io.StringIO()
    monkeypatch.setattr(logging, "getLogger", lambda _name=None: root)
    monkeypatch.setattr("sys.stderr", said)
    lines.also_to(tmp_path / lines.FILE_NAME)
    handler = root.handlers[0]
    assert isinstance(handler, logging.FileHandler)
    handler.stream.close()
    handler.stream = Path("/dev/full").open("w")  # noqa: SIM115  # closed with the handler
    root.warning("no room")
    assert said.getvalue() == ""


def test_a_record_of_no_form_is_its_text() -> None:
    assert LogRecord.of("x").text == "x"
