"""Each rule has the severity and the times that docs/alerts.md says, and no other rule is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.alerting.rules import RULES

PAGE = Path(__file__).parents[4] / "docs/alerts.md"
SECONDS = {"s": 1, "min": 60, "minute": 60, "minutes": 60, "hour": 3600, "hours": 3600}
DURATION = re.compile(r"\b(a|an|\d+) (s|min|minutes?|hours?)\b")


class DocumentedRule(NamedTuple):
    """A row of the page's table."""

    severity: str
    after: str
    over: str


def rows() -> dict[str, DocumentedRule]:
    table = PAGE.read_text().partition("## The rules")[2].partition("\n\nWhat could not")[0]
    found = re.findall(r"(?m)^\| `([a-z-]+)` \| (\w+) \| .* \| ([^|]+) \| ([^|]+) \|$", table)
    return {name: DocumentedRule(severity, after, over) for name, severity, after, over in found}


def seconds(text: str) -> float:
    """Return the first duration of a text; 0 where it has none."""
    found = DURATION.search(text)
    if found is None:
        return 0
    number = 1 if found[1] in {"a", "an"} else int(found[1])
    return number * SECONDS[found[2]]


def test_the_page_has_each_rule() -> None:
    assert rows().keys() == RULES.keys()


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_as_the_page_says(rule: str) -> None:
    row, terms = rows()[rule], RULES[rule]
    assert terms.severity == row.severity
    assert terms.after_s == seconds(row.after)
    assert terms.clears_after_s == seconds(row.over)


def test_durations_are_read_as_people_write_them() -> None:
    assert seconds("at once") == 0
    assert seconds("15 minutes after the last 5 without") == 900
    assert seconds("an hour without another") == 3600
    assert seconds("it is within both by `margin`, for 30 s") == 30
