"""Filters of `reboot.yml` and `pull_timer.yml`: when a Pi may reboot, by its own clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_MINUTES = 24 * 60
WEEK_MINUTES = len(DAYS) * DAY_MINUTES
_WINDOW = re.compile(
    r"(?:(?P<days>[A-Z][a-z]{2}(?:,[A-Z][a-z]{2})*) )?"
    r"(?P<from>(?:[01]\d|2[0-3]):[0-5]\d)-(?P<to>(?:[01]\d|2[0-3]):[0-5]\d)"
)


class FilterModule:
    """Called by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that playbooks use."""
        return {"hedgerow_in_window": in_window, "hedgerow_reboot_turn": turn}


class Window(NamedTuple):
    """Times of a week; one that goes past midnight is of the day on which it begins.

    Attributes:
        days: on which it begins, 0 for Monday.
        begins: minute of the day.
        length: minutes, less than a day.

    """

    days: tuple[int, ...]
    begins: int
    length: int

    @classmethod
    def of(cls, text: str) -> Window:
        """Read ``02:00-04:00``, or ``Sat,Sun 23:00-01:30``.

        Raises:
            ValueError: the text is no window, or one that is empty of time.

        """
        found = _WINDOW.fullmatch(text)
        names = DAYS if found is None or found["days"] is None else found["days"].split(",")
        if found is None or found["from"] == found["to"] or not set(names) <= set(DAYS):
            raise ValueError(
                f"hedgerow_reboot_window is {text!r}: not HH:MM-HH:MM, or days before it, as in"
                " 'Sat,Sun 02:00-04:00'"
            )
        begins = _minute_of_day(found["from"])
        length = (_minute_of_day(found["to"]) - begins) % DAY_MINUTES
        return cls(tuple(sorted({DAYS.index(name) for name in names})), begins, length)

    def minutes(self) -> set[int]:
        """Return its minutes, counted from the begin of the week."""
        starts = [day * DAY_MINUTES + self.begins for day in self.days]
        return {
            (start + minute) % WEEK_MINUTES for start in starts for minute in range(self.length)
        }


def in_window(now: str, window: str) -> bool:
    """Return whether a moment is in the window.

    Args:
        now: day and time as ``date '+%a %H:%M'`` tells them in the C locale: ``Sat 02:13``.
        window: as `Window.of` reads it; empty for any moment.

    Raises:
        ValueError: the window is none, or it is empty of time.

    """
    if not window:
        return True
    day, _, time = now.partition(" ")
    minute = DAYS.index(day) * DAY_MINUTES + _minute_of_day(time)
    return minute in Window.of(window).minutes()


def turn(windows: Mapping[str, str], host: str, turn_minutes: int) -> str:
    """Return the moment at which one host may reboot by itself, which no other host has.

    The hosts of one window have turns in it, one after the other.

    Args:
        windows: by host, in the order in which they reboot; empty of one that does not do so.
        host: the one whose turn is asked for; it has a window.
        turn_minutes: the length of a turn, which a host has for itself.

    Returns:
        The moment as systemd's ``OnCalendar=`` takes it: ``Sat,Sun *-*-* 02:10:00``.

    Raises:
        ValueError: a window is none, two overlap that are not the same, or one is too short for
            all that share it.

    """
    read = {one: Window.of(text) for one, text in windows.items() if text}
    first_of: dict[Window, str] = {}
    for one, window in read.items():
        first_of.setdefault(window, one)
    for window, other in combinations(first_of, 2):
        if window.minutes() & other.minutes():
            one, two = first_of[window], first_of[other]
            raise ValueError(
                f"hedgerow_reboot_window {windows[one]!r} of {one} and {windows[two]!r} of {two}"
                " overlap, so both might reboot at once: give them the same one, or apart"
            )
    own = read[host]
    sharing = [one for one, window in read.items() if window == own]
    room = own.length // turn_minutes
    if room < len(sharing):
        raise ValueError(
            f"hedgerow_reboot_window {windows[host]!r} has room for {room} gateways, {turn_minutes}"
            f" minutes each, and {len(sharing)} share it: make it longer, or give groups windows"
            " of their own"
        )
    past, minute = divmod(own.begins + sharing.index(host) * turn_minutes, DAY_MINUTES)
    days = ",".join(DAYS[(day + past) % len(DAYS)] for day in own.days)
    return f"{days} *-*-* {minute // 60:02}:{minute % 60:02}:00"


def _minute_of_day(time: str) -> int:
    hours, _, minutes = time.partition(":")
    return int(hours) * 60 + int(minutes)
