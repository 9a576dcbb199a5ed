"""The demo's path with real processes, each step asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Run:
    result: dict[str, Any]
    output: str
    report: Path


@pytest.fixture(scope="session")  # made once, in whichever order the tests run
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "gateway.cli", "demo", "--quick"]
    done = subprocess.run(
        [*command, "--json", str(folder / "demo.json"), "--report", str(folder / "report")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield Run(json.loads((folder / "demo.json").read_text()), done.stdout, folder / "report")


def test_three_gateways_form_one_tree_rooted_at_the_most_capable(run: Run) -> None:
    assert run.result["trees"]["before"][0].startswith("gw-root ")


def test_the_redundant_link_of_the_triangle_is_blocked(run: Run) -> None:
    for moment in ("before", "after"):
        blocked = [line for line in run.result["trees"][moment] if line.startswith("blocked: ")]
        assert len(blocked) == 1


def test_the_collector_joins_as_a_leaf(run: Run) -> None:
    assert any("─ collector" in line for line in run.result["trees"]["before"])


def test_a_sensor_is_read_over_dtls_through_another_gateway_than_its_own(run: Run) -> None:
    (reading,) = json.loads(run.result["remote_read"])
    assert (reading["bn"], reading["n"]) == ("gw-south/", "host/load1")
    assert isinstance(reading["v"], float)


def test_when_the_root_is_killed_messages_flow_again_and_another_gateway_is_root(run: Run) -> None:
    assert run.result["heal_s"] > 0
    assert run.result["trees"]["healed"][0].startswith("gw-north ")


def test_the_root_is_root_again_when_it_is_back(run: Run) -> None:
    assert run.result["trees"]["after"][0].startswith("gw-root ")


def test_nothing_acknowledged_or_logged_is_lost_and_nothing_doubled(run: Run) -> None:
    assert run.result["acknowledged"] > 100
    assert run.result["ingested"] >= run.result["acknowledged"]
    assert (run.result["lost"], run.result["doubled"]) == (0, 0)
    assert run.result["acknowledged_before_log"] == 0


def test_the_fleet_table_shows_every_gateway_without_gaps(run: Run) -> None:
    rows = {row["gateway"]: row for row in run.result["fleet"]["gateways"]}
    assert set(rows) == {"gw-root", "gw-north", "gw-south"}
    assert all(row["gaps"] == 0 and row["messages"] > 0 for row in rows.values())
    assert (rows["gw-north"]["domain"], rows["gw-north"]["group"]) == ("campus", "north")
    first, second = rows["gw-root"]["boot_epochs"]
    assert first < second


def test_the_demo_says_what_it_does_and_leaves_a_report_and_a_page(run: Run) -> None:
    assert "Killing the root" in run.output
    assert json.loads((run.report / "report.json").read_text()) == run.result
    page = (run.report / "index.html").read_text()
    assert f"<b>{run.result['acknowledged']}</b>" in page
    assert "$" not in page


def test_the_demo_leaves_no_process_and_no_file_behind(run: Run) -> None:
    assert sorted(path.name for path in run.report.parent.iterdir()) == ["demo.json", "report"]
