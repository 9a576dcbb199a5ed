"""Tells neighbours what this gateway knows of the clocks of origins; see `origin_clocks`."""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Final

import msgpack

from gateway.base.kept_file import KeptFile
from gateway.node.links.node import TreeNode
from gateway.node.links.wire import Additions
from tree_handler import origin_clocks
from tree_handler.batch import CONTROL_PREFIX, Epoch
from tree_handler.origin_clocks import KnownClock, OriginClocks, clock_of, life_of

FILE_NAME: Final = "clocks.msgpack"
"""In the state folder: what is known of origins' clocks."""
LOOK_S: Final = 300.0
"""So often it is looked at who knows something worse by now, and what can be forgotten."""
SETTLE_S: Final = 1.0
"""And so long after gateways came, left or moved."""
_VERSION: Final = 1
_CRC_BYTES: Final = 4
_WITHOUT: Final = "messages may expire late, until neighbours tell of clocks again"

_log = logging.getLogger(__name__)


class ClockPart:
    """A `Part` that tells neighbours of clocks, before any batch.

    Args:
        node: on whose links.
        clocks: what is known.
        now_us: this gateway's clock.
        file: where it is kept from life to life; None for nowhere.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((b"$hedgerow/clocks",))

    def __init__(
        self,
        node: TreeNode,
        clocks: OriginClocks,
        now_us: Callable[[], int],
        file: ClockFile | None,
    ) -> None:
        self._node = node
        self._clocks = clocks
        self._now_us = now_us
        self._file = file
        self._due = 0.0
        self._took_moves_at = -math.inf
        clocks.go_by(node.locator.way_to)
        node.locator.tell_of_moves(self._moved)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Exchange clocks with a neighbour that understands them."""
        there = self._node.links.get(link)
        if there is not None and there.additions & Additions.CLOCKS:
            self._clocks.link_up(link, (there.peer_id, there.peer_epoch))
            self._tell((link,))

    def link_down(self, link: int, now: float) -> None:
        """Exchange clocks with the neighbour no more."""
        self._clocks.link_down(link)

    def tree_changed(self, now: float) -> None:
        """Do nothing: the locator tells which gateways are reached."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take the clocks that a neighbour tells, and pass on what is news."""
        heard = self._clocks.heard(link, origin_clocks.unpack(payload), self._now_us())
        # At once: whoever gets a batch from here is to know by then.
        self._tell([one for one in self._clocks.links if one != link], heard)
        self._due = min(self._due, now + SETTLE_S)

    def next_timer(self) -> float:
        """Return when clocks are looked at again."""
        return self._due

    def handle_timer(self, now: float) -> None:
        """Forget clocks of lives that are gone, and save the others."""
        if now < self._due:
            return
        self._due = now + LOOK_S
        self._clocks.keep_only(self._may_come, self._now_us())
        self._take_moves(now)
        self.save()

    def save(self) -> None:
        """Keep what is known for the next life."""
        if self._file is not None and (known := self._clocks.save(self._now_us())):
            self._file.save(known)

    def _may_come(self, stream: Epoch) -> bool:
        """Return whether there may be messages of a life: it is there, or numbers of it are."""
        gateway_id, epoch = stream
        have = self._node.replication.have
        return (
            stream in have
            or (CONTROL_PREFIX + gateway_id, epoch) in have
            or self._node.locator.epoch_of(gateway_id) == epoch
        )

    def _moved(self, now: float) -> None:
        if now - self._took_moves_at >= SETTLE_S:
            self._take_moves(now)  # at once, as in `receive`
        self._due = min(self._due, now + SETTLE_S)
        self._node.reschedule()

    def _take_moves(self, now: float) -> None:
        self._took_moves_at = now
        self._clocks.moved(self._now_us())
        self._tell(self._clocks.links)

    def _tell(self, links: Iterable[int], of: Iterable[Epoch] | None = None) -> None:
        now_us = self._now_us()
        for link in links:
            for payload in origin_clocks.pack(self._clocks.news(link, now_us, of)):
                self._node.send(link, b"$hedgerow/clocks", payload)


class ClockFile:
    """The file that keeps the clocks of origins from life to life.

    Args:
        folder: where it is.
        own_id: whose it is.

    """

    def __init__(self, folder: Path, own_id: str) -> None:
        self._file = KeptFile(folder / FILE_NAME, _WITHOUT)
        self._own_id = own_id

    def take(self) -> list[KnownClock]:
        """Read what was known, and delete it: nothing if it is missing. A file that is damaged, or
        another gateway's, is set aside.

        It counts for the next life alone, and only if that one's clock goes on from this one's. A
        start that fails before it is written anew must not leave it to one after.
        """
        try:
            found = self._file.read(self._known) or []
            self._file.remove()
        except OSError as error:
            _log.error("%s: not usable, so messages may expire late: %s", self._file.path, error)
            return []
        return found

    def _known(self, data: bytes) -> list[KnownClock]:
        packed = data[_CRC_BYTES:]
        if data[:_CRC_BYTES] != zlib.crc32(packed).to_bytes(_CRC_BYTES, "big"):
            raise ValueError("damaged")
        version, own_id, rows = msgpack.unpackb(packed)
        if (version, own_id) != (_VERSION, self._own_id):
            raise ValueError(f"version {version} of {own_id}")
        return [
            (*life_of(gateway_id, epoch), clock_of(clock_us), clock_of(at_us))
            for gateway_id, epoch, clock_us, at_us in rows
        ]

    def save(self, known: list[KnownClock]) -> None:
        """Write what is known."""
        packed: bytes = msgpack.packb([_VERSION, self._own_id, known])
        data = zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") + packed
        try:
            self._file.write(data)
        except OSError as error:
            path = self._file.path
            _log.error("%s: not written, so messages may expire late: %s", path, error)
