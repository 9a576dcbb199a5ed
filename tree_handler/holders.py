"""The gateways whose members get a message, as its row tells of shared subscriptions.

The gateway that accepts a message names, for each shared subscription whose member elsewhere is to
get it, the gateway of that member: the *holder*. It stands in the row behind the origin's clock,
where earlier releases do not look, so it is logged, sealed and sent with the message and can never
differ between two gateways. A shared subscription that is not named stays with the origin's own
members.
"""

from __future__ import annotations

from typing import Any, Final

SharedGroup = tuple[str, str]
"""A shared subscription: its share name and its filter (MQTT 5.0, section 4.8.2)."""
Holder = tuple[str, str, str]
"""Share name, filter, and the id of the gateway whose members alone get the message; no id, which
never stands in a row, for the gateway that accepts it."""
Holders = tuple[Holder, ...]

MAX_HOLDERS: Final = 128
"""Shared subscriptions that one message can name."""
PLACE: Final = 6
"""Of the holders in a row."""


def holders_of(row: tuple[Any, ...]) -> Holders:
    """Return what a row says; nothing if it is not of this form."""
    said = row[PLACE] if len(row) > PLACE else ()
    if type(said) not in (tuple, list) or len(said) > MAX_HOLDERS:
        return ()
    found = tuple(tuple(one) for one in said if type(one) in (tuple, list))
    if any(
        len(one) != 3 or any(type(text) is not str or not text for text in one) for one in found
    ):
        return ()
    return found


def with_holders(row: tuple[Any, ...], holders: Holders) -> tuple[Any, ...]:
    """Return a row that says which other gateways' members get the message; the row itself if
    there are none."""
    named = tuple(one for one in holders if one[2]) if holders else holders
    if not named:
        return row
    filled = (*row, *({}, b"", 0)[len(row) - 3 :])
    return (*filled[:PLACE], named)


def holders_size(row: tuple[Any, ...]) -> int:
    """Return how many characters the holders of a row take, which `with_holders` made."""
    return sum(len(text) for holder in row[PLACE] for text in holder)
