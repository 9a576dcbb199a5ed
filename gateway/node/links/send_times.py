"""Time at which a message was sent over a link, by what its ends know of each other's clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.node.links.link import Link
from gateway.node.links.wire import Additions
from tree_handler.errors import ProtocolError
from tree_handler.origin_clocks import OriginClocks

STAMP_BYTES: Final = 8


class SendTimes:
    """The links of one node.

    Args:
        links: those that are up, by number.
        clocks: what is known of clocks.
        now_us: this gateway's own.

    """

    def __init__(
        self, links: Mapping[int, Link], clocks: OriginClocks, now_us: Callable[[], int]
    ) -> None:
        self._links = links
        self._clocks = clocks
        self._now_us = now_us

    def stamp(self, link: int) -> bytes:
        """Return what a message is stamped with that is sent now; nothing for a neighbour that
        would not understand."""
        there = self._links.get(link)
        if there is None or not there.additions & Additions.CLOCKS:
            return b""
        return self._now_us().to_bytes(STAMP_BYTES, "big")

    def waited_s(self, link: int, stamp: bytes) -> float:
        """Return for how long a message has been under way since it was stamped, as far as is
        certain.

        Raises:
            ProtocolError: it is no stamp.

        """
        if len(stamp) != STAMP_BYTES:
            raise ProtocolError("time stamp of a message", stamp)
        there = self._links.get(link)
        if there is None:
            return 0.0
        stream = there.peer_id, there.peer_epoch
        stamp_us = int.from_bytes(stamp, "big")
        return self._clocks.waited_us(stream, stamp_us, self._now_us()) / 1_000_000
