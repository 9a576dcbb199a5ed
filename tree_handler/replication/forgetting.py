"""Forgetting of streams, so that a gateway's memory does not grow with others' restarts.

What is stated here and nowhere else: a later epoch of its origin is open here; nobody near knows
of a message of it that is not here, or given up as lost; and the log keeps nothing of it any more.
The latest `KEPT_LIVES` of an origin stay even so: what they say of its end serves gateways that
were away. No neighbour's word makes this gateway forget anything: it decides by its own log.
"""

from __future__ import annotations

from light_dataclasses import dataclass
from tree_handler.batch import NOTE_PREFIX, Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over
from tree_handler.replication.actions import Append, ReplicationAction
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.epoch_order import EpochOrder
from tree_handler.replication.telling import Telling


@dataclass(slots=True)
class Forgetting:
    """A record of the streams that one gateway need not remember any more.

    Args:
        have: what it covers, by stream; what is forgotten is taken out of it.
        order: which epochs are open.
        neighbours: what they know.
        telling: what the log still holds.
        kept_lives: see `epochs_over.KEPT_LIVES`.

    """

    have: dict[Epoch, Intervals]
    order: EpochOrder
    neighbours: AntiEntropy
    telling: Telling
    kept_lives: int

    def notes(self) -> list[ReplicationAction]:
        """Return the notes that the log has to hold before more is forgotten.

        They are to be asked for when the log was trimmed, for what came since may be in it.
        """
        there: dict[str, list[int]] = {}
        for name, epoch in self.have:
            if not name.startswith(NOTE_PREFIX):
                there.setdefault(name, []).append(epoch)
        found: list[ReplicationAction] = []
        for name, epochs in there.items():
            past = [epoch for epoch in epochs if self.order.is_past((name, epoch))]
            past = sorted(past)[: max(0, len(past) - self.kept_lives)]
            ended = {epoch for epoch in past if self._is_done_with((name, epoch))}
            if ended:
                stay = sorted(epoch for epoch in epochs if epoch not in ended)
                made = epochs_over.notes(self.have, name, ended, stay)
                found += [Append(frame, header, None) for frame, header in made]
        return found

    def forget(self, header: Header) -> list[Epoch]:
        """Return the streams that are forgotten by one of the `notes` in the log."""
        streams = epochs_over.forget(self.have, header)
        self.telling.forget(header.origin.removeprefix(NOTE_PREFIX), streams)
        self.neighbours.forget(streams)
        self.order.forget(streams)
        return streams

    def _is_done_with(self, stream: Epoch) -> bool:
        numbers = self.have[stream]
        last = max(numbers.last, self.order.end(stream), self.neighbours.last_known(stream))
        return not len(self.telling.kept(stream)) and numbers.contiguous_from(1) >= last
