"""Filter of `reboot.yml`: whether a moment of a Pi's own clock is one at which it may reboot."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WINDOW = re.compile(
    r"(?:(?P<days>[A-Z][a-z]{2}(?:,[A-Z][a-z]{2})*) )?"
    r"(?P<from>(?:[01]\d|2[0-3]):[0-5]\d)-(?P<to>(?:[01]\d|2[0-3]):[0-5]\d)"
)


class FilterModule:
    """Called by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filter by the name that playbooks use."""
        return {"hedgerow_in_window": in_window}


def in_window(now: str, window: str) -> bool:
    """Return whether a moment is in the window.

    One that goes past midnight is of the day on which it begins.

    Args:
        now: day and time as ``date '+%a %H:%M'`` tells them in the C locale: ``Sat 02:13``.
        window: ``02:00-04:00``, or ``Sat,Sun 23:00-01:30``; empty for any moment.

    Raises:
        ValueError: the window is none, or it is empty of time.

    """
    if not window:
        return True
    found = _WINDOW.fullmatch(window)
    days = DAYS if found is None or found["days"] is None else tuple(found["days"].split(","))
    if found is None or found["from"] == found["to"] or not set(days) <= set(DAYS):
        raise ValueError(
            f"hedgerow_reboot_window is {window!r}: not HH:MM-HH:MM, or days before it, as in"
            " 'Sat,Sun 02:00-04:00'"
        )
    day, _, time = now.partition(" ")
    yesterday = DAYS[DAYS.index(day) - 1]
    if found["from"] < found["to"]:
        return day in days and found["from"] <= time < found["to"]
    # Times of one form are in the order of their texts.
    return (day in days and time >= found["from"]) or (yesterday in days and time < found["to"])
