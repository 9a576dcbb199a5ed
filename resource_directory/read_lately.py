"""Registrations as they were read of late: who reads one, often reads it again."""

from __future__ import annotations

from typing import Final

from resource_directory.link_format import WebLink, serialise
from resource_directory.registration import Registration
from resource_directory.representation import Representation

KEPT_MAX: Final = 64
KEPT_BYTES: Final = 16 << 10
"""So many, and of such a length, are kept."""


class ReadLately:
    """Puts a registration's links into link format, once while they stay what they are."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[WebLink, ...], Representation]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def links(self, registration: Registration) -> Representation:
        """The links of a registration, as its endpoint gave them."""
        kept = self._kept.get(registration.location)
        # An update that changes links has a tuple of its own.
        if kept is not None and kept[0] is registration.links:
            return kept[1]
        made = Representation(serialise(registration.links))
        if len(made.payload) <= KEPT_BYTES:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[registration.location] = (registration.links, made)
        return made
