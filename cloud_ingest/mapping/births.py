"""Births of Sparkplug B: a name and a type for each of their aliases (3.0.0, 6.4.6).

A birth counts for the messages behind it. The aliases of a node and of each of its devices are kept
by the gateway that the birth came through, so nobody else's births name another's metrics. Their
number has limits: what was born longest ago goes first.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgpack

MAX_OF_PLACE: Final = 4
"""Births of a node or device that differ and are remembered."""
MAX_ALIASES_OF_ORIGIN: Final = 20_000
MAX_ALIASES: Final = 500_000
"""Over all gateways; beyond it the one that has most gives way."""

Alias = tuple[str, int]
"""A metric's name, and its datatype; 0 if its birth says none."""


class MessageStamp(NamedTuple):
    """The position of a message among others.

    Attributes:
        origin: the gateway that accepted it.
        collected_us: when the collector had it, microseconds since 1970.
        sequence: its number.

    """

    origin: str
    collected_us: int
    sequence: int


class Birth(NamedTuple):
    """A birth.

    Attributes:
        place: group, node and device, with slashes between.
        sender: of the message.
        aliases: what each stands for.

    """

    place: str
    sender: MessageStamp
    aliases: Mapping[int, Alias]


_Kept = tuple[tuple[int, int], dict[int, Alias]]


class Births:
    """The births that are remembered."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, list[_Kept]]] = {}
        """By origin and place; the place that was born last is the last."""
        self._sizes: dict[str, int] = {}

    def take(self, births: Iterable[Birth]) -> bool:
        """Remember births; return whether one said something new."""
        is_new = False
        for each in sorted(births, key=lambda one: (one.sender, one.place)):
            is_new |= self._take(each)
        return is_new

    def find(self, sender: MessageStamp, place: str, alias: int) -> Alias | None:
        """Return what an alias stands for in a message; None if no birth before it is known."""
        kept = self._of.get(sender.origin, {}).get(place, ())
        at = bisect_right(kept, (sender.collected_us, sender.sequence), key=_stamp)
        return kept[at - 1][1].get(alias) if at else None

    def forget(self, origin: str) -> None:
        """Remember nothing of a gateway."""
        self._of.pop(origin, None)
        self._sizes.pop(origin, None)

    def pack(self) -> bytes:
        """Return all of it, for a file."""
        packed: bytes = msgpack.packb(self._of)
        return packed

    @classmethod
    def unpack(cls, data: bytes) -> Births:
        """Read what `pack` made.

        Raises:
            ValueError, TypeError, LookupError, AttributeError: it is something else.

        """
        made = cls()
        made.take(_births(msgpack.unpackb(data, strict_map_key=False)))
        return made

    def _take(self, birth: Birth) -> bool:
        origin = birth.sender.origin
        places = self._of.setdefault(origin, {})
        kept = places.pop(birth.place, [])
        places[birth.place] = kept
        stamp = birth.sender[1:]
        aliases = dict(birth.aliases)
        at = bisect_right(kept, stamp, key=_stamp)
        if at and kept[at - 1][1] == aliases:
            return False
        insort(kept, (stamp, aliases), key=_stamp)
        self._resize(origin, len(aliases) + 1)
        while len(kept) > MAX_OF_PLACE:
            self._resize(origin, -1 - len(kept.pop(0)[1]))
        while self._sizes[origin] > MAX_ALIASES_OF_ORIGIN:
            self._drop_oldest(origin)
        while sum(self._sizes.values()) > MAX_ALIASES:
            self._drop_oldest(max(self._sizes, key=lambda each: self._sizes[each]))
        return True

    def _drop_oldest(self, origin: str) -> None:
        places = self._of[origin]
        oldest = next(iter(places))
        for _, aliases in places.pop(oldest):
            self._resize(origin, -1 - len(aliases))

    def _resize(self, origin: str, by: int) -> None:
        self._sizes[origin] = self._sizes.get(origin, 0) + by


def _stamp(kept: _Kept) -> tuple[int, int]:
    return kept[0]


def _births(plain: Mapping[str, Mapping[str, Any]]) -> Iterator[Birth]:
    for origin, places in plain.items():
        for place, kept in places.items():
            for (collected_us, sequence), aliases in kept:
                named = {alias: (name, kind) for alias, (name, kind) in aliases.items()}
                yield Birth(place, MessageStamp(origin, collected_us, sequence), named)
