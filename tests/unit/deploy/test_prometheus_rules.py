"""The rules for Prometheus are rules, fire when they should, and name metrics that there are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented_metrics import of_gateways, of_the_cloud, unknown_in

from gateway.alerting.rules import RULES
from gateway.broker.inbound.admission import refused_for
from gateway.mqtt import ReasonCode

PROJECT = Path(__file__).resolve().parents[3]
FOLDER = PROJECT / "deploy/prometheus"
FILE = FOLDER / "hedgerow.rules.yml"


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.peer("promtool", "prometheus")
@pytest.mark.parametrize("arguments", [("check", FILE.name), ("test", "hedgerow.rules.test.yml")])
def test_promtool_takes_them(arguments: tuple[str, str]) -> None:
    kind, file = arguments
    command = ["promtool", kind, "rules", file]
    done = subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_metric_in_them_and_in_their_tests_is_one_that_is_told() -> None:
    for rule in rules():
        assert unknown_in(rule["expr"]) == [], rule["alert"]
    series = yaml.safe_load((FOLDER / "hedgerow.rules.test.yml").read_text())["tests"]
    for one in series:
        for given in one["input_series"]:
            assert unknown_in(given["series"]) == []


@pytest.mark.parametrize(
    "page", sorted((PROJECT / "docs").glob("*.md")), ids=lambda page: page.name
)
def test_each_metric_that_a_page_names_is_one_that_is_told(page: Path) -> None:
    first = {name.split("_")[1] for name in {**of_gateways(), **of_the_cloud()}}
    for quoted in re.findall(r"`([^`]*hedgerow_[^`]*)`", page.read_text()):
        if "_{" in quoted:  # several at once, in the table that says which there are
            continue
        if first.intersection(re.findall(r"hedgerow_([a-z]+)_", quoted)):
            assert unknown_in(quoted) == [], quoted


def test_a_name_that_nobody_tells_is_noticed() -> None:
    assert unknown_in("rate(hedgerow_mqtt_refusal_total[5m])") == ["hedgerow_mqtt_refusal_total"]
    assert unknown_in("hedgerow_tree_link == 0") == ["hedgerow_tree_link"]
    wrong = 'hedgerow_alerts{alert="hot", instance="a"}'
    assert unknown_in(wrong) == ["hedgerow_alerts{alert}"]
    assert unknown_in("sum by (gatewy) (hedgerow_tree_links)") == ["(gatewy)"]
    assert unknown_in("sum by (le) (rate(hedgerow_log_sync_seconds_bucket[5m]))") == []


def test_what_gateways_say_themselves_has_the_same_name_and_severity() -> None:
    own = {rule["alert"] for rule in rules()} & RULES.keys()
    assert len(own) >= 7
    for rule in rules():
        if rule["alert"] in own:
            assert rule["labels"]["severity"] == RULES[rule["alert"]].severity
    assert refused_for(ReasonCode.BAD_USER_NAME_OR_PASSWORD) in FILE.read_text()


def test_each_leads_to_a_page_that_there_is() -> None:
    for rule in rules():
        page = rule["annotations"]["runbook"].partition("#")[0]
        assert (PROJECT / page).is_file()
