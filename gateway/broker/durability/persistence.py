"""The port by which the broker tells of its sessions, so that they may outlive it.

Here nothing is kept: this is a broker that forgets at its end. `durable_persistence` is one that
does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.broker.durability.delivery_gaps import DeliveryGaps
from gateway.broker.durability.standing_wills import SavedWill
from gateway.broker.hooks import Client
from gateway.broker.inbound.accepted_message import AcceptedMessage
from gateway.broker.outbound.channel import Channel
from gateway.broker.sessions.queue_log import QueueLog
from gateway.broker.sessions.session import Session
from gateway.mqtt import Will
from tree_handler.batch import Epoch
from tree_handler.holders import SharedGroup
from tree_handler.retained.message import Retained


class Persistence:
    """Forgets everything.

    Args:
        own: this gateway's id and boot epoch, under which its messages stand in the log.
        logged: from which the queues of sessions read; None where they can't.

    Attributes:
        own, logged: as given.
        numbers_messages: whether anybody may ask where a message stands in the log.
        lacking: what sessions were not given though `delivered` is past it.

    """

    def __init__(self, own: Epoch = ("", 0), logged: QueueLog | None = None) -> None:
        self.own = own
        self.logged = logged
        self.numbers_messages = False
        self.lacking = DeliveryGaps()

    # -- sessions and wills ----------------------------------------------------------------------

    def session_opened(self, session: Session) -> None:
        """Note that a session has a client, or another expiry."""

    def takes(self, session: Session, client: Client, expiry_s: int) -> bool:
        """Return whether a session can be kept that gets a client; if not, nothing has changed.

        Args:
            session: new, or without a channel.
            client: who is about to be served.
            expiry_s: how long the session is to be kept without a channel.

        """
        return True

    def session_away(self, session: Session) -> None:
        """Note that a session's client has gone."""

    def session_ended(self, session: Session) -> None:
        """Note that a session has ended."""

    def session_leaves(self, session: Session, groups: Mapping[int, SharedGroup]) -> bool:
        """Have others go on with what waits for a session that ends, and return whether that is
        kept.

        Args:
            session: which.
            groups: the shared subscriptions that it waits for, by their marks.

        """
        return False

    def taken(self, key: Epoch, ranges: Sequence[int], mark: int) -> None:
        """Somebody whose session is not kept goes on with what one left, or nobody can.

        Args:
            key: the stream of the messages.
            ranges: their numbers there, the first and the last of each range in turn.
            mark: of the shared subscription that they are delivered for.

        """

    def will_stands(self, client: Client, will: Will | None) -> None:
        """Note the will of a client that has come, or None; it replaces the one before."""

    def will_ended(self, client_id: str) -> None:
        """Note that a client's will is not to be published."""

    def will_published(self, client_id: str) -> SavedWill | None:
        """Note that a client's will goes into the log, and return it; None if none is known."""
        return None

    def will_refused(self, saved: SavedWill) -> None:
        """Let a will stand again that the log refused, though its client may have another."""

    def will_tried_again(self, saved: SavedWill) -> None:
        """Note that a will which the log refused goes into the log once more."""

    def will_given_up(self, saved: SavedWill) -> None:
        """Give up a will that was to be published."""

    # -- retained messages -------------------------------------------------------------------------

    def retained_changed(self, topic: str) -> None:
        """Note that a topic has another retained message, or none."""

    def retained_learnt(self, retained: Retained, *, is_news: bool) -> None:
        """Note a retained message that a neighbour told of, and that is taken."""

    # -- messages ----------------------------------------------------------------------------------

    @property
    def is_refused(self) -> bool:
        """Return whether the log did not take what was last noted."""
        return False

    def precede(self, accepted: Sequence[AcceptedMessage]) -> OSError | None:
        """Write what must be in the log before a batch of these messages; the error if it can't."""
        return None

    def was_refused(self) -> None:
        """Note that the log refused the batch that something was written for."""

    def has_delivered(self, stream: Epoch, last: int) -> None:
        """Local sessions are given a stream's messages up to this number now."""

    def delivered(self, stream: Epoch) -> int:
        """Return the last number of a stream that local sessions were given; 0 if none."""
        return 0

    # -- how long messages have waited -------------------------------------------------------------

    def lasting_ahead_s(self) -> float:
        """Return the clock that outlives the process less the loop's."""
        return 0.0

    def accepted_us(self) -> int:
        """Return the stamp of a message that is accepted now and may expire; 0 for none."""
        return 0

    def waited_s(self, stream: Epoch, accepted_us: int) -> float:
        """Return how long a message has waited since its origin accepted it, as far as is certain.

        Args:
            stream: the origin and its life.
            accepted_us: its stamp; 0 if it has none.

        """
        return 0.0

    # -- turns -------------------------------------------------------------------------------------

    def write(self) -> OSError | None:
        """Write what was noted; the error if the log does not take it."""
        return None

    @property
    def last_frame(self) -> int:
        """The number of what was written last."""
        return 0

    def is_safe(self, frame: int) -> bool:
        """Return whether no crash can take back what was written up to this number."""
        return True

    def hold_back(self, channels: Sequence[Channel]) -> None:
        """Write what was noted, and keep the output that must not leave before it is safe."""

    def may_leave(self, channel: Channel) -> bool:
        """Return whether no crash could take back what a channel's output stands on."""
        return True

    def sweep(self, now_s: float) -> None:
        """Do what is due with time; called twice a second with the loop's clock."""
