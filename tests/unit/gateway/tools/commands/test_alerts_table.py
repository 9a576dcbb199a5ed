"""`hedgerow alerts` shows the state of each alert: its owner, or the reason for silence."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.tools.commands import alerts

STANDS: dict[str, Any] = {
    "alert": "hot:gw-a:-",
    "severity": "warning",
    "rule": "hot",
    "gateway": "gw-a",
    "site": "campus/north",
    "part": "",
    "message": "its processor has 81 °C",
    "what_to_do": "give it air",
    "since_us": 1_700_000_000_000_000,
    "taken_on": None,
    "silence": None,
    "is_told": True,
}


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({}, "told"),
        ({"is_told": False}, "hidden by another"),
        ({"is_told": False, "silence": 3}, "silence 3"),
        (
            {"silence": 3, "taken_on": {"who": "key:ines", "at_us": 1, "note": ""}},
            "taken on by key:ines",
        ),
    ],
)
def test_the_state_of_an_alert_is_said_alike_in_the_table_and_of_it_alone(
    known: dict[str, Any], state: str
) -> None:
    one = STANDS | known
    document = {"alerts": [one], "silences": [], "ways": {}, "left_out": 0}
    _, row = alerts.as_table(document, with_cleared=False).splitlines()
    assert f"  {state}  " in row
    (line,) = [line for line in alerts.as_text(one).splitlines() if line.startswith("state ")]
    assert line.split(maxsplit=1)[1] == state
