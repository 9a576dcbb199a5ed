"""Actions that replication asks of its shell, in this order."""

from __future__ import annotations

from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.proof import Verdict
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import Request, SearchId, SearchResult, Seek, Summary


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
class RouteBatch:
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


@dataclass(frozen=True, slots=True)
class SendRepair:
    """Send a batch that somebody behind this neighbour seeks, in order with other repairs."""

    link: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class SendSeek:
    """Ask the neighbour, and those behind it."""

    link: int
    seek: Seek


@dataclass(frozen=True, slots=True)
class SendSought:
    """Answer a search, behind the repairs that were sent for it."""

    link: int
    sought: SearchResult


@dataclass(frozen=True, slots=True)
class Look:
    """Send as repair what the log has of these numbers (`repair.answer`), then call
    `Repairing.looked` with those that were sent, and whether the log could be read."""

    link: int
    number: SearchId
    wanted: dict[Epoch, Intervals]


@dataclass(frozen=True, slots=True)
class Lost:
    """Report that these messages of other gateways were given up; clients do not get them."""

    stream: Epoch
    first: int
    last: int
    why: str = "nobody within reach has them"


@dataclass(frozen=True, slots=True)
class Forget:
    """The log has noted that these streams are over: it need not remember their numbers."""

    streams: list[Epoch]


@dataclass(frozen=True, slots=True)
class Push:
    """Send as repair some of what the log has of these numbers; the neighbour asks for the rest."""

    link: int
    request: Request


@dataclass(frozen=True, slots=True)
class Refuse:
    """A batch was not taken, for it is not proven to be its origin's: keep it to be looked at, and
    ask for the certificates of its origin if none of those here is of the key that signed it.

    Attributes:
        frame: its bytes.
        header: what it says that it is.
        link: the neighbour that handed it over; None if it is not known.
        verdict: what its seal is.

    """

    frame: bytes
    header: Header
    link: int | None
    verdict: Verdict


_Sends = SendBatch | SendSummary | SendRequest | SendRepair | SendSeek | SendSought
ReplicationAction = (
    _Sends
    | Append
    | RouteBatch
    | Serve
    | Push
    | Look
    | Lost
    | Forget
    | Deliver
    | DeliverLogged
    | Refuse
)
