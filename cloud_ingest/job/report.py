"""The fleet as the ledger knows it, for a terminal and as JSON: a row a gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cloud_ingest.ledger.number_ledger import NumberLedger, Stream
from cloud_ingest.spool.segments import SpoolSegment
from tree_handler.intervals import Intervals

_UNKNOWN = "?"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class FleetRow:
    """A gateway as its messages show it.

    Attributes:
        gateway: its id, as its messages are stamped.
        domain: from its member record; ``-`` at root level, None if unknown.
        group: as ``domain``.
        boot_epochs: the starts from which messages are in the spool.
        messages: messages of its clients, each once.
        logged: those of them that stood in its log before they were acknowledged.
        control: messages of its own to other gateways.
        undecodable: messages of its clients whose payload holds no reading.
        duplicates: copies in the spool beyond the first, control messages included.
        gaps: numbers of logged messages of its clients that are missing from 1 to the highest, over
            all boot epochs; those that were given up count.
        unsure: messages in quarantine since nobody knows whether telemetry has them.
        kept_local: numbers of logged messages of its clients that it keeps to itself, by its
            configuration.
        first_seen: the earliest origin time.
        last_seen: the latest origin time.
        accept_latency_mean_ms: from a reading to its acceptance at the origin, by the clocks of
            device and origin; None where no message has a device time. The way from there is
            not in the spool.
        accept_latency_max_ms: its maximum.
        member_error: why its member record can't be read, or None.

    """

    gateway: str
    domain: str | None = None
    group: str | None = None
    boot_epochs: list[int] = field(default_factory=list)
    messages: int = 0
    logged: int = 0
    control: int = 0
    undecodable: int = 0
    duplicates: int = 0
    gaps: int = 0
    kept_local: int = 0
    unsure: int = 0
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    accept_latency_mean_ms: float | None = None
    accept_latency_max_ms: float | None = None
    member_error: str | None = None


_COUNTED = ("messages", "logged", "control", "undecodable", "duplicates", "unsure")
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


def fleet_of(ledger: NumberLedger) -> list[FleetRow]:
    """Return the fleet, by domain, group and id; gateways without a place last."""
    rows: dict[str, FleetRow] = {}
    everything = ledger.all
    for name, totals_ in everything.totals.items():
        row = rows[name] = FleetRow(name)
        for counted in _COUNTED:
            setattr(row, counted, getattr(totals_, counted))
        row.gaps = totals_.given_up
        row.first_seen, row.last_seen = _moment(totals_.first_us), _moment(totals_.last_us)
        count = totals_.latency_count
        row.accept_latency_mean_ms = totals_.latency_sum_ms / count if count else None
        row.accept_latency_max_ms = totals_.latency_max_ms
    for stream in everything.seen.keys() | everything.kept_local.keys():
        _add_stream(rows.setdefault(stream.origin, FleetRow(stream.origin)), ledger, stream)
    for name, told in everything.places.items():
        row = rows.setdefault(name, FleetRow(name))
        row.member_error = told.error
        if told.error is None:
            row.domain, row.group = told.domain, told.group
    for row in rows.values():
        row.boot_epochs.sort()
    return sorted(rows.values(), key=lambda g: (g.domain is None, g.domain, g.group, g.gateway))


def _add_stream(row: FleetRow, ledger: NumberLedger, stream: Stream) -> None:
    if stream.epoch not in row.boot_epochs:
        row.boot_epochs.append(stream.epoch)
    if stream.control or not stream.logged:
        return
    seen = ledger.all.seen.get(stream, Intervals())
    kept = ledger.all.kept_local.get(stream, Intervals()).without(seen)
    row.kept_local += kept.count()
    floor = ledger.floor(stream) or 0
    row.gaps += max(seen.last, kept.last, floor) - floor - seen.count() - kept.count()


def _moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else _EPOCH + timedelta(microseconds=time_us)


def totals(fleet: Sequence[FleetRow]) -> dict[str, int]:
    """Return sums over the fleet: messages of clients, duplicates, gaps and undecodable
    payloads."""
    return {
        name: sum(getattr(gateway, name) for gateway in fleet)
        for name in ("messages", "duplicates", "gaps", "undecodable")
    }


def as_text(fleet: Sequence[FleetRow], set_aside: Mapping[str, int] = {}) -> str:
    """Return a table with a line a gateway, then the totals; ends without a line feed.

    Args:
        fleet: a row a gateway.
        set_aside: what this run has set aside, by what it is.

    """
    aside = ", ".join(f"{count} {name}" for name, count in set_aside.items())
    last = f"\nset aside in this run: {aside}" if aside else ""
    return f"{_table(fleet)}{last}"


def _table(fleet: Sequence[FleetRow]) -> str:
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


def as_json(fleet: Sequence[FleetRow], set_aside: Mapping[str, int] = {}) -> dict[str, Any]:
    """``gateways`` (rows of the fleet table, times as ISO 8601), ``totals`` and ``set_aside``."""
    rows = [
        {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in asdict(gateway).items()
        }
        for gateway in fleet
    ]
    return {"gateways": rows, "totals": totals(fleet), "set_aside": dict(set_aside)}


def _printable(text: str) -> str:
    """Return a text without what a peer's name could do to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def spool_text(readable: Sequence[SpoolSegment]) -> str:
    """Say how much there is to read; and what was trimmed, since its numbers may look like gaps."""
    if not readable:
        return "nothing to read yet"
    total = sum(segment.length for segment in readable)
    trimmed = readable[0].start
    return f"{total} bytes in {len(readable)} segment(s)" + (
        f"; {trimmed} bytes before them were trimmed: what no table has of them counts as gaps"
        if trimmed
        else ""
    )
