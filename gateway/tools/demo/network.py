"""Network of a fleet at one moment, as its gateways told of their links; without its drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from light_dataclasses import dataclass

Statuses = Mapping[str, Mapping[str, Any]]
ROOT, GATEWAY, COLLECTOR, SILENT = "root", "gateway", "collector", "silent"
"""Kinds of a node: one that did not answer is silent."""


@dataclass(frozen=True, slots=True)
class DemoNode:
    """One process of the fleet.

    Attributes:
        id: its id.
        kind: `ROOT`, `GATEWAY`, `COLLECTOR` or `SILENT`.
        note: what it was elected by, in words.

    """

    id: str
    kind: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class DemoLink:
    """A link that one of its ends told of; ``carries`` where no end says that it stands by."""

    one: str
    other: str
    carries: bool


@dataclass(frozen=True, slots=True)
class DemoNetwork:
    """Nodes in the order of the fleet, then collectors; links by their ends."""

    nodes: tuple[DemoNode, ...]
    links: tuple[DemoLink, ...]

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> DemoNetwork:
        """Read what `dataclasses.asdict` made of one."""
        return cls(
            tuple(DemoNode(**node) for node in told["nodes"]),
            tuple(DemoLink(**link) for link in told["links"]),
        )


def network(statuses: Statuses, fleet: Iterable[str]) -> DemoNetwork:
    """Build the network from what each gateway says of itself.

    Args:
        statuses: the status of each gateway that answered, by its id.
        fleet: the ids of all gateways that there should be.

    """
    members = list(fleet)
    nodes = [_gateway(who, statuses.get(who)) for who in members]
    carries: dict[tuple[str, str], bool] = {}
    for who, status in statuses.items():
        for neighbour in status["neighbours"]:
            one, other = sorted((who, str(neighbour["id"])))
            carries[one, other] = carries.get((one, other), True) and bool(neighbour["forwarding"])
    others = {end for ends in carries for end in ends} - set(members)
    nodes += [DemoNode(who, COLLECTOR) for who in sorted(others)]
    gone = {node.id for node in nodes if node.kind == SILENT}
    links = (
        DemoLink(one, other, does)
        for (one, other), does in sorted(carries.items())
        if not {one, other} & gone
    )
    return DemoNetwork(tuple(nodes), tuple(links))


def _gateway(who: str, status: Mapping[str, Any] | None) -> DemoNode:
    if status is None:
        return DemoNode(who, SILENT, "no answer")
    capability = f"{status['capability']:g}"
    if status["root"] == who:
        return DemoNode(who, ROOT, f"root · {capability}")
    return DemoNode(who, GATEWAY, capability)
