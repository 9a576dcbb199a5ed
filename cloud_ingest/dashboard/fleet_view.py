"""The fleet: a row a gateway, and all that is known of one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cloud_ingest.dashboard.page_address import page_address
from cloud_ingest.dashboard.plain import columns
from cloud_ingest.dashboard.standing import health_of, healths

SHOWN: Final = (
    *("gateway", "domain", "group", "health", "version", "root", "parent", "up_s"),
    *("temperature_cel", "under_voltage", "disk_free_bytes", "disk_total_bytes", "load1"),
    *("rate_per_s", "messages", "gaps", "mqtt_clients", "queue_messages", "last_seen"),
    *("health_why", "ring", "trial", "reboot_due", "backup"),
)
PLACE: Final = ("latitude", "longitude")
_ALL: Final = (
    *SHOWN,
    *("build", "boot_epoch", "roles", "links", "clock_offset_ms", "disk_written_bytes"),
    *("memory_bytes", "undecodable", "duplicates", "kept_local", "first_seen", "last_status"),
    *("member_error", "counters", "judged", "page", "release", "trial_release", "trial_why"),
    *("backup_why", "backup_age_s", "rated_messages_per_s", "rated_clients"),
)


def fleet(gateways: pa.Table | None, alerts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fleet as columns, and how many gateways are how.

    Args:
        gateways: the table; None if there is none yet.
        alerts: what `alerts_view.alerts` tells.

    """
    if gateways is None:
        return {"count": 0, "health": healths(None), "gateways": {}}
    ordered = gateways.sort_by("gateway")
    found = columns(ordered, SHOWN)
    opened = Counter(
        gateway
        for gateway, cleared in zip(alerts["gateway"], alerts["cleared_ms"], strict=True)
        if cleared is None
    )
    found["alerts"] = [opened[gateway] for gateway in found["gateway"]]
    found["health"] = [health_of(each) for each in found["health"]]
    found["rtt_ms"] = _rtts_to_parents(ordered)
    found |= {name: _degrees(ordered, name) for name in PLACE}
    return {"count": gateways.num_rows, "health": healths(gateways), "gateways": found}


def gateway(gateways: pa.Table | None, name: str) -> dict[str, Any] | None:
    """Return all that the table has of one gateway, None if it has not this one."""
    if gateways is None:
        return None
    row = gateways.filter(pc.equal(gateways["gateway"], name)).slice(0, 1)
    if not row.num_rows:
        return None
    found = {column: values[0] for column, values in columns(row, _ALL).items()}
    found["health"] = health_of(found["health"])
    # 64 bits, and a number of JavaScript has 53.
    found["boot_epoch"] = None if found["boot_epoch"] is None else str(found["boot_epoch"])
    found["page"] = page_address(found["page"])
    found["counters"] = sorted(dict(found["counters"] or ()).items())
    return found


def _degrees(gateways: pa.Table, name: str) -> list[float | None]:
    """Return degrees to a tenth of a metre; a table of an earlier version has none."""
    if name not in gateways.column_names:
        return [None] * gateways.num_rows
    return [None if each is None else round(each, 6) for each in gateways[name].to_pylist()]


def _rtts_to_parents(gateways: pa.Table) -> list[float | None]:
    rows = zip(gateways["parent"].to_pylist(), gateways["links"].to_pylist(), strict=True)
    return [
        next((link["rtt_ms"] for link in links or () if link["peer"] == parent), None)
        for parent, links in rows
    ]
