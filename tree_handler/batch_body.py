"""The messages in a batch's body, as they stand there (see `tree_handler.batch`).

Most have a topic, how it is delivered and a payload, and nothing else: a body of those alone is
decoded by its type in one step. Any other body is decoded as msgpack, and then looked at.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgpack
import msgspec

from tree_handler.entry import Row
from tree_handler.errors import BatchError
from tree_handler.unpacking import ElementCount, check_whole

MAX_ENTRIES: Final = 1_000
"""A batch is cut at so many messages."""
MAX_ARRAY: Final = 32_768
"""Items of one array in a body; user properties of earlier releases were up to 26,214."""
MAX_ELEMENTS: Final = 1 << 18
"""Of all arrays and maps in a body: a batch that is cut at `batch.MAX_BODY_BYTES` has an eighth of
that, for each property counts there as `entry.PROPERTY_BYTES`."""
UNCOUNTED_BYTES: Final = 64 * 1024
"""In a smaller body they are not counted: it can't have many."""

_DELIVERIES: Final = frozenset((0, 1, 2, 4, 5, 6))
"""QoS and RETAIN as they stand in a body: see `Entry.row`."""

_PLAIN: Final = Annotated[list[tuple[str, int, bytes]], msgspec.Meta(max_length=MAX_ENTRIES)]
_plain: Final = msgspec.msgpack.Decoder(_PLAIN)


def rows_of(body: memoryview) -> list[Row]:
    """Decode a body.

    Raises:
        BatchError: it is not what an origin makes.

    """
    found: list[Row]
    try:
        found = _plain.decode(body)
        is_wrong = any(row[1] not in _DELIVERIES for row in found)
    except (msgspec.MsgspecError, ValueError):  # text that is no UTF-8 is a ValueError
        found, is_wrong = _any_rows(body)
    if is_wrong:
        raise BatchError("batch entry", "a field of a wrong type")
    return found


def _any_rows(body: memoryview) -> tuple[list[Row], bool]:
    """Decode a body of messages of any form; and whether one of them is none."""
    try:
        count = ElementCount("batch", MAX_ELEMENTS) if len(body) > UNCOUNTED_BYTES else None
        check_whole(body)
        found: list[Row] = list(
            msgpack.unpackb(
                body,
                use_list=False,
                strict_map_key=False,
                list_hook=None if count is None else count.of_list,
                object_hook=None if count is None else count.of_map,
                max_array_len=MAX_ARRAY,
                max_map_len=256,
            )
        )
        is_wrong = any(
            type(row[0]) is not str
            or type(row[1]) is not int
            or row[1] not in _DELIVERIES
            or type(row[2]) is not bytes
            or (len(row) > 3 and type(row[3]) is not dict)
            or (len(row) > 4 and type(row[4]) is not bytes)
            for row in found
        )
    except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
        raise BatchError("batch body", str(error)) from error
    return found, is_wrong
