"""Tells how old what is shown is, who keeps it new, and what wants attention. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from cloud_ingest.dashboard.plain import times_ms
from cloud_ingest.fleet.health import STATES

LATE_MS: Final = 5 * 60_000
"""A job commits each few seconds and a gateway says each minute how it is."""
NAMED_MAX: Final = 5
"""Alerts that are told in full; of further ones the number."""
QUIET: Final = ("good", "left", "silent", "warning")
"""States that are as they should be, or of which alerts tell more."""


def health_of(word: object) -> str:
    """Return a state as it is shown: a word of a later version is not taken for good."""
    return word if isinstance(word, str) and word in STATES else "unknown"


def healths(gateways: pa.Table | None) -> dict[str, int]:
    """Count how many gateways are in each state."""
    if gateways is None:
        return dict.fromkeys(STATES, 0)
    found = Counter(health_of(each) for each in gateways["health"].to_pylist())
    return {name: found[name] for name in STATES}


def heard_ms(gateways: pa.Table | None) -> int | None:
    """Return up to when a collector was heard, None if that is not known.

    The watch tells it since there is a column ``judged``; before, the newest message does.
    """
    if gateways is None:
        return None
    for name in ("judged", "last_seen"):
        if name in gateways.column_names:
            known = [each for each in times_ms(gateways[name]) if each is not None]
            if known:
                return max(known)
    return None


def standing(written_ms: int | None, heard: int | None, now_ms: int) -> dict[str, Any]:
    """Tell who keeps the tables new.

    Args:
        written_ms: the newest commit of a job; None if there is none.
        heard: of `heard_ms`.
        now_ms: of this machine's clock.

    Returns:
        ``job`` and ``collector``: ``runs``, ``late`` (nothing for `LATE_MS`), ``ahead`` (its
        clock or this machine's is wrong), ``none`` (nothing was ever written) or ``unknown``: who
        does not know of the job knows nothing of collectors.

    """
    job = _state(written_ms, now_ms)
    collector = _state(heard, now_ms) if job == "runs" else "unknown"
    return {
        "now_ms": now_ms,
        "written_ms": written_ms,
        "heard_ms": heard,
        "job": job,
        "collector": "unknown" if collector == "none" else collector,
    }


def _state(at_ms: int | None, now_ms: int) -> str:
    if at_ms is None:
        return "none"
    if at_ms > now_ms + LATE_MS:
        return "ahead"
    return "runs" if at_ms >= now_ms - LATE_MS else "late"


def tables_alert(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the alert that nobody writes the tables, None where somebody does.

    Whoever reads says so: a job that does not live raises no alert, and one whose tables can't be
    written has nowhere to put it. Where nothing was ever written there is nothing to wait for.

    Args:
        told: what `standing` tells.

    """
    if told["job"] != "late":
        return None
    since_ms = int(told["written_ms"])
    minutes = (told["now_ms"] - since_ms) // 60_000
    return {
        "alert": f"tables-not-written::{since_ms * 1_000}",
        "kind": "tables-not-written",
        "gateway": "",
        "sensor": None,
        "message": f"no job has written the tables for {minutes} min",
        "opened_ms": since_ms,
        "severity": "critical",
        "what_to_do": "docs/what-to-do-when.md#the-ingest-raises-an-alert",
    }


def attention(gateways: pa.Table | None, alerts: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Tell what is open: alerts that nobody has acknowledged, and states without an alert.

    Args:
        gateways: the table; None if there is none yet.
        alerts: what `alerts_view.alerts` tells, in its order.

    Returns:
        ``first``: at most `NAMED_MAX` alerts, the worst;
        ``states``: how many gateways are in a state that wants a look and raises no alert.

    """
    opened = [at for at, cleared in enumerate(alerts["cleared_ms"]) if cleared is None]
    new = [at for at in opened if alerts["acknowledged_by"][at] is None]
    names = ("alert", "kind", "gateway", "sensor", "message", "opened_ms")
    counted = healths(gateways)
    return {
        "health": counted,
        "open": len(opened),
        "new": len(new),
        "first": [{name: alerts[name][at] for name in names} for at in new[:NAMED_MAX]],
        "states": {name: many for name, many in counted.items() if many and name not in QUIET},
    }
