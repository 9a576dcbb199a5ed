"""Registrations as they were read of late: who reads one, often reads it again."""

from __future__ import annotations

from resource_directory.link_format import WebLink
from resource_directory.registration import Registration

KEPT_MAX = 64
KEPT_CHARACTERS = 16 << 10
"""So many, and of such a length, are kept."""


class ReadLately:
    """Puts a registration's links into link format, once while they stay what they are."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[WebLink, ...], str]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def text(self, registration: Registration) -> str:
        """The links of a registration, as its endpoint gave them."""
        kept = self._kept.get(registration.location)
        # An update that changes links has a tuple of its own.
        if kept is not None and kept[0] is registration.links:
            return kept[1]
        text = ",".join(map(str, registration.links))
        if len(text) <= KEPT_CHARACTERS:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[registration.location] = (registration.links, text)
        return text
