"""What replication asks its shell to do, in this order."""

from __future__ import annotations

from dataclasses import dataclass

from tree_handler.batch import Header
from tree_handler.delivery import Deliver, DeliverLogged
from tree_handler.repair import Request, Summary


@dataclass(slots=True)  # not frozen: one is made for each batch
class Append:
    """Append these bytes to the log; then, and only if that worked, call `Replication.appended`."""

    frame: bytes
    header: Header
    source: int | None
    """The link it came over; None for this gateway's own, and for what no link brought."""


@dataclass(slots=True)  # not frozen: one is made for each batch and link
class SendBatch:
    """Send a live batch over a forwarding link.

    Attributes:
        unlogged: how many QoS 0 messages it holds; 0 for a batch that is in the log.

    """

    link: int
    frame: bytes
    unlogged: int = 0


@dataclass(slots=True)  # not frozen: one is made for each batch
class Route:
    """Send a batch of this gateway's own clients to those who want it: it is not flooded.

    A logged one is in the log.
    """

    frame: bytes
    header: Header


@dataclass(frozen=True, slots=True)
class SendSummary:
    """Tell the neighbour what this gateway has."""

    link: int
    summary: Summary


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Ask the neighbour for batches from its log."""

    link: int
    request: Request


@dataclass(frozen=True, slots=True)
class Serve:
    """Send what the log has of the request (`repair.answer`), then say that it is done."""

    link: int
    request: Request


Action = Append | SendBatch | Route | SendSummary | SendRequest | Serve | Deliver | DeliverLogged
