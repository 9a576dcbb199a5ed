"""A message that came to a gateway for members that it has no more, and is handed on to another.

Only its holder does that, so it still has one holder at a time. It goes as a logged message between
gateways, and so reaches the next holder once, however the tree changes.
"""

from __future__ import annotations

from typing import Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import MAX_ARRAY, MAX_FRAME_BYTES, Entry
from tree_handler.errors import ProtocolError
from tree_handler.holders import SharedGroup
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

TOPIC: Final = "$hedgerow/handed-on/"
"""It travels on this and the id of the next holder."""
HOPS_MAX: Final = 4
"""It is handed on so often at most: where members come and go faster than they are told of."""
SIZE: Final = MessageSize(MAX_FRAME_BYTES, 4 * MAX_ARRAY + 4 * LATER_ELEMENTS, MAX_ARRAY)
"""User properties are a list of pairs (`tree_handler.batch_body.MAX_ARRAY`)."""


@dataclass(frozen=True, slots=True)
class HandedOn:
    """A message that is handed on to another gateway's members of a shared subscription.

    Attributes:
        group: of whose members one gets it.
        hops: how often it was handed on, this time included.
        entry: the message, of QoS 1 or 2.

    """

    group: SharedGroup
    hops: int
    entry: Entry

    def encode(self) -> bytes:
        """Return the wire form."""
        entry = self.entry
        said = (*self.group, self.hops, entry.topic, entry.qos, entry.payload, entry.properties)
        packed: bytes = msgpack.packb(said)
        return packed

    @classmethod
    def decode(cls, data: bytes) -> HandedOn:
        """Read the wire form; what stands behind the properties is for later versions.

        Raises:
            ProtocolError: it is none; the message names what is wrong.

        """
        said = unpack("message handed on", data, SIZE, tuples=True, strict_keys=False)
        match said:
            case (
                str(share),
                str(topic_filter),
                int(hops),
                str(topic),
                1 | 2 as qos,
                bytes(payload),
                dict(properties),
                *_,
            ) if 0 < hops <= HOPS_MAX:
                entry = Entry(topic, payload, qos, properties=properties)
                return cls((share, topic_filter), hops, entry)
        raise ProtocolError("message handed on", said)
