"""The page that the demo leaves: its result for a browser, in one file that needs no network."""

from __future__ import annotations

import html
import importlib.resources
from collections.abc import Mapping
from string import Template
from typing import Any

from gateway.tools.demo import figures, page_tables

_PLAIN = ("killed", "lost", "doubled", "heal_s", "rejoin_s", "remote_read_ms", "remote_read")


def render(result: Mapping[str, Any]) -> str:
    """Return the page's HTML; every value is escaped.

    Args:
        result: as `gateway.tools.demo.result.Result.as_json` gives it.

    """
    kept = bool(result["acknowledged"]) and not result["lost"] and not result["doubled"]
    plain = {name: html.escape(str(result[name])) for name in (*_PLAIN, "total_s")}
    return Template(_file("page.html")).substitute(
        plain,
        style=_file("page.css"),
        verdict="kept" if kept else "broken",
        headline=html.escape(_headline(result, kept=kept)),
        sent=_sent(result),
        acknowledged=f"{result['acknowledged']:,}",
        ingested=f"{result['ingested']:,}",
        before_log=_before_log(result["acknowledged_before_log"]),
        trees=figures.trees(result),
        network_legend=figures.network_legend(),
        moments=page_tables.moments(result),
        gateway_legend=figures.gateway_legend(result),
        charts=figures.charts(result),
        latency=figures.latency_chart(result) + page_tables.latency(result),
        table_total=f"{result['tally'].get('total', 0):,}",
        account=page_tables.account(result),
        control=page_tables.control(result),
        fleet=page_tables.fleet(result),
    )


def _headline(result: Mapping[str, Any], *, kept: bool) -> str:
    if kept:
        return "A gateway was killed. Nothing was lost, and nothing doubled."
    if not result["acknowledged"]:
        return "A gateway was killed, and there was nothing to count."
    return f"A gateway was killed: {result['lost']:,} lost, {result['doubled']:,} doubled."


def _sent(result: Mapping[str, Any]) -> str:
    count = len(result["timeline"].get("deliveries", ()))
    return f"{count:,}"


def _before_log(count: int) -> str:
    """Return what the killed gateway took with it, where there is any."""
    if not count:
        return ""
    return (
        f'<p class="soft">{count:,} more were acknowledged by the killed gateway before its log '
        "had them, and are counted apart.</p>"
    )


def _file(name: str) -> str:
    return importlib.resources.files("gateway.tools.demo").joinpath(name).read_text()
