"""Opening of other origins' epochs: each as soon as the earlier ones are complete."""

from __future__ import annotations

from dataclasses import field

from light_dataclasses import dataclass
from tree_handler.replication.actions import Append
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.epoch_order import EpochOrder, note


@dataclass(slots=True)
class Openings:
    """Notes for the log which epochs may be handed out now, if there are more.

    Args:
        order: what is known of epochs.
        neighbours: what they have.
        origin_gone_s: where not all of a stream is for this gateway, its origin alone tells how an
            earlier epoch ended: that is waited for so long. None where all is.

    """

    order: EpochOrder
    neighbours: AntiEntropy
    origin_gone_s: float | None
    _waiting: dict[str, float] = field(default_factory=dict)
    """The times since which an origin has epochs that wait for earlier ones."""

    def of(self, origin: str) -> list[Append]:
        """Open what can be opened of an origin."""
        known = self.neighbours.epochs(origin)
        epoch = self.order.can_open(origin, self.neighbours.last_known, known)
        if epoch is None or self.neighbours.is_being_told:
            return []
        return [Append(*note(origin, epoch), None)]

    def of_all(self, now: float) -> list[Append]:
        """Open what can be opened; in the end without the word of an origin that is gone."""
        self._waiting = {origin: self._waiting.get(origin, now) for origin in self.order.waiting}
        actions: list[Append] = []
        for origin, since in self._waiting.items():
            opening = self.of(origin)
            gone_s = self.origin_gone_s
            if not opening and gone_s is not None and now - since >= gone_s:
                epoch = self.order.can_open(origin, None)
                opening = [] if epoch is None else [Append(*note(origin, epoch), None)]
            actions += opening
        return actions
