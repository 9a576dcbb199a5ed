"""Retained messages on the links of a node: carries out what `retained.sync` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from gateway.node.links.node import TreeNode
from gateway.node.links.send_times import STAMP_BYTES, SendTimes
from tree_handler.retained.sync import RetainedSync
from tree_handler.retained.sync_state import RefusedRetained, RetainedSource, SendRetained

TOPIC: Final = b"$hedgerow/retained"
STAMPED: Final = b"$hedgerow/retained/sent-at"
"""The same, with `SendTimes.stamp` before it: of the release after `wire.Additions.CLOCKS`."""


class RetainedPart:
    """A `gateway.node.links.part.Part` that keeps retained messages alike on neighbours.

    Args:
        node: on whose links.
        store: the gateway's retained messages.
        settle_s: what has changed is told to neighbours when nothing changed for so long.
        refused: is told what a neighbour with this id told, and is not believed.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((TOPIC, STAMPED))

    def __init__(
        self,
        node: TreeNode,
        store: RetainedSource,
        settle_s: float = 5.0,
        refused: Callable[[RefusedRetained, str], None] = lambda *_: None,
    ) -> None:
        self._sent_at: SendTimes | None = None
        self._node = node
        self._store = store
        self._refused = refused
        self._peers: dict[int, str] = {}
        seals = node.replication.settings.seals
        proofs = None if seals is None else seals.retained
        self._sync = RetainedSync(store, node.replication, settle_s, proofs)

    def count_by(self, sent_at: SendTimes) -> None:
        """From now on count for how long what neighbours tell was under way."""
        self._sent_at = sent_at

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Begin to synchronise retained messages with the neighbour."""
        self._peers[link] = peer_id
        self._sync.link_up(link, now)

    def link_down(self, link: int, now: float) -> None:
        """End the synchronisation with the neighbour."""
        self._peers.pop(link, None)
        self._sync.link_down(link, now)

    def tree_changed(self, now: float) -> None:
        """Retained messages are compared with every neighbour, whatever the tree says."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take a neighbour's message of synchronisation, and answer it."""
        waited_s = 0.0
        if topic == STAMPED:
            stamp, payload = payload[:STAMP_BYTES], payload[STAMP_BYTES:]
            if self._sent_at is not None:
                waited_s = self._sent_at.waited_s(link, stamp)
        self._send(self._sync.receive(link, payload, now, waited_s))
        for refused in self._sync.take_refused():
            self._refused(refused, self._peers.get(link, ""))

    def next_timer(self) -> float:
        """Return when synchronisation is due."""
        return self._sync.next_timer()

    def handle_timer(self, now: float) -> None:
        """Send what synchronisation has due."""
        self._send(self._sync.handle_timer(now))

    def _send(self, sends: Iterable[SendRetained]) -> None:
        for send in sends:
            stamp = b"" if self._sent_at is None else self._sent_at.stamp(send.link)
            if stamp:
                self._node.send(send.link, STAMPED, stamp + send.payload)
            else:
                self._node.send(send.link, TOPIC, send.payload)

    def status(self) -> dict[str, Any]:
        """Versions, tombstones and what was exchanged, ready for JSON."""
        versions, counters = self._store.versions, self._sync.counters
        return {
            "topics": len(versions) - versions.tombstones,
            "tombstones": versions.tombstones,
            "tombstones_dropped_early": versions.dropped_early,
            "root": versions.root().hex(),
            "sent": counters.sent,
            "fetched": counters.fetched,
            "news": counters.news,
            "left_to_log": counters.left_to_log,
            "refused": counters.refused,
            "unproven": counters.unproven,
            "forbidden": counters.forbidden,
            "proven_later": counters.proven,
        }
