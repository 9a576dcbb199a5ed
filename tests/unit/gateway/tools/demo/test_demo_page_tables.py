"""The tables of the demo's page say how long messages took."""

from __future__ import annotations

import re
from typing import Any

from gateway.tools.demo import page_tables


def cells(text: str) -> list[list[str]]:
    """Return the cells of each row of a table but its head."""
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [row for row in found if row]


def delivery(sent_s: float, took_s: float) -> dict[str, Any]:
    return {
        "gateway": "gw-north",
        "sent_s": sent_s,
        "acknowledged_s": sent_s + took_s,
        "arrived_s": None,
    }


def test_percentiles_are_told_by_the_moment_of_publication_and_a_dash_where_nothing_was() -> None:
    result = {
        "subscriber": "gw-root",
        "timeline": {
            "moments": {"killed_s": 10.0, "back_s": 20.0},
            "deliveries": [delivery(1.0, 0.25), delivery(2.0, 0.5), delivery(10.0, 1.5)],
        },
    }
    before, away, after = cells(page_tables.latency(result))[:3]
    assert before[:3] == ["before the kill", "2", "250.0"]
    assert away == ["until the return", "1", "1,500.0", "1,500.0", "1,500.0"]
    assert after == ["after it", "0", "–", "–", "–"]
