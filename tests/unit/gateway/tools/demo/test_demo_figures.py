"""The figures of the demo's page: each gateway has a colour of its own, and nobody else has one."""

from __future__ import annotations

import re
from typing import Any

from gateway.tools.demo import figures
from gateway.tools.demo.network import COLLECTOR


def test_the_legend_has_each_gateway_in_a_colour_of_its_own_and_not_the_collector() -> None:
    kinds = {"gw-root": "gateway", "cloud": COLLECTOR, "gw-north": "gateway"}
    nodes = [{"id": name, "kind": kind} for name, kind in kinds.items()]
    legend = figures.gateway_legend({"networks": {"before": {"nodes": nodes}}})
    assert re.findall(r">([^<>]+)</li>", legend) == ["gw-root", "gw-north"]
    styles = re.findall(r'class="([^"]*\bg\d[^"]*)"', legend)
    assert len(set(styles)) == 2


def test_a_run_that_did_not_get_far_has_an_empty_legend_and_no_charts() -> None:
    result: dict[str, Any] = {"networks": {}, "timeline": {}}
    assert "<li>" not in figures.gateway_legend(result)
    assert figures.charts(result) == ""


def test_a_run_that_did_not_get_far_has_no_chart_of_latency_either() -> None:
    for moments in ({}, {"killed_s": 1.0}, {"until_s": 2.0}):
        assert figures.latency_chart({"networks": {}, "timeline": {"moments": moments}}) == ""
