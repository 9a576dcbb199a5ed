"""An answer of the API, ready to be sent to whoever asks for it."""

from __future__ import annotations

import gzip
import hashlib
from typing import Any, Final, Self

import msgspec

from light_dataclasses import dataclass

ZIPPED_FROM_BYTES: Final = 1_400


@dataclass(frozen=True, slots=True)
class ReadyAnswer:
    """A document.

    Attributes:
        body: as it is, mostly JSON.
        zipped: the same in gzip; empty if it is too short for that.
        tag: changes with the document (RFC 9110, section 8.8.3).

    """

    body: bytes
    zipped: bytes
    tag: str

    @classmethod
    def of(cls, document: Any) -> Self:
        """Make it once, of lists, maps, texts and numbers; NaN becomes null."""
        return cls.of_bytes(msgspec.json.encode(document))

    @classmethod
    def of_bytes(cls, body: bytes) -> Self:
        """Make it once, of what is sent as it is."""
        zipped = gzip.compress(body, 5) if len(body) >= ZIPPED_FROM_BYTES else b""
        return cls(body, zipped, f'"{hashlib.sha256(body).hexdigest()[:24]}"')
