"""The fleet's domains, groups and heads as one gateway tells them, drawn for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from light_dataclasses import dataclass

_ROOT = "-/-"


@dataclass(frozen=True, slots=True)
class DrawnHierarchy:
    """A drawing of the hierarchy, from what ``/hierarchy`` told.

    Attributes:
        told: the document.

    """

    told: Mapping[str, Any]

    def as_text(self) -> str:
        """Return the hierarchy from its root down, each child below its head."""
        gateways = {one["id"]: one for one in self.told["gateways"]}
        below: dict[str | None, list[str]] = {}
        for gateway_id, one in gateways.items():
            below.setdefault(one["parent"], []).append(gateway_id)
        lines: list[str] = []
        for top in sorted(below.get(None, ())):
            lines += _branch(top, "", "", gateways, below)
        suspects = sum(one["suspect"] for one in gateways.values())
        count = f"{len(gateways)} gateway{'' if len(gateways) == 1 else 's'}"
        return "\n".join([*lines, f"{count}, {suspects} out of reach"])


def _branch(
    at: str,
    first: str,
    rest: str,
    gateways: Mapping[str, Mapping[str, Any]],
    below: Mapping[str | None, Sequence[str]],
) -> Iterator[str]:
    yield first + _line(gateways[at])
    children = sorted(below.get(at, ()), key=lambda one: (gateways[one]["place"], one))
    for number, child in enumerate(children, 1):
        is_last = number == len(children)
        own, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _branch(child, rest + own, rest + further, gateways, below)


def _line(one: Mapping[str, Any]) -> str:
    parts = [one["place"]]
    if heads := ["all" if place == _ROOT else place for place in one["heads"]]:
        parts.append(f"heads {' and '.join(heads)}")
    if one["suspect"]:
        parts.append("out of reach")
    if one["draining"]:
        parts.append("draining")
    if one["parent"] is not None and one["substitutes"]:
        parts.append(f"then below {one['substitutes'][0]}")
    return f"{one['id']}  {', '.join(parts)}"
