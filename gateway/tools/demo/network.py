"""Network of a fleet at one moment, as its gateways told of their links; without its drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from light_dataclasses import dataclass

Statuses = Mapping[str, Mapping[str, Any]]
ROOT, GATEWAY, COLLECTOR, SILENT = "root", "gateway", "collector", "silent"
"""Kinds of a node: one that did not answer is silent."""


@dataclass(frozen=True, slots=True)
class ToldNode:
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
class ToldLink:
    """A link that one of its ends told of; ``carries`` where no end says that it stands by."""

    one: str
    other: str
    carries: bool


@dataclass(frozen=True, slots=True)
class ToldNetwork:
    """Nodes in the order of the fleet, then collectors; links by their ends."""

    nodes: tuple[ToldNode, ...]
    links: tuple[ToldLink, ...]

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> ToldNetwork:
        """From what `dataclasses.asdict` made of one."""
        return cls(
            tuple(ToldNode(**node) for node in told["nodes"]),
            tuple(ToldLink(**link) for link in told["links"]),
        )


def network(statuses: Statuses, fleet: Iterable[str]) -> ToldNetwork:
    """From what each gateway says of itself.

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
    nodes += [ToldNode(who, COLLECTOR) for who in sorted(others)]
    gone = {node.id for node in nodes if node.kind == SILENT}
    links = (
        ToldLink(one, other, does)
        for (one, other), does in sorted(carries.items())
        if not {one, other} & gone
    )
    return ToldNetwork(tuple(nodes), tuple(links))


def _gateway(who: str, status: Mapping[str, Any] | None) -> ToldNode:
    if status is None:
        return ToldNode(who, SILENT, "no answer")
    capability = f"{status['capability']:g}"
    if status["root"] == who:
        return ToldNode(who, ROOT, f"root · {capability}")
    return ToldNode(who, GATEWAY, capability)
