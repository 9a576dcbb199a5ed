"""Messages for one gateway alone, over the links that lead to it (sans-I/O).

Each gateway on the way passes such a message on over the link behind which its receiver is, as the
locator says. It is kept nowhere: what is lost is missed by who waits for it. While the tree changes
two gateways may point at each other; a message never goes back over the link that it came by, and
counts down how far it may still go.
"""

from __future__ import annotations

from typing import Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name
from tree_handler.routing.locator import Locator
from tree_handler.unpacking import MessageSize, unpack

HOPS: Final = 64
"""So many links a message may go over; no tree of ours is as deep."""
MAX_TOPIC_CHARACTERS: Final = 128
SIZE: Final = MessageSize(128 * 1024, 8, 8)
"""Requests and answers, which are smaller, are all that is sent so."""


@dataclass(frozen=True, slots=True)
class DirectMessage:
    """A message on its way.

    Attributes:
        receiver: id of the gateway that it is for.
        hops: links that it may still go over.
        topic: says what it is about.
        payload: what it says.

    """

    receiver: str
    hops: int
    topic: str
    payload: bytes

    @property
    def gateways_on_the_way(self) -> int:
        """Return how many have passed it on."""
        return HOPS - self.hops

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb([self.receiver, self.hops, self.topic, self.payload])
        return packed

    @classmethod
    def decode(cls, data: bytes) -> DirectMessage:
        """Read the wire form.

        Raises:
            ProtocolError: not such a message, or over a limit.

        """
        row = unpack("message for one gateway", data, SIZE)
        match row:
            case [receiver, int(hops), str(topic), bytes(payload)] if (
                0 <= hops <= HOPS and 0 < len(topic) <= MAX_TOPIC_CHARACTERS
            ):
                return cls(check_name("receiver of a message", receiver), hops, topic, payload)
        raise ProtocolError("message for one gateway", row)


@dataclass(slots=True)
class DirectCounters:
    """Counts of messages for one gateway alone."""

    sent: int = 0
    passed_on: int = 0
    flooded: int = 0
    dropped: int = 0


class Direct:
    """A router of messages for one gateway alone.

    Args:
        own_id: this gateway.
        locator: knows where the others are.

    """

    def __init__(self, own_id: str, locator: Locator) -> None:
        self._own_id = own_id
        self._locator = locator
        self.counters = DirectCounters()

    def send(self, receiver: str, topic: str, payload: bytes) -> tuple[int, bytes] | None:
        """Send a message of this gateway's: the link and what to send; None if no link is known."""
        link = self._locator.link_of(receiver)
        if link is None:
            self.counters.flooded += 1
            return None
        self.counters.sent += 1
        return link, DirectMessage(receiver, HOPS, topic, payload).encode()

    def receive(self, link: int, data: bytes) -> DirectMessage | tuple[int, bytes] | None:
        """Take what came over a link.

        Returns:
            The message, if it is for this gateway; else the link and what to send on; None if it
            can't be.

        Raises:
            ProtocolError: the neighbour is broken.

        """
        came = DirectMessage.decode(data)
        if came.receiver == self._own_id:
            return came
        onward = self._locator.link_of(came.receiver)
        if onward is None or onward == link or came.hops <= 1:
            self.counters.dropped += 1
            return None
        self.counters.passed_on += 1
        return onward, DirectMessage(
            came.receiver, came.hops - 1, came.topic, came.payload
        ).encode()
