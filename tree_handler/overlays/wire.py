"""The control message by which two neighbours tell each other of all their overlays.

Everything that is due for a link at one instant goes out together, so the HELLOs of many overlays
are one packet. The body is a msgpack array: the version, then four fields for each `Item` in
turn: overlay, own session, peer session, list of BPDUs.

A *session* is what a connection is to the common tree: it begins when both ends run the overlay
on a link and ends when either stops. Each end names its side of it by a number that it never
uses again while the process runs. So a BPDU of an earlier session can't be taken for one of
the present.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgpack

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.overlays.plan import ID_BYTES
from tree_handler.spanning.bpdu import MAX_NUMBER
from tree_handler.unpacking import MessageSize, unpack

VERSION = 1
MAX_BYTES = 64 * 1024
"""A message is cut at so many bytes of BPDUs."""
MAX_MESSAGE_BYTES = 2 * MAX_BYTES
MAX_BPDUS = 64
_LIST_MAX = MAX_MESSAGE_BYTES // 4
"""An item is an id of `ID_BYTES` and three more, and of no BPDU less than three bytes stands."""
SIZE = MessageSize(MAX_MESSAGE_BYTES, 2 * _LIST_MAX, _LIST_MAX)
"""Of one overlay in one message."""
_FIELDS = 4
_OVERHEAD_BYTES = 40
"""At most: the fields of an item other than its BPDUs."""


@dataclass(slots=True)
class Item:
    """A message's item about one overlay.

    Attributes:
        overlay: its id.
        own: the sender's session; 0 says that the sender does not run the overlay any more.
        peer: the receiver's session as far as the sender knows it, 0 if it knows none.
        bpdus: encoded, in their order; none in a greeting.

    """

    overlay: bytes
    own: int
    peer: int
    bpdus: list[bytes]

    @property
    def size(self) -> int:
        """Bytes on the wire, at most."""
        return _OVERHEAD_BYTES + sum(len(bpdu) + 3 for bpdu in self.bpdus)


def encode(items: Iterable[Item]) -> Iterator[bytes]:
    """Yield the messages that carry these items, one if they fit."""
    fields: list[object] = [VERSION]
    size = 0
    for item in items:
        if len(fields) > 1 and size + item.size > MAX_BYTES:
            yield msgpack.packb(fields)
            fields, size = [VERSION], 0
        fields += (item.overlay, item.own, item.peer, item.bpdus)
        size += item.size
    if len(fields) > 1:
        yield msgpack.packb(fields)


def decode(message: bytes) -> list[Item]:
    """Read a message; the BPDUs in it are not looked at.

    Raises:
        ProtocolError: not msgpack, another version, or a field out of bounds; it is named.

    """
    fields = unpack("overlay message", message, SIZE)
    if not isinstance(fields, list) or not fields:
        raise ProtocolError("overlay message is not an array", type(fields).__name__)
    if type(fields[0]) is not int or fields[0] != VERSION:
        raise ProtocolError("overlay message version", fields[0])
    if len(fields) % _FIELDS != 1:
        raise ProtocolError("overlay message fields", len(fields))
    return [_item(*fields[i : i + _FIELDS]) for i in range(1, len(fields), _FIELDS)]


def _item(overlay: object, own: object, peer: object, bpdus: object) -> Item:
    if not isinstance(overlay, bytes) or len(overlay) != ID_BYTES:
        raise ProtocolError("overlay id", overlay)
    if not isinstance(bpdus, list) or len(bpdus) > MAX_BPDUS:
        raise ProtocolError("overlay BPDUs", bpdus)
    for bpdu in bpdus:
        if not isinstance(bpdu, bytes):
            raise ProtocolError("overlay BPDU", bpdu)
    return Item(overlay, _session("own", own), _session("peer", peer), bpdus)


def _session(which: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        raise ProtocolError(f"overlay session, {which}", value)
    return value
