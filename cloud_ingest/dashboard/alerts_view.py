"""Alerts with what was said to them. Pure."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from cloud_ingest.dashboard.plain import columns

_SHOWN: Final = ("alert", "kind", "gateway", "sensor", "opened", "cleared", "message", "value")
_NONE: Final = {name: list[Any]() for name in (*_SHOWN, "opened_ms", "cleared_ms")}
_SAID: Final = ("by", "note", "time_ms")


def alerts(table: pa.Table | None, acknowledgements: pa.Table | None) -> dict[str, list[Any]]:
    """All alerts as columns: those that are open first, each the newest first.

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
        key=lambda at: (cleared[at] is not None, -(opened[at] or 0), found["alert"][at]),
    )
    return {name: [values[at] for at in order] for name, values in found.items()}


def _by_alert(table: pa.Table | None) -> dict[str, dict[str, Any]]:
    if table is None:
        return {}
    found = columns(table.sort_by("time"), ("alert", "by", "note", "time"))
    rows = zip(*(found[name] for name in ("alert", *_SAID)), strict=True)
    return {alert: dict(zip(_SAID, said, strict=True)) for alert, *said in rows}
