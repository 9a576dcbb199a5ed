"""The tree of a fleet, as the statuses of its gateways tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_one_tree(statuses: Mapping[str, Mapping[str, Any]], root: str, *, gateways: int) -> bool:
    """Return whether all gateways agree on the root and are linked to each other in one tree.

    Both ends of each link have to say the same of it.
    """
    ways = {
        (name, neighbour["id"])
        for name, status in statuses.items()
        for neighbour in status["neighbours"]
        if neighbour["forwarding"] and neighbour["id"] in statuses
    }
    linked = all(
        len({n["id"] for n in status["neighbours"]} & statuses.keys()) == gateways - 1
        for status in statuses.values()
    )
    return (
        len(statuses) == gateways
        and {status["root"] for status in statuses.values()} == {root}
        and linked
        and ways == {(other, one) for one, other in ways}
        and len(ways) == 2 * (gateways - 1)
    )


def forwards_to(statuses: Mapping[str, Mapping[str, Any]], node: str) -> bool:
    """Return whether any gateway forwards messages to a node, as a collector is one."""
    return any(
        neighbour["id"] == node and neighbour["forwarding"]
        for status in statuses.values()
        for neighbour in status["neighbours"]
    )
