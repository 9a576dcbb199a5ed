"""Retained messages on the links of a node: carries out what `retained.sync` decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from gateway.links.node import TreeNode
from tree_handler.retained.sync import RetainedSource, RetainedSync, SendRetained

TOPIC: Final = b"$hedgerow/retained"


class RetainedPart:
    """A `gateway.links.part.Part` that keeps retained messages alike on neighbours.

    Args:
        node: on whose links.
        store: the gateway's retained messages.
        settle_s: what has changed is told to neighbours when nothing changed for so long.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((TOPIC,))

    def __init__(self, node: TreeNode, store: RetainedSource, settle_s: float = 5.0) -> None:
        self._node = node
        self._store = store
        self._sync = RetainedSync(store, node.replication, settle_s)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """See `Part`."""
        self._sync.link_up(link, now)

    def link_down(self, link: int, now: float) -> None:
        """See `Part`."""
        self._sync.link_down(link, now)

    def tree_changed(self, now: float) -> None:
        """Retained messages are compared with every neighbour, whatever the tree says."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """See `Part`."""
        self._send(self._sync.receive(link, payload, now))

    def next_timer(self) -> float:
        """See `Part`."""
        return self._sync.next_timer()

    def handle_timer(self, now: float) -> None:
        """See `Part`."""
        self._send(self._sync.handle_timer(now))

    def _send(self, sends: Iterable[SendRetained]) -> None:
        for send in sends:
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
        }
