"""Retained messages after a restart, as a checkpoint and the journal tell of them.

A message's own time goes on over a restart, by the lasting clock.
"""

from __future__ import annotations

from gateway.broker.durability.saved import SavedTombstone
from gateway.broker.outbound.message import Message
from gateway.broker.retained.neighbours import grave_of, message_of
from gateway.broker.retained.retention import Retention
from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.retained.message import Retained
from tree_handler.retained.tombstones import Tombstone


@dataclass(frozen=True, slots=True)
class NeighbourRetained:
    """A retained message that a neighbour had told of.

    Attributes:
        message: the message; empty if it was deleted.
        grave: its tombstone, if there is none any more.
        is_news: whether subscribers were given it.

    """

    message: Message
    grave: Tombstone | None
    is_news: bool

    @classmethod
    def of(cls, fields: list[object], waited_s: float, now_s: float) -> NeighbourRetained:
        """Read a journal event.

        Args:
            fields: of the event.
            waited_s: how long ago it was written.
            now_s: on the loop's clock.

        Raises:
            ProtocolError, PacketError: it is none.

        """
        if len(fields) != 2:
            raise ProtocolError("journal event", fields)
        retained = Retained.of(fields[0])
        message = message_of(retained, now_s)
        if message.expires_at_s is not None:
            left_s = message.expires_at_s - now_s - waited_s
            message.expires_at_s = now_s + max(0.0, left_s)
        grave = None if retained.dead_s is None else grave_of(retained, now_s)
        return cls(message, grave, bool(fields[1]))

    def retain(self, retention: Retention) -> None:
        """Take it as it was taken then."""
        if self.grave is None:
            retention.retain(self.message)
        else:
            retention.bury(self.message.topic, self.grave)


def unearthed(saved: SavedTombstone, now_s: float, lasting_us: int) -> Tombstone:
    """Return the tombstone of a checkpoint.

    Args:
        saved: the tombstone.
        now_s: on the loop's clock.
        lasting_us: the same moment on the lasting clock.

    """
    since_s = now_s - max(0.0, (lasting_us - saved.since_us) / 1_000_000)
    return Tombstone(saved.version, saved.number, saved.qos, since_s)
