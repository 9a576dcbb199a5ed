"""Carries messages for one gateway alone over a node's links; see `tree_handler.routing.direct`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from gateway.node.links.link import Link
from gateway.node.links.locator_part import LocatorPart
from tree_handler.routing.direct import Direct, DirectCounters

_TO: Final = b"$hedgerow/to"
QUEUED_BYTES_MAX: Final = 4 << 20
"""A link on which more waits is given nothing: whoever waits for it asks again."""

Receive = Callable[[str, bytes, int], None]
"""Takes the topic of a message, what it says, and how many gateways have passed it on."""


class DirectPart:
    """Messages for one gateway alone; a `Part`.

    Attributes:
        epoch_of: see `LocatorPart`.
        tell_of_moves: see `LocatorPart`.
        way_to: see `LocatorPart`.

    Args:
        own_id: the node's gateway.
        locator: knows where the others are, and in which life.
        links: that are up, by number.
        flood: sends a message to all, for whose receiver no link is known.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((_TO,))

    def __init__(
        self,
        own_id: str,
        locator: LocatorPart,
        links: Mapping[int, Link],
        flood: Callable[[str, bytes], None],
    ) -> None:
        self._core = Direct(own_id, locator.locator)
        self.epoch_of = locator.epoch_of
        self.tell_of_moves = locator.tell_of_moves
        self.way_to = locator.way_to
        self._links = links
        self._flood = flood
        self._receive: Receive | None = None

    @property
    def counters(self) -> DirectCounters:
        """Return the counts of messages for one gateway alone."""
        return self._core.counters

    def hand_to(self, receive: Receive) -> None:
        """From now on give messages for this gateway to somebody; without they are passed over."""
        self._receive = receive

    def send(self, receiver: str, topic: str, payload: bytes) -> None:
        """Send a message to one gateway; to all if it is not known where that is."""
        found = self._core.send(receiver, topic, payload)
        if found is None:
            self._flood(topic, payload)
        else:
            self._put(*found)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing: the locator knows the links."""

    def link_down(self, link: int, now: float) -> None:
        """Do nothing: the locator knows the links."""

    def tree_changed(self, now: float) -> None:
        """Do nothing: the locator knows the ways."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take a message for this gateway, or pass it on."""
        found = self._core.receive(link, payload)
        if found is None:
            return
        if isinstance(found, tuple):
            self._put(*found)
        elif self._receive is not None:
            self._receive(found.topic, found.payload, found.gateways_on_the_way)

    def next_timer(self) -> float:
        """Return infinity: nothing is due by time."""
        return math.inf

    def handle_timer(self, now: float) -> None:
        """Do nothing."""

    def _put(self, link: int, data: bytes) -> None:
        there = self._links.get(link)
        if there is None or there.queued_bytes > QUEUED_BYTES_MAX:
            self._core.counters.dropped += 1
        else:
            there.send_control(_TO, data)
