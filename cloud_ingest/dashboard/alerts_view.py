"""Alerts with what was said to them. Pure."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from cloud_ingest.dashboard.plain import columns
from cloud_ingest.fleet.kinds import rank

_SHOWN: Final = (
    *("alert", "kind", "gateway", "sensor", "opened", "cleared", "message", "value"),
    *("severity", "what_to_do"),
)
_NONE: Final = {name: list[Any]() for name in (*_SHOWN, "opened_ms", "cleared_ms")}
_SAID: Final = ("by", "note", "time_ms")


def alerts(table: pa.Table | None, acknowledgements: pa.Table | None) -> dict[str, list[Any]]:
    """Return all alerts as columns, the open ones first.

    Of the open ones the ingest's own come first, and then the worst by `kinds.rank`; of what is
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
    is_of_a_gateway = [bool(each) for each in found["gateway"]]
    ranks = list(map(rank, found["kind"], found["severity"]))
    open_ones = [at for at, each in enumerate(cleared) if each is None]
    closed = [at for at, each in enumerate(cleared) if each is not None]

    def newest(at: int) -> tuple[int, str]:
        return (-(opened[at] or 0), found["alert"][at])

    open_ones.sort(key=lambda at: (is_of_a_gateway[at], ranks[at], *newest(at)))
    order = open_ones + sorted(closed, key=newest)
    return {name: [values[at] for at in order] for name, values in found.items()}


def _by_alert(table: pa.Table | None) -> dict[str, dict[str, Any]]:
    if table is None:
        return {}
    found = columns(table.sort_by("time"), ("alert", "by", "note", "time"))
    rows = zip(*(found[name] for name in ("alert", *_SAID)), strict=True)
    return {alert: dict(zip(_SAID, said, strict=True)) for alert, *said in rows}
