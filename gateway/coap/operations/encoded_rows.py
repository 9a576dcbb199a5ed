"""Rows of a resource that may have hundreds, as JSON: encoded in turns, not in one go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from gateway.base.in_turns import in_turns

_ascii: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


async def encoded_rows(
    rows: Iterable[Mapping[str, Any]],
    encode: Callable[[Mapping[str, Any]], bytes] = msgspec.json.encode,
) -> list[msgspec.Raw]:
    """Return each row as JSON, which a document that msgspec encodes has as it is.

    Args:
        rows: may be made while they are gone through.
        encode: encodes one.

    """
    return [msgspec.Raw(encode(row)) async for row in in_turns(rows)]


def in_ascii(row: Mapping[str, Any]) -> bytes:
    """Encode a row so that no terminal takes a part of it for an order.

    Raises:
        ValueError: a number in it is infinite or none: better an error than a document that
            readers refuse.

    """
    return _ascii.encode(row).encode()
