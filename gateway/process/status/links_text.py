"""Text on what keeps gateways from linking: whom one dials, and whom it refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any


def ago(time_s: float) -> str:
    """Return how long ago something was, in the unit that suits, by the wall clock."""
    seconds = max(0, round(time.time() - time_s))
    for unit_s, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s} {name}"
    return f"{seconds} s"


def without_links(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each neighbour that is dialled and has no link, and for each that was
    refused.

    Args:
        status: of a gateway, perhaps of an earlier version, which tells neither.

    """
    for one in status.get("dialling", {}).get("addresses", ()):
        if not one["linked"]:
            yield f"no link to {_whom(one)}: {_trouble(one)}"
    for one in status.get("refused_links", ()):
        yield (
            f"refused a link from {one['address']}: {one['why']} "
            f"({one['times']} times, last {ago(one['last_s'])} ago)"
        )


def _whom(one: Mapping[str, Any]) -> str:
    return f"{one['address']} ({one['id'] or one['source']})"


def _trouble(one: Mapping[str, Any]) -> str:
    if one["fails_since_s"] is None:
        return "is dialled"
    return f"{one['why']} (for {ago(one['fails_since_s'])}, {one['failed']} attempts)"
