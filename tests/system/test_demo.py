"""The demo's path with real processes, each step asserted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

pytestmark = pytest.mark.timeout(660)


@dataclass(frozen=True)
class Run:
    result: dict[str, Any]
    output: str
    report: Path

    @property
    def page(self) -> str:
        return (self.report / "index.html").read_text()

    def drawings(self) -> list[Element]:
        found = re.findall(r"<svg.*?</svg>", self.page, re.DOTALL)
        return [ElementTree.fromstring(text) for text in found]

    def drawing(self, name: str) -> Element:
        (found,) = (each for each in self.drawings() if name in each.get("aria-labelledby", ""))
        return found


@pytest.fixture(scope="session")  # made once, in whichever order the tests run
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "gateway.tools.cli", "demo", "--quick"]
    done = subprocess.run(
        [*command, "--json", str(folder / "demo.json"), "--report", str(folder / "report")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"TMPDIR": str(folder), "XDG_CACHE_HOME": os.devnull},
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
    assert f"<b>{run.result['acknowledged']:,}</b>" in run.page
    assert "$" not in run.page


# -- the page --------------------------------------------------------------------------------------


def test_the_page_draws_the_tree_before_during_and_after_the_kill(run: Run) -> None:
    before, during, after = (
        {node.get("class", ""): node for node in run.drawing(f"tree-{moment}").iter("g")}
        for moment in ("before", "healed", "after")
    )
    assert "gw-root" in during["node silent"].itertext()
    assert "gw-north" in during["node root"].itertext()
    for drawn in (before, after):
        assert "gw-root" in drawn["node root"].itertext()
        assert "node silent" not in drawn
    gateways = {"gw-root", "gw-north", "gw-south"}
    links = {
        moment: sorted(
            link["carries"] for link in told["links"] if {link["one"], link["other"]} <= gateways
        )
        for moment, told in run.result["networks"].items()
    }
    assert links == {"before": [False, True, True], "healed": [True], "after": [False, True, True]}
    for moment in links:
        drawn = [line.get("class") for line in run.drawing(f"tree-{moment}").iter("line")]
        told = [link["carries"] for link in run.result["networks"][moment]["links"]]
        assert drawn.count("link carries") == told.count(True)
        assert drawn.count("link reserve") == told.count(False)


def test_every_chart_marks_the_moment_of_the_kill_and_spans_the_whole_run(run: Run) -> None:
    moments = run.result["timeline"]["moments"]
    killed_s, until_s = moments["killed_s"], moments["until_s"]
    for name in ("roots", "readings-0", "readings-1", "rates", "latency"):
        for form in ("wide", "narrow"):
            drawn = run.drawing(f"{name}-{form}")
            width = float(drawn.attrib["viewBox"].split()[2])
            (kill,) = (line for line in drawn.iter("line") if line.get("class") == "kill")
            left = 76 if name == "roots" else 44
            at = left + killed_s / until_s * (width - 10 - left)
            assert abs(float(kill.attrib["x1"]) - at) < 1
            assert f"gw-root is killed at {killed_s:.1f} s" in drawn.findtext("desc", "")


def test_the_readings_of_the_killed_gateways_sensor_have_a_gap_and_the_others_none(
    run: Run,
) -> None:
    moments = run.result["timeline"]["moments"]
    killed, other = ([at_s for at_s, _ in curve["points"]] for curve in run.result["curves"])
    last_before = max(at_s for at_s in killed if at_s < moments["killed_s"] + 0.1)
    first_after = min(at_s for at_s in killed if at_s > last_before)
    assert first_after > moments["started_again_s"]
    assert [at_s for at_s in other if last_before < at_s < first_after]


def test_latency_is_told_of_messages_that_crossed_the_tree_in_the_order_of_real_stamps(
    run: Run,
) -> None:
    crossed = [
        each
        for each in run.result["timeline"]["deliveries"]
        if each["arrived_s"] is not None and each["gateway"] != run.result["subscriber"]
    ]
    assert len(crossed) > 50
    assert all(each["arrived_s"] > each["sent_s"] for each in crossed)
    assert f"{len(crossed)} messages: half of them" in run.drawing("latency-wide").findtext(
        "desc", ""
    )


def test_each_gateway_was_asked_for_the_root_all_the_time_and_the_killed_one_was_silent(
    run: Run,
) -> None:
    moments, told = (run.result["timeline"][name] for name in ("moments", "told"))
    assert set(told) == {"gw-root", "gw-north", "gw-south"}
    away = [
        root
        for at_s, root in told["gw-root"]
        if moments["killed_s"] < at_s < moments["started_again_s"]
    ]
    assert not any(away)
    text = run.drawing("roots-wide").findtext("desc", "")
    assert "gw-root said: gw-root until" in text
    assert "no answer until" in text


def test_what_the_tables_messages_are_adds_up_on_the_page_and_in_the_output(run: Run) -> None:
    tally = run.result["tally"]
    assert tally["adds_up"]
    assert tally["total"] == run.result["fleet"]["totals"]["messages"]
    totals = [line["total"] for line in tally["lines"]]
    assert sum(totals) == tally["total"]
    assert totals[0] == run.result["acknowledged"]
    assert totals[0] + totals[1] == run.result["ingested"]
    assert totals[2] > 0
    for count, what in zip(totals, (line["what"] for line in tally["lines"]), strict=True):
        assert f"{count:,}  {what}" in run.output
        assert what.replace("'", "&#x27;") in run.page
    assert f"{tally['total']:,}  in the table, as Spark counted them" in run.output
    assert "do not add up" not in run.page + run.output


def test_the_page_refers_to_nothing_outside_and_runs_no_script(run: Run) -> None:
    assert not re.search(r"https?:|//\w|url\(|@import|\bsrc=|<script|<link\b", run.page)
    assert re.findall(r'\bhref="(.*?)"', run.page) == ["dashboard/index.html"]
    assert "default-src 'none'" in run.page


def test_a_copy_of_the_dashboard_shows_the_fleet_of_the_run(run: Run) -> None:
    copy = json.loads((run.report / "dashboard" / "data.json").read_text())
    gateways = {row["gateway"] for row in run.result["fleet"]["gateways"]}
    assert {"gw-root", "gw-north", "gw-south"} <= copy["gateways"].keys() <= gateways
    assert copy["readings"].keys() & gateways
    assert any(tree["gateway"] for tree in copy["trees"])


def test_every_drawing_on_the_page_is_well_formed_and_has_a_text(run: Run) -> None:
    drawings = [each for each in run.drawings() if each.get("role") == "img"]
    assert len(drawings) == 3 + 2 * 5
    assert all(each.findtext("title") and each.findtext("desc") for each in drawings)
    ids = re.findall(r'\bid="([^"]+)"', run.page)
    assert len(ids) == len(set(ids))


def test_the_demo_leaves_no_process_and_no_file_behind(run: Run) -> None:
    assert sorted(path.name for path in run.report.parent.iterdir()) == ["demo.json", "report"]
