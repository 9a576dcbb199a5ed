"""The rules for Prometheus are rules, fire when they should, and name metrics that there are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def test_each_metric_in_them_is_one_that_is_told() -> None:
    told = "".join(
        path.read_text()
        for folder in ("gateway/process/console", "cloud_ingest/job")
        for path in (PROJECT / folder).glob("*.py")
    )
    for rule in rules():
        for name in re.findall(r"hedgerow_[a-z_]+", rule["expr"]):
            short = name.removesuffix("_bucket").removeprefix("hedgerow_mqtt_")
            assert short in told, name


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
