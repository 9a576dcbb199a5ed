"""Keys of a msgpack map that a later version of its form has added: kept, or refused.

A key that is unknown here is kept as it is. One that ends in ``_`` says that it must be understood,
and is refused (as RFC 8428, section 4.4).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgpack
import msgspec

MUST_UNDERSTAND: Final = "_"
"""The end of such a key."""
_SHOWN: Final = 40
"""Characters of a key in an error."""

_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


class LaterKeyError(ValueError):
    """A key must be understood and is not; the message names it."""


class TwiceError(ValueError):
    """A map has a key twice: readers could take it for different things; the message names it."""


def later_keys(payload: bytes, known: Collection[str]) -> dict[str, Any]:
    """Return the keys of a map that are not among the known ones, with their values.

    Args:
        payload: the map.
        known: the keys of the version that is read here.

    Raises:
        LaterKeyError: one of them must be understood.
        TwiceError: the map, or one within it, has a key twice.
        ValueError: a value within it can't be read.
        msgspec.DecodeError: no msgpack map with texts as keys.

    """
    fields = _decoder.decode(payload)
    msgpack.unpackb(payload, object_pairs_hook=_unambiguous, use_list=False, strict_map_key=False)
    unknown = [key for key in fields if key not in known]
    for key in unknown:
        if key.endswith(MUST_UNDERSTAND):
            raise LaterKeyError(f"must be understood and is not - at `$.{key[:_SHOWN]}`")
    return {key: msgspec.msgpack.decode(fields[key]) for key in unknown}


def _unambiguous(pairs: list[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Return a map as its pairs, so that it may be a key, too."""
    keys = {(type(key), key) for key, _ in pairs}  # 1, 1.0 and true are three keys
    if len(keys) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for at, key in enumerate(names) if key in names[:at])
        raise TwiceError(f"{str(twice)[:_SHOWN]!r} stands twice in a map")
    return tuple(pairs)
