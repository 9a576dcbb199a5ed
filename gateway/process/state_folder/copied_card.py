"""Tells a gateway that another one runs under its id, which its neighbours keep out of the tree.

Who keeps a newcomer out says so to all in the tree (`$hedgerow/second/ID`, QoS 0: a matter of the
moment), and the member logs it: once, and again every ten minutes while it lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgpack

from tree_handler.batch import Entry, Header
from tree_handler.errors import ProtocolError
from tree_handler.rate_limit import RateLimit
from tree_handler.unpacking import MessageSize, unpack

TOPIC = "$hedgerow/second/"
AGAIN_S = 600.0
SIZE = MessageSize(64, 8, 8)

_log = logging.getLogger(__name__)


class CopiedCard:
    """A detector of gateways that share an id, by what one gateway says and hears.

    Args:
        own_id: its id.
        epoch: its boot epoch.
        publish: sends a control message, by topic and payload, to all gateways.

    """

    def __init__(self, own_id: str, epoch: int, publish: Callable[[str, bytes], None]) -> None:
        self._own = (own_id, epoch)
        self._publish = publish
        self._now = asyncio.get_running_loop().time
        self._told = RateLimit(1 / AGAIN_S, 1)
        self._said = RateLimit(1 / AGAIN_S, 1)

    def kept_out(self, gateway_id: str, epoch: int) -> None:
        """A life of a gateway gets no link here, since another one of it is a member."""
        if self._told.allow(gateway_id, self._now()):
            self._publish(TOPIC + gateway_id, msgpack.packb(epoch))

    def receive(self, entry: Entry, header: Header) -> None:
        """Take a control message; other topics are not this module's."""
        own_id, own_epoch = self._own
        if entry.topic != TOPIC + own_id:
            return
        epoch = _epoch(entry.payload)
        if epoch not in (None, own_epoch) and self._said.allow("", self._now()):
            _log.warning(
                "%s keeps out another gateway under the id of this one (boot %s): a copied card?",
                header.origin,
                epoch,
            )


def _epoch(payload: bytes) -> int | None:
    try:
        epoch = unpack("life that is kept out", payload, SIZE)
    except ProtocolError:
        return None
    return epoch if type(epoch) is int else None
