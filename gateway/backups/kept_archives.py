"""Archives of a gateway at a place, in which order, and which of them may go; pure.

An archive's name says whose it is, its number, when it was by the gateway's clock, and its length::

    gw-south.000042.20261128T013000Z.1048576.tar.gz.age

The number says which is newer: a Pi without a clock may believe anything. The length says whether
it arrived whole, without its being opened, which the place can't do. What has another name is not
ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ENDING: Final = ".tar.gz.age"
PART: Final = ".part"
"""Ends the name of what is not whole yet."""
MAX_NUMBER: Final = 999_999_999
_FORM: Final = re.compile(
    r"(?P<gateway>[a-z0-9][a-z0-9-]{0,62})\.(?P<number>[0-9]{6,9})\.(?P<time>[0-9]{8}T[0-9]{6}Z)"
    r"\.(?P<size>[0-9]{1,15})\.tar\.gz\.age"
)


@dataclass(frozen=True, slots=True, order=True)
class KeptArchive:
    """An archive by its name; ordered from older to newer.

    Attributes:
        number: counts the gateway's archives in this place.
        time: when it was made, by the gateway's clock, as ``20261128T013000Z``.
        gateway: whose it is.
        size_bytes: how long it is if it is whole.

    """

    number: int
    time: str
    gateway: str
    size_bytes: int

    @property
    def name(self) -> str:
        """Return what it is called in its place."""
        return f"{self.gateway}.{self.number:06}.{self.time}.{self.size_bytes}{ENDING}"


def parsed(name: str) -> KeptArchive | None:
    """Return what a name says; None if it is no archive's."""
    if (found := _FORM.fullmatch(name)) is None:
        return None
    number, size_bytes = int(found["number"]), int(found["size"])
    archive = KeptArchive(number, found["time"], found["gateway"], size_bytes)
    return archive if archive.name == name else None


def whole(listed: Mapping[str, int], gateway: str) -> list[KeptArchive]:
    """Return a gateway's archives that have their whole length, from the newest to the oldest.

    Args:
        listed: what the place has, by name, and how many bytes of it.
        gateway: whose are sought.

    """
    found = (
        one
        for name, size_bytes in listed.items()
        if (one := parsed(name)) is not None
        and one.gateway == gateway
        and one.size_bytes == size_bytes
    )
    return sorted(found, reverse=True)


def next_number(listed: Mapping[str, int], gateway: str, known: int) -> int:
    """Return the number of the gateway's next archive: above all that it ever had, whole or not.

    Args:
        listed: as `whole`.
        gateway: as `whole`.
        known: the last one that the gateway itself remembers; 0 for none.

    Raises:
        OverflowError: there is none above.

    """
    names = (name.removesuffix(PART) for name in listed)
    archives = (one for name in names if (one := parsed(name)) is not None)
    number = max((one.number for one in archives if one.gateway == gateway), default=0)
    if (number := max(number, known) + 1) > MAX_NUMBER:
        raise OverflowError(f"no number is left behind {MAX_NUMBER} for {gateway}")
    return number


def outdated(listed: Mapping[str, int], newest: KeptArchive, kept: int) -> list[str]:
    """Return the names of what may go now that the newest one is whole, the oldest first.

    Those are the gateway's whole archives but for the newest ``kept``, and what is not whole; of
    both nothing that is newer than ``newest``.

    Args:
        listed: as `whole`, with the newest one.
        newest: the archive that has just been made.
        kept: so many stay; 0: all.

    """
    of_gateway = whole(listed, newest.gateway)
    if not kept or newest not in of_gateway:
        return []
    staying = {one.name for one in of_gateway[:kept]} | {newest.name}
    found = [
        (one, name)
        for name in listed
        if name not in staying
        and (one := parsed(name.removesuffix(PART))) is not None
        and one.gateway == newest.gateway
        and one < newest
    ]
    return [name for _, name in sorted(found)]
