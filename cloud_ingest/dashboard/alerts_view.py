"""Alerts with what was said to them. Pure."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from cloud_ingest.dashboard.plain import columns

WORST_FIRST: Final = (
    *("ingest-failing", "collector-disk", "collector-silent", "ingest-behind"),
    *("quarantine-growing", "silent", "two-lives", "given-up", "gap", "flapping"),
    *("flapping-root", "clock-off", "disk-full", "disk-wearing", "under-voltage", "hot"),
    *("sensor-range", "sensor-stuck", "sensors-unwatched"),
)
"""Kinds of alerts by weight: what blinds the watch, who is not heard, what is lost, what will
break, what one sensor does. A kind that is not known here weighs as much as the heaviest."""
_SHOWN: Final = (
    *("alert", "kind", "gateway", "sensor", "opened", "cleared", "message", "value"),
    *("severity", "what_to_do"),
)
_NONE: Final = {name: list[Any]() for name in (*_SHOWN, "opened_ms", "cleared_ms")}
_SAID: Final = ("by", "note", "time_ms")


def alerts(table: pa.Table | None, acknowledgements: pa.Table | None) -> dict[str, list[Any]]:
    """All alerts as columns: the open ones first.

    Of the open ones the ingest's own come first, and then the worst by `WORST_FIRST`; of what is
    alike the newest.

    Args:
        table: `alerts`; None if there is none yet.
        acknowledgements: `acknowledgements`; of several for one alert the last counts.

    """
    if table is None:
        found = {name: list(values) for name, values in _NONE.items()}
    else:
        found = columns(table, _SHOWN)
    said = _by_alert(acknowledgements)
    for name in _SAID:
        found[f"acknowledged_{name}"] = [said.get(each, {}).get(name) for each in found["alert"]]
    opened, cleared = found["opened_ms"], found["cleared_ms"]
    order = sorted(
        range(len(opened)),
        key=lambda at: (
            cleared[at] is not None,
            0 if cleared[at] is not None else _weight(found["gateway"][at], found["kind"][at]),
            -(opened[at] or 0),
            found["alert"][at],
        ),
    )
    return {name: [values[at] for at in order] for name, values in found.items()}


def _by_alert(table: pa.Table | None) -> dict[str, dict[str, Any]]:
    if table is None:
        return {}
    found = columns(table.sort_by("time"), ("alert", "by", "note", "time"))
    rows = zip(*(found[name] for name in ("alert", *_SAID)), strict=True)
    return {alert: dict(zip(_SAID, said, strict=True)) for alert, *said in rows}


def _weight(gateway: str, kind: str) -> int:
    if not gateway:
        return -1
    return WORST_FIRST.index(kind) if kind in WORST_FIRST else 0
