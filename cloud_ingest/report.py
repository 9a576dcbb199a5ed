"""The fleet for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from cloud_ingest.fleet import FleetRow

_UNKNOWN = "?"
_Column = tuple[str, Callable[[FleetRow], str]]


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else _UNKNOWN


def _ms(value: float | None) -> str:
    return f"{value:.1f}" if value is not None else _UNKNOWN


_COLUMNS: tuple[_Column, ...] = (
    ("gateway", lambda g: g.gateway),
    ("domain", lambda g: g.domain or _UNKNOWN),
    ("group", lambda g: g.group or _UNKNOWN),
    ("boots", lambda g: str(len(g.boot_epochs))),
    ("messages", lambda g: str(g.messages)),
    ("logged", lambda g: str(g.logged)),
    ("gaps", lambda g: str(g.gaps)),
    ("duplicates", lambda g: str(g.duplicates)),
    ("undecodable", lambda g: str(g.undecodable)),
    ("first seen (UTC)", lambda g: _time(g.first_seen)),
    ("last seen (UTC)", lambda g: _time(g.last_seen)),
    ("accept ms mean", lambda g: _ms(g.accept_latency_mean_ms)),
    ("accept ms max", lambda g: _ms(g.accept_latency_max_ms)),
)


def totals(fleet: Sequence[FleetRow]) -> dict[str, int]:
    """Sums over the fleet: messages of clients, duplicates, gaps and undecodable payloads."""
    return {
        name: sum(getattr(gateway, name) for gateway in fleet)
        for name in ("messages", "duplicates", "gaps", "undecodable")
    }


def as_text(fleet: Sequence[FleetRow]) -> str:
    """A table with a line a gateway, then the totals; ends without a line feed."""
    if not fleet:
        return "no gateway has been heard yet"
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[_printable(show(gateway)) for _, show in _COLUMNS] for gateway in fleet]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines += [
        _printable(f"{gateway.gateway}: {gateway.member_error}")
        for gateway in fleet
        if gateway.member_error
    ]
    lines.append(", ".join(f"{count} {name}" for name, count in totals(fleet).items()))
    return "\n".join(lines)


def as_json(fleet: Sequence[FleetRow]) -> dict[str, Any]:
    """``gateways`` (rows of the fleet table, times as ISO 8601) and ``totals``."""
    rows = [
        {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in asdict(gateway).items()
        }
        for gateway in fleet
    ]
    return {"gateways": rows, "totals": totals(fleet)}


def _printable(text: str) -> str:
    """Without what a peer's name could do to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
