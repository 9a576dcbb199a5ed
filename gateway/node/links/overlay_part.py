"""Topic overlays on the links of a node: carries out what `overlays` decides (C5, C6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from gateway.node.links.node import TreeNode
from tree_handler.overlays.overlays import OverlayChanged, Overlays, Say, Settings
from tree_handler.routing.interest import Interest

TOPIC: Final = b"$hedgerow/overlay"

_log = logging.getLogger(__name__)


class OverlayPart:
    """A `gateway.node.links.part.Part` that runs the overlays which this gateway is in.

    Args:
        node: on whose links; its identity and timers are those of the overlays too.
        settings: how overlays are run.
        now: the loop's time.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((TOPIC,))

    def __init__(self, node: TreeNode, settings: Settings, now: float) -> None:
        self._told_of_looks: list[Callable[[], None]] = []
        self._node = node
        self._hello_s = node.tree.parameters.hello_s
        self._measure_at = now
        tree, seals = node.tree, node.replication.settings.seals
        self.overlays = Overlays(tree.identity, tree.parameters, settings, now, seals)

    def tell_of_looks(self, told: Callable[[], None]) -> None:
        """Call this now and then: this gateway may be the root of other overlays."""
        self._told_of_looks.append(told)

    def records_changed(self, records: Iterable[Interest], now: float) -> None:
        """Take in what all gateways, this one included, tell of themselves."""
        self.overlays.records_changed({record.gateway_id: record for record in records}, now)
        self._carry_out()
        self._node.reschedule()

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Tell the overlays of the link, and do what they ask for."""
        self.overlays.link_up(link, peer_id, now)
        self._carry_out()

    def link_down(self, link: int, now: float) -> None:
        """Take the link from the overlays, and do what they ask for."""
        self.overlays.link_down(link, now)
        self._carry_out()

    def tree_changed(self, now: float) -> None:
        """Overlays are trees of their own, whatever the common one does."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Give the overlays a neighbour's message, and do what they ask for."""
        self.overlays.receive(link, payload, now)
        self._measure(now)
        self._carry_out()

    def next_timer(self) -> float:
        """Return when an overlay has something to do."""
        return self.overlays.next_timer()

    def handle_timer(self, now: float) -> None:
        """Let the overlays do what is due."""
        self.overlays.handle_timer(now)
        self._measure(now)
        self._carry_out()

    def _measure(self, now: float) -> None:
        """Once in a hello interval: what the links cost is what the common tree has measured."""
        if now < self._measure_at:
            return
        self._measure_at = now + self._hello_s
        if self._node.tree.identity.seal != self.overlays.identity.seal:
            self.overlays.reseal(self._node.tree.identity)
        for neighbour in self._node.tree.neighbours():
            if neighbour.rtt_ms is not None:
                self.overlays.measured(neighbour.link, neighbour.rtt_ms, now)
        for told in self._told_of_looks:
            told()

    def _carry_out(self) -> None:
        for action in self.overlays.take_actions():
            match action:
                case Say(link, message):
                    self._node.send(link, TOPIC, message)
                case OverlayChanged(why):
                    _log.debug("%s", why)

    def status(self) -> dict[str, Any]:
        """Return the overlays that this gateway is in, their roots and members, ready for JSON."""
        core = self.overlays
        return {
            "policy": core.settings.policy.value,
            "rooted": core.rooted,
            "overlays": [
                {
                    "id": overlay.overlay.hex(),
                    "members": list(overlay.members),
                    "topics": overlay.topics,
                    "root": overlay.root,
                    "parent": overlay.parent,
                    "cost_ms": overlay.cost_ms,
                    "forwarding": [
                        self._node.links[link].peer_id
                        for link in sorted(overlay.forwarding)
                        if link in self._node.links
                    ],
                    "settled": overlay.settled,
                }
                for overlay in core.snapshots()
            ],
            "over_limit": core.plan.over_limit,
            "disconnected": core.plan.disconnected,
            "counters": dict(core.counters),
        }
