"""Actions that routed mode asks of its shell, besides those of replication."""

from __future__ import annotations

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication import replication
from tree_handler.routing.wire import Ask


@dataclass(frozen=True, slots=True)
class SendRouted:
    """Send this over the link on `TOPIC`.

    Attributes:
        link: the link.
        payload: what.
        is_urgent: it may go before batches; all else keeps its order with them.
        is_batch: it is left out if the link is full: it will be asked for.
        unlogged: how many QoS 0 messages it holds.

    """

    link: int
    payload: bytes
    is_urgent: bool = False
    is_batch: bool = False
    unlogged: int = 0


@dataclass(frozen=True, slots=True)
class ServeRouted:
    """Read these numbers of this origin's own from the log, then call `Routed.served`."""

    ask: Ask
    wanted: Intervals


@dataclass(frozen=True, slots=True)
class Settle:
    """An order to call `Routed.settle` when all before it is done, and in the log."""

    stream: Epoch
    last: int


RoutingAction = replication.ReplicationAction | SendRouted | ServeRouted | Settle
