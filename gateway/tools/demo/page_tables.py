"""The tables and lists of the page, from what `report.json` holds."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gateway.base.percentiles import percentile

_FLEET = (
    ("gateway", "gateway"),
    ("domain", "domain"),
    ("group", "group"),
    ("messages", "messages"),
    ("gaps", "sequence gaps"),
    ("duplicates", "duplicates"),
    ("last_seen", "last seen (UTC)"),
)
_MOMENTS = (
    ("killed_s", "{killed} is killed with SIGKILL"),
    ("healed_s", "the first message published after that reaches a subscriber of {subscriber}"),
    ("started_again_s", "{killed} is started again"),
    ("back_s", "all gateways call {killed} the root again"),
    ("until_s", "the devices stop"),
)
Cells = Sequence[str]


def moments(result: Mapping[str, Any]) -> str:
    """Return what happened when."""
    told = result["timeline"].get("moments", {})
    items = "".join(
        f"<dt>{told[name]:.2f} s</dt><dd>{html.escape(text.format_map(result))}</dd>"
        for name, text in _MOMENTS
        if name in told
    )
    return f'<dl class="moments">{items}</dl>'


def account(result: Mapping[str, Any]) -> str:
    """Return what the messages in the telemetry table are, by gateway, and their sum."""
    tally = result["tally"]
    gateways = list(tally.get("in_table", ()))
    body = [
        [line["what"], *_counts(line["by_gateway"], gateways), f"{line['total']:,}"]
        for line in tally.get("lines", ())
    ]
    foot = [
        "in the telemetry table, as Spark counted them",
        *_counts(tally.get("in_table", {}), gateways),
        f"{tally.get('total', 0):,}",
    ]
    adds_up = "" if tally.get("adds_up", True) else "<p><b>These do not add up.</b></p>"
    head = ["messages that a gateway took", *gateways, "all"]
    return _table("account", "Messages in the telemetry table", head, body, foot) + adds_up


def control(result: Mapping[str, Any]) -> str:
    """Return what is in the spool and not in the table."""
    return (
        f"Beside these, {result['tally'].get('control', 0):,} messages of the gateways to each "
        "other (who belongs to the fleet, and where it stands) are in the collector's spool. They "
        "are no telemetry, and the table leaves them out."
    )


def latency(result: Mapping[str, Any]) -> str:
    """Return percentiles before the kill, while the gateway was away, and after."""
    body = [
        [what, when, f"{len(took):,}", *_percentiles(took)]
        for what, when, took in _latencies(result)
    ]
    head = ["milliseconds from publication", "published", "messages", "p50", "p99", "slowest"]
    return _table("latency", "By the moment of publication", head, body)


def fleet(result: Mapping[str, Any]) -> str:
    """Return the fleet table."""
    rows = [
        gateway | {"last_seen": str(gateway.get("last_seen"))[:19].replace("T", " ")}
        for gateway in result["fleet"].get("gateways", ())
    ]
    body = [[str(row.get(key)) for key, _ in _FLEET] for row in rows]
    return _table("fleet", "A row a gateway", [title for _, title in _FLEET], body)


def _latencies(result: Mapping[str, Any]) -> Iterator[tuple[str, str, list[float]]]:
    told = result["timeline"].get("moments", {})
    killed_s = told.get("killed_s", 0.0)
    back_s = told.get("back_s", killed_s)
    spans = (
        ("before the kill", 0.0, killed_s),
        ("until the return", killed_s, back_s),
        ("after it", back_s, float("inf")),
    )
    kinds = (
        ("to the device's acknowledgement", "acknowledged_s", ()),
        (f"to a subscriber of {result['subscriber']}", "arrived_s", (result["subscriber"],)),
    )
    for what, moment, left_out in kinds:
        for when, start_s, end_s in spans:
            yield (
                what,
                when,
                [
                    (each[moment] - each["sent_s"]) * 1000
                    for each in result["timeline"].get("deliveries", ())
                    if each[moment] is not None
                    and each["gateway"] not in left_out
                    and start_s <= each["sent_s"] < end_s
                ],
            )


def _percentiles(took: Sequence[float]) -> list[str]:
    if not took:
        return ["–"] * 3
    return [f"{ms:,.1f}" for ms in (percentile(took, 50), percentile(took, 99), max(took))]


def _counts(by_gateway: Mapping[str, int], gateways: Iterable[str]) -> list[str]:
    return [f"{by_gateway.get(gateway, 0):,}" for gateway in gateways]


def _table(
    name: str, caption: str, head: Cells, body: Iterable[Cells], foot: Cells | None = None
) -> str:
    shown = html.escape(caption)
    titles = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in head)
    rows = "".join(map(_row, body))
    last = f"<tfoot>{_row(foot)}</tfoot>" if foot else ""
    return (
        f'<div class="scroll" role="region" aria-label="{shown}" tabindex="0">'
        f'<table class="{name}"><caption>{shown}</caption><thead><tr>{titles}</tr></thead>'
        f"<tbody>{rows}</tbody>{last}</table></div>"
    )


def _row(cells: Cells) -> str:
    first, *others = map(html.escape, cells)
    data = "".join(f"<td>{cell}</td>" for cell in others)
    return f'<tr><th scope="row">{first}</th>{data}</tr>'
