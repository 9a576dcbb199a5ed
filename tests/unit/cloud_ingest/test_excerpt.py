from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cloud_ingest.tables.excerpt import excerpt


def row(topic: str, number: int | None, value: float | None = 1.5) -> dict[str, Any]:
    time = None if number is None else datetime.fromtimestamp(1000 + number, UTC)
    return {
        "origin": "gw",
        "topic": topic,
        "device_number": number,
        "value": value,
        "unit": "Cel",
        "device_time": time,
    }


def test_rows_are_counted_by_topic_and_the_readings_of_some_are_picked_out_in_order() -> None:
    rows = [row("b", 2), row("a", 1), row("b", None, None), row("b", 1)]
    found = excerpt(rows, frozenset({"b"}))
    assert found["rows"] == [["gw", "a", 1], ["gw", "b", 3]]
    assert found["readings"] == {
        "b": [
            ["gw", 1, 1.5, "Cel", 1001.0],
            ["gw", 2, 1.5, "Cel", 1002.0],
            ["gw", None, None, "Cel", None],
        ]
    }


def test_a_topic_that_nobody_used_has_no_readings() -> None:
    assert excerpt([], frozenset({"b"})) == {"rows": [], "readings": {"b": []}}
