"""Keys of a msgpack map that a later version of its form has added: kept, or refused.

A key that is unknown here is kept as it is. One that ends in ``_`` says that it must be understood,
and is refused (as RFC 8428, section 4.4).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

MUST_UNDERSTAND: Final = "_"
"""What such a key ends in."""
_SHOWN: Final = 40
"""Characters of a key in an error."""

_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


class LaterKeyError(ValueError):
    """A key must be understood and is not; the message names it."""


def later_keys(payload: bytes, known: Collection[str]) -> dict[str, Any]:
    """The keys of a map that are not among the known ones, with their values.

    Args:
        payload: the map.
        known: the keys of the version that is read here.

    Raises:
        LaterKeyError: one of them must be understood.
        msgspec.DecodeError: no msgpack map with texts as keys.

    """
    fields = _decoder.decode(payload)
    unknown = [key for key in fields if key not in known]
    for key in unknown:
        if key.endswith(MUST_UNDERSTAND):
            raise LaterKeyError(f"must be understood and is not - at `$.{key[:_SHOWN]}`")
    return {key: msgspec.msgpack.decode(fields[key]) for key in unknown}
