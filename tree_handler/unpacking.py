"""Unpacks what another gateway packed, of which each kind of message has a size.

msgpack makes an object of each byte if the sender likes, and an empty list of one byte takes 56.
So each kind says how many bytes and how many elements an honest message has at most. Elements are
counted while they are made, and what has more is given up there.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import msgpack
import msgspec

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError

_WALKER: Final = msgspec.msgpack.Decoder(msgspec.Raw)
LATER_ELEMENTS: Final = 256
"""The most elements that a later release may add to a message beside those that this one knows."""


@dataclass(frozen=True, slots=True)
class MessageSize:
    """The limits of a message's size, for one kind of message.

    Attributes:
        bytes_max: of it, packed.
        elements_max: of all its lists and maps together; a key and its value are two.
        list_max: elements of one list.

    """

    bytes_max: int
    elements_max: int
    list_max: int


class ElementCount:
    """Counts elements while msgpack makes them; an instance is for one message.

    Args:
        what: the kind of message.
        elements_max: more are refused.

    """

    __slots__ = ("_elements_max", "_left", "_what")

    def __init__(self, what: str, elements_max: int) -> None:
        self._what = what
        self._elements_max = elements_max
        self._left = elements_max

    def of_list(self, made: Any) -> Any:
        """Take a list or a tuple that was made."""
        self._left -= len(made) + 1
        return made if self._left >= 0 else self._refuse()

    def of_map(self, made: Any) -> Any:
        """Take a map that was made."""
        self._left -= 2 * len(made) + 1
        return made if self._left >= 0 else self._refuse()

    def _refuse(self) -> NoReturn:
        raise ProtocolError(f"{self._what}, elements over {self._elements_max}")


def unpack(
    what: str, data: bytes, size: MessageSize, *, tuples: bool = False, strict_keys: bool = True
) -> Any:
    """Read msgpack.

    Args:
        what: the kind of message, as errors name it.
        data: it.
        size: what is over it is refused.
        tuples: make tuples in the place of lists.
        strict_keys: the keys of maps are texts or bytes.

    Raises:
        ProtocolError: it is no msgpack, or over its size.

    """
    if len(data) > size.bytes_max:
        raise ProtocolError(f"{what} too large, bytes over {size.bytes_max}", len(data))
    count = ElementCount(what, size.elements_max)
    try:
        check_whole(data)
        return msgpack.unpackb(
            data,
            use_list=not tuples,
            strict_map_key=strict_keys,
            list_hook=count.of_list,
            object_hook=count.of_map,
            max_array_len=size.list_max,
            max_map_len=size.list_max,
        )
    except ProtocolError:
        raise
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(what, data[:64]) from error


def unpack_head(what: str, data: bytes, size: MessageSize) -> tuple[Any, int]:
    """Read the msgpack that other bytes may follow, with tuples; return it and where it ends.

    Raises:
        ProtocolError: as for `unpack`.

    """
    unpacker = msgpack.Unpacker(max_buffer_size=len(data) or 1)
    unpacker.feed(data)
    try:
        unpacker.skip()
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(what, data[:64]) from error
    end = unpacker.tell()
    return unpack(what, data[:end], size, tuples=True), end


def check_whole(data: bytes | memoryview) -> None:
    """Look whether each list and map has as many elements as it says, and make none of them.

    msgpack takes memory for a list as soon as it says how long it is: a thousand lists in each
    other, of a few bytes each, would take some hundred mebibytes.

    Raises:
        ValueError: one has fewer, they are nested hundreds deep, or other bytes follow.

    """
    try:
        _WALKER.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
