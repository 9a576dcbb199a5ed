"""Each rule of a gateway names the test that has it raised by what it is about, and end."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from gateway.alerting.rules import RULES

PROJECT = Path(__file__).parents[4]
LISTED = tomllib.loads((PROJECT / "tests/system/causes.toml").read_text())
ENDS = {"cleared", "CLEARED"}
"""The change, in the words of a webhook and of a mail."""


def test_each_rule_is_in_the_list_of_causes() -> None:
    assert sorted(LISTED) == sorted(RULES)


@pytest.mark.parametrize("rule", LISTED)
def test_the_test_of_a_rule_has_its_cause_and_its_end(rule: str) -> None:
    row = LISTED[rule]
    assert row.keys() == {"cause", "end", "test"}
    assert row["cause"] and row["end"]
    words = _words(row["test"])
    assert rule in words, "it is about this rule"
    assert words & ENDS, "it has its end"


def test_what_has_no_end_is_found() -> None:
    assert not _words(f"{Path(__file__).relative_to(PROJECT)}::_words") & ENDS


def _words(test: str) -> set[str]:
    """Return the texts that stand in a test."""
    file, _, name = test.partition("::")
    tree = ast.parse((PROJECT / file).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    (found,) = [one for one in tree.body if isinstance(one, kinds) and one.name == name]
    return {str(one.value) for one in ast.walk(found) if isinstance(one, ast.Constant)}
