"""Each rule of a gateway names the test that has it raised by what it is about."""

from __future__ import annotations

import ast
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from gateway.alerting.rules import RULES

PROJECT = Path(__file__).parents[4]
LISTED = tomllib.loads((PROJECT / "tests/system/causes.toml").read_text())


def test_each_rule_stands_once_in_the_list_of_causes() -> None:
    rules = list(chain.from_iterable(LISTED.values()))
    assert sorted(rules) == sorted(RULES)


@pytest.mark.parametrize(("rule", "test"), [*chain.from_iterable(map(dict.items, LISTED.values()))])
def test_the_test_of_a_rules_cause_exists(rule: str, test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((PROJECT / file).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    assert name in {one.name for one in tree.body if isinstance(one, kinds)}, rule
