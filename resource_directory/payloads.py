"""Payloads of registrations: parsed once for a kind of device, written once for many readers."""

from __future__ import annotations

from typing import Final

from resource_directory.link_format import WebLink, parse, serialise
from resource_directory.registration import Registration
from resource_directory.representation import Representation

PAYLOAD_BYTES: Final = 128 << 10
"""A registration's payload may have at least these, however few links it may have."""
LINK_BYTES: Final = 64
"""And so many for each of its links."""
PARSED_MAX: Final = 256
PARSED_BYTES: Final = 2_048
"""So many payloads, and of such a size, are remembered with their links."""
KEPT_MAX: Final = 64
KEPT_BYTES: Final = 16 << 10
"""So many, and of such a length, are kept."""


class ParsedPayloads:
    """Payloads that were read lately: devices of a kind send the same, and send it again.

    Args:
        links_max: in one of them.

    """

    def __init__(self, links_max: int) -> None:
        self._links_max = links_max
        self.bytes_max = max(PAYLOAD_BYTES, LINK_BYTES * links_max)
        """In one of them."""
        self._links: dict[bytes, tuple[WebLink, ...]] = {}

    def links(self, payload: bytes) -> tuple[WebLink, ...]:
        """Return the links of a payload.

        Raises:
            LinkFormatError: it is no link format, too long, or has too many.

        """
        found = self._links.get(payload)
        if found is None:
            found = tuple(parse(payload, max_bytes=self.bytes_max, max_links=self._links_max))
            if len(self._links) >= PARSED_MAX:
                self._links.clear()
            if len(payload) <= PARSED_BYTES:
                self._links[payload] = found
        return found


class ReadLately:
    """Puts a registration's links into link format, once while they stay what they are."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[WebLink, ...], Representation]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def links(self, registration: Registration) -> Representation:
        """Return the links of a registration, as its endpoint gave them."""
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
