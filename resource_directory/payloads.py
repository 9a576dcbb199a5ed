"""The links of registrations' payloads, read once for devices of a kind."""

from __future__ import annotations

from typing import Final

from resource_directory.link_format import WebLink, parse

PAYLOAD_BYTES: Final = 128 << 10
"""A registration's payload may have at least these, however few links it may have."""
LINK_BYTES: Final = 64
"""And so many for each of its links."""
PARSED_MAX: Final = 256
PARSED_BYTES: Final = 2_048
"""So many payloads, and of such a size, are remembered with their links."""


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
        """The links of a payload.

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
