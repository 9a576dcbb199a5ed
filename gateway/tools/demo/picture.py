"""A tree of gateways as lines of text, from what each says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.tools.demo.network import Statuses


def draw(statuses: Statuses) -> list[str]:
    """Return the tree from its root down, then the links that are blocked."""
    children: dict[str, list[str]] = {}
    for name, status in statuses.items():
        if status["parent"] is not None:
            children.setdefault(status["parent"], []).append(name)
        for neighbour in status["neighbours"]:  # a leaf that is no gateway answers no status
            if neighbour["id"] not in statuses and neighbour["forwarding"]:
                children.setdefault(name, []).append(neighbour["id"])
    lines: list[str] = []
    for root in (name for name, status in statuses.items() if status["parent"] is None):
        lines.append(_label(root, statuses))
        lines.extend(_below(root, "", children, statuses))
    return lines + [f"blocked: {one} - {other}" for one, other in blocked(statuses)]


def blocked(statuses: Statuses) -> list[tuple[str, str]]:
    """Return the pairs of gateways whose link the tree keeps in reserve."""
    return sorted(
        (name, neighbour["id"])
        for name, status in statuses.items()
        for neighbour in status["neighbours"]
        if neighbour["id"] in statuses and name < neighbour["id"] and not neighbour["forwarding"]
    )


def _below(
    name: str, indent: str, children: Mapping[str, list[str]], statuses: Statuses
) -> Iterator[str]:
    below = sorted(children.get(name, []))
    for child in below:
        last = child == below[-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{_label(child, statuses)}"
        yield from _below(child, indent + ("   " if last else "│  "), children, statuses)


def _label(name: str, statuses: Statuses) -> str:
    status = statuses.get(name)
    if status is None:
        return name
    place = f"{status['domain'] or '-'}/{status['group'] or '-'}"
    return f"{name}  ({place}, capability {status['capability']:g})"
