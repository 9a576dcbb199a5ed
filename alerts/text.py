"""Alerts as a person reads them. Pure: what other machines said holds no control characters."""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from alerts.record import AlertRecord

_MAX_TITLE: Final = 160


def title(records: Sequence[AlertRecord]) -> str:
    """Return one line about records of a site."""
    if len(records) == 1:
        (one,) = records
        about = f"{one.gateway}, {one.part}" if one.part else one.gateway
        return plain(f"{one.change}: {one.rule} ({one.severity}): {about}")[:_MAX_TITLE]
    counts = Counter(one.change for one in records)
    told = ", ".join(f"{count} {change}" for change, count in counts.items())
    sites = {one.site.strip("/") for one in records}
    at = (
        f" at {len(sites)} sites"
        if len(sites) > 1
        else "".join(f" at {one}" for one in sites if one)
    )
    return plain(f"{len(records)} alerts{at}: {told}")[:_MAX_TITLE]


def body(records: Sequence[AlertRecord], link: Callable[[AlertRecord], str] | None = None) -> str:
    """Return a paragraph for each record.

    Args:
        records: some.
        link: gives that by which an alert is taken on; None where there is none.

    """
    return "\n\n".join(_paragraph(one, link) for one in records) + "\n"


def batch_id(records: Sequence[AlertRecord]) -> str:
    """Return a name of these records: the same ones have the same."""
    names = "\n".join(one.delivery_id for one in records)
    return hashlib.sha256(names.encode()).hexdigest()[:32]


def stamp(at_us: int) -> str:
    """Return a time as RFC 3339 has it, in UTC."""
    try:
        at = datetime.datetime.fromtimestamp(at_us / 1e6, datetime.UTC)
    except (ValueError, OverflowError, OSError):  # a clock beyond the calendar
        at = datetime.datetime.fromtimestamp(0, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def plain(text: str) -> str:
    """Return a text without what a terminal or a header would obey."""
    return "".join(char if char.isprintable() else " " for char in text)


def is_urgent(records: Sequence[AlertRecord]) -> bool:
    """Return whether any of them is critical, and not over."""
    return any(one.severity == "critical" and one.change != "cleared" for one in records)


def _paragraph(one: AlertRecord, link: Callable[[AlertRecord], str] | None) -> str:
    about = f"{one.gateway}, {one.part}" if one.part else one.gateway
    lines = [
        plain(f"{one.change.upper()}  {one.rule} ({one.severity}): {about}"),
        plain(f"  {one.message}"),
        f"  since {stamp(one.since_us)}"
        + (f", over at {stamp(one.at_us)}" if one.change == "cleared" else ""),
    ]
    if one.change != "cleared":
        lines.append(plain(f"  what to do: {one.what_to_do}"))
        if link is not None:
            lines.append(f"  take it on: {link(one)}")
        lines.append(plain(f"  take it on: hedgerow alerts ack '{one.alert}'"))
    return "\n".join(lines)
