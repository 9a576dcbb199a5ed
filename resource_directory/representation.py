"""Links as an answer carries them, with the tag that tells them from others."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

ETAG_BYTES: Final = 8


class Representation:
    """Some links.

    Args:
        text: as link format.

    Attributes:
        payload: the text in UTF-8.
        etag: of the payload (RFC 7252, section 5.10.6).

    """

    __slots__ = ("etag", "payload")

    def __init__(self, text: str) -> None:
        self.payload = text.encode()
        self.etag = blake2b(self.payload, digest_size=ETAG_BYTES).digest()
