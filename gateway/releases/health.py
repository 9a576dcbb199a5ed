"""Health of a gateway compared with before: by it a release, or a whole system, is confirmed.

Pure. A status is what `hedgerow status --json` prints of a gateway; empty if it did not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Status = Mapping[str, Any]


def complaints(after: Status, before: Status | None = None) -> list[str]:
    """Return why a gateway is less healthy than before its restart; empty if it is not.

    Args:
        after: its status now; empty if it does not answer.
        before: its status then; empty if it did not answer, and has but to run.

    """
    if not after:
        return ["it does not answer"]
    if "neighbours" not in after:
        return ["it tells nothing of itself: gateway_ask_as may not read /status"]
    before = before or {}
    found = []
    if before and after["boot_epoch"] == before["boot_epoch"]:
        found.append("it has not started again")
    if after.get("disk", {}).get("failure"):
        found.append(f"its log fails: {after['disk']['failure']}")
    known = {neighbour["id"] for neighbour in after["neighbours"]}
    missing = sorted({one["id"] for one in before.get("neighbours", ())} - known)
    if missing:
        why = {one["why"] for one in after.get("refused_links", ())}
        more = f" (refused: {'; '.join(sorted(why))})" if why else ""
        found.append(f"it has no link with {', '.join(missing)}{more}")
    if before.get("neighbours") and not any(one["forwarding"] for one in after["neighbours"]):
        found.append("none of its links forwards")
    if lost := sorted(set(before.get("members", ())) - set(after["members"])):
        found.append(f"it does not know {', '.join(lost)}")
    return found
