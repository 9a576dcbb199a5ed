"""Metrics by docs/monitoring.md, and those that queries of Prometheus ask for.

The page's tables are held against what is served (test_console.py, test_metrics_of_the_cloud.py),
so that whoever names a metric elsewhere can be held against the page.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "monitoring.md"
OF_TARGETS = {"instance", "job"}
"""Labels that Prometheus adds."""
_OF_THE_CLOUD = ("hedgerow_ingest_", "hedgerow_fleet_", "hedgerow_dashboard_")
_OF_HISTOGRAMS = ("_bucket", "_count", "_sum")
_METRIC = re.compile(r"\bhedgerow_[a-z0-9_]+\b(?:\{([^{}]*)\})?")
_LABEL = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")


def named_in(page: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the metrics of a page's tables, each with its labels.

    `a_{b,c}_d{e}` is a_b_d and a_c_d, with e.
    """
    for line in page.splitlines():
        for token in re.findall(r"`(hedgerow_[^` ]+)`", line.split("|")[1] if "|" in line else ""):
            match = re.fullmatch(r"(.*?)(?:(?<!_)\{(.*)\})?", token)
            assert match is not None
            name, labels = match.groups()
            parts = [part.split(",") for part in re.split(r"[{}]", name)]
            for one in itertools.product(*parts):
                yield "".join(one), set((labels or "").split(",")) - {""}


def of_gateways() -> dict[str, set[str]]:
    """Return the labels of each metric that the page says of gateways, by name."""
    found = named_in(PAGE.read_text())
    return {name: labels for name, labels in found if not name.startswith(_OF_THE_CLOUD)}


def of_the_cloud() -> dict[str, set[str]]:
    """Return the labels of each metric that the page says of job and dashboard, by name."""
    found = named_in(PAGE.read_text())
    return {name: labels for name, labels in found if name.startswith(_OF_THE_CLOUD)}


def unknown_in(query: str) -> list[str]:
    """Return what a query of Prometheus asks for and nobody tells: metrics, and their labels."""
    told = {**of_gateways(), **of_the_cloud()}
    wrong = []
    for found in _METRIC.finditer(query):
        name, wanted = found[0].partition("{")[0], {*_LABEL.findall(found[1] or "")}
        bare = next((name.removesuffix(end) for end in _OF_HISTOGRAMS if name.endswith(end)), name)
        labels = told.get(name, told.get(bare))
        if labels is None:
            wrong.append(name)
        else:
            wrong += [f"{name}{{{one}}}" for one in sorted(wanted - labels - OF_TARGETS - {"le"})]
    known = {"le", *OF_TARGETS}.union(*told.values())
    for found in _GROUPING.finditer(query):
        words = {word.strip() for word in found[1].split(",")} - {""}
        wrong += [f"({word})" for word in sorted(words - known)]
    return wrong
