"""The page that the demo leaves: its result for a browser, in one file that needs no network."""

from __future__ import annotations

import html
import importlib.resources
from collections.abc import Mapping
from string import Template
from typing import Any

_COLUMNS = (
    ("gateway", "gateway"),
    ("domain", "domain"),
    ("group", "group"),
    ("messages", "messages"),
    ("gaps", "sequence gaps"),
    ("duplicates", "duplicates"),
    ("last_seen", "last seen (UTC)"),
)
_STEPS = (
    ("before", "One tree, {converged_s} s after the first process was started"),
    ("healed", "The root was killed: messages flowed again after {heal_s} s"),
    ("after", "The root came back, and was root again after {rejoin_s} s"),
)


def render(result: Mapping[str, Any]) -> str:
    """The page's HTML; every value is escaped."""
    template = importlib.resources.files("gateway.demo").joinpath("page.html").read_text()
    kept = result["acknowledged"] and not result["lost"] and not result["doubled"]
    return Template(template).substitute(
        verdict="kept" if kept else "broken",
        trees="".join(_tree(result, name, title) for name, title in _STEPS),
        head="".join(f"<th>{title}</th>" for _, title in _COLUMNS),
        rows="".join(_row(gateway) for gateway in result["fleet"].get("gateways", [])),
        **{
            name: html.escape(str(result[name]))
            for name in (
                "acknowledged",
                "ingested",
                "lost",
                "doubled",
                "acknowledged_before_log",
                "heal_s",
                "remote_read_ms",
                "remote_read",
                "total_s",
            )
        },
    )


def _tree(result: Mapping[str, Any], name: str, title: str) -> str:
    lines = "\n".join(result["trees"].get(name, []))
    heading = html.escape(title.format_map(result))
    return f"<figure><figcaption>{heading}</figcaption><pre>{html.escape(lines)}</pre></figure>"


def _row(gateway: Mapping[str, Any]) -> str:
    shown = {**gateway, "last_seen": str(gateway.get("last_seen"))[:19].replace("T", " ")}
    cells = "".join(f"<td>{html.escape(str(shown.get(key)))}</td>" for key, _ in _COLUMNS)
    return f"<tr>{cells}</tr>"
