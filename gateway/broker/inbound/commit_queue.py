"""Acceptance of a turn's messages: into the log together, and only then acknowledged.

A QoS 1, 2 or retained message is delivered and acknowledged from the callback of the commit
that took it, in the order of arrival; a QoS 0 message has been delivered already and is handed
in for the tree alone. If the log refuses, nobody is acknowledged: a 5.0 client is told the
reason, a 3.1.1 client is disconnected and sends again [MQTT-3.3.5-2]. QoS 0 goes on: a message
that was to be retained is delivered all the same.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gateway.base.turns import Turns
from gateway.broker.durability.persistence import Persistence
from gateway.broker.hooks import Tree
from gateway.broker.inbound.accepted_message import AcceptedMessage
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.outbound.local_distribution import LocalDistribution
from gateway.broker.outbound.message import OVERHEAD_BYTES, Message
from gateway.broker.retained.retention import Retention
from gateway.broker.sessions.due_will import DueWill
from gateway.broker.sessions.session import Session
from gateway.broker.statistics.acknowledgement_delays import AcknowledgementDelays
from gateway.log.errors import PartlyTakenError
from gateway.mqtt import ReasonCode
from gateway.trust.shares.log_room import LogRoom
from tree_handler.batch import Row, cut
from tree_handler.entry import accepted_at
from tree_handler.holders import with_holders

TURN_S: Final = 0.01
"""Delivering goes on for so long before others have their turn."""
PORTION: Final = 32
"""Messages between two looks at the clock."""


class _Commit:
    """A part of a turn that the log takes or refuses as a whole; then what is left to deliver.

    Attributes:
        accepted: in their order.
        first: the number of their first message in the log; 0 if it has none.
        size_bytes: of all that was committed.
        since_s: when the first of them came, on the loop's clock; 0 if nobody wants to know.

    """

    def __init__(self, accepted: deque[AcceptedMessage], size_bytes: int, since_s: float) -> None:
        self.accepted = accepted
        self.first = 0
        self.size_bytes = size_bytes
        self.since_s = since_s
        self.is_told = False
        """True once the log has answered."""


class CommitQueue:
    """Gathers what is accepted during a turn of the event loop.

    Args:
        tree: takes messages and calls back when they are durable.
        distribution: gives them to their subscribers.
        retention: gives what is to be retained its version.
        durability: writes what must be in the log before them.
        turns: is told that a turn needs an end.
        room: for what waits for the log.
        now: the loop's clock, in seconds.

    Attributes:
        delays: of acknowledgements.

    """

    def __init__(
        self,
        tree: Tree,
        distribution: LocalDistribution,
        retention: Retention,
        durability: Persistence,
        turns: Turns,
        room: LogRoom,
        now: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._distribution = distribution
        self._retention = retention
        self._durability = durability
        self._turns = turns
        self._room = room
        self._now = now
        self.delays = AcknowledgementDelays()
        self._since_s = 0.0
        """The time when the first of `_accepted` came; 0 if nobody wants to know."""
        self._accepted: list[AcceptedMessage] = []
        self._rows: list[Row] = []
        """The rows for the log: one for each message of `_accepted`."""
        self._unlogged: list[Row] = []
        """QoS 0 messages for the tree."""
        self._gathers_unlogged = tree.carries_unlogged
        self._refused: set[tuple[Session, int]] = set()
        """QoS 2 messages refused while others wait, which may be the same ones again."""
        self._to_retain: Counter[str] = Counter()
        """Messages that wait for the log and are then to be retained, by topic."""
        self._settling: deque[_Commit] = deque()
        """Those that are durable and not delivered to the end, in their order."""

    @property
    def is_due(self) -> bool:
        """Return whether there is anything to hand in."""
        return bool(self._accepted or self._unlogged)

    # -- what comes in -------------------------------------------------------------------------

    def publish(self, message: Message, publisher: Publisher, packet_id: int) -> None:
        """Take a client's QoS 1 or 2 message."""
        if message.retain:
            self._is_to_retain(message)
        if not self._accepted:
            self._turns.need()
            self._since_s = self._now() if self.delays.is_watched else 0.0
        self._accepted.append(AcceptedMessage(message, publisher, publisher.session, packet_id))
        self._rows.append(self.row(message))

    def again(self, publisher: Publisher, packet_id: int) -> None:
        """A QoS 2 message that came before came again: acknowledge it after what came before."""
        self._wait(AcceptedMessage(None, publisher, publisher.session, packet_id))

    def why_not_retained(self, session: Session, topic: str, size_bytes: int) -> str:
        """Return why a client may not retain one, or with 0 bytes delete it; empty if it may."""
        return self._retention.why_full(session.client.owner, topic, size_bytes)

    def retain(self, message: Message, session: Session) -> None:
        """Take a client's QoS 0 message that is to be retained.

        Nobody waits for the log, so neither does it; unless an earlier message does that is to be
        retained on the same topic.
        """
        self._retention.stamp(message)
        is_delivered = message.topic not in self._to_retain
        if is_delivered:
            self._distribution.give_out(message, session, self._now())
        else:
            self._to_retain[message.topic] += 1
        self._wait(AcceptedMessage(message, None, session, 0, is_delivered))

    def publish_own(self, message: Message, will: DueWill | None = None) -> None:
        """Publish for the broker itself, or for a client that has gone.

        Args:
            message: the message.
            will: which one it is; None for the broker's own. It is told if the log refuses.

        Raises:
            PacketError: the topic is none, or over a limit.

        """
        self._distribution.share(message)
        if message.qos or message.retain:
            if message.retain:
                self._is_to_retain(message)
            self._wait(AcceptedMessage(message, None, None, 0, False, will))
        else:
            self._distribution.give_out(message, None, self._now())
            self.pass_on(self.row(message))

    def row(self, message: Message) -> Row:
        """Return what the log and the tree get of a message that is accepted now."""
        row = message.row()
        if message.expires_at_s is not None:
            row = accepted_at(row, self._durability.accepted_us())
        holders = message.sharing[1]
        return with_holders(row, holders) if holders else row

    def pass_on(self, row: Row) -> None:
        """Let the tree have a QoS 0 message that subscribers here have been given."""
        if self._gathers_unlogged:
            if not self._unlogged:
                self._turns.need()
            self._unlogged.append(row)

    def _is_to_retain(self, message: Message) -> None:
        self._retention.stamp(message)
        self._to_retain[message.topic] += 1

    def _wait(self, accepted: AcceptedMessage) -> None:
        if not self._accepted:
            self._turns.need()
            self._since_s = self._now() if self.delays.is_watched else 0.0
        self._accepted.append(accepted)
        if accepted.message is not None:
            self._rows.append(self.row(accepted.message))

    # -- into the log --------------------------------------------------------------------------

    def commit(self) -> None:
        """Hand in what the log is to have."""
        if not self._accepted:
            return
        accepted, self._accepted = self._accepted, []
        rows, self._rows = self._rows, []
        left = deque(accepted)
        if len(rows) <= 1 or len(parts := cut(rows)) == 1:
            self._commit(left, rows)
            return
        for part in parts:  # the log takes or refuses each as a whole, as one batch
            self._commit(_taken(left, len(part)), part)

    def hand_on(self) -> bool:
        """Hand in what the tree alone gets; those here have it already.

        Returns:
            Whether anything has come meanwhile that is to be handed in.

        """
        if self._unlogged:
            unlogged, self._unlogged = self._unlogged, []
            self._tree.publish_all((), unlogged, None)
        self._gathers_unlogged = self._tree.carries_unlogged
        return bool(self._accepted or self._unlogged)

    def _commit(self, accepted: deque[AcceptedMessage], rows: Sequence[Row]) -> None:
        size_bytes = len(accepted) * OVERHEAD_BYTES
        for row in rows:
            size_bytes += len(row[2])
        if self._room.took(size_bytes):
            self._room.hold(one.publisher for one in accepted if one.publisher)
        commit = _Commit(accepted, size_bytes, self._since_s)
        try:
            error = self._durability.precede(accepted) if rows else None
            if error is None:
                self._tree.publish_all(rows, (), partial(self._told, commit))
            else:
                self._told(commit, 0, error)
        except Exception as failure:  # whoever waits for an answer gets one
            self._distribution.failures.failed("commit of what a turn accepted", failure)
            self._told(commit, 0, OSError(str(failure)))

    def _told(self, commit: _Commit, first: int, error: OSError | None) -> None:
        if commit.is_told:
            return
        commit.is_told = True
        commit.first = first
        if error is not None:
            self._durability.was_refused()
            refused, commit.accepted = commit.accepted, deque()
            commit.since_s = 0.0
            if isinstance(error, PartlyTakenError):
                commit.accepted = _taken(refused, error.taken)
            else:
                commit.first = 0
            self._refuse(refused, error)
        self._settling.append(commit)
        if len(self._settling) == 1:
            self._settle()

    # -- out again -----------------------------------------------------------------------------

    def finish(self) -> None:
        """Deliver and acknowledge all that is durable, however long it takes."""
        self._settle(math.inf)

    def _settle(self, for_s: float = TURN_S) -> None:
        """Deliver and acknowledge in the order of the commits, for so long; the rest soon."""
        now_s = self._now()
        while self._settling:
            commit = self._settling[0]
            try:
                self._settle_some(commit, now_s, now_s + for_s)
            except Exception as error:  # else nothing behind it would be answered any more
                self._distribution.failures.failed("answers to what the log has", error)
            if commit.accepted:
                break
            self._settling.popleft()
            self._room.gave(commit.size_bytes)
            if commit.since_s:
                self.delays.took(commit.since_s, self._now())
        if self._settling:
            asyncio.get_running_loop().call_soon(self._settle)
        if not self._room.used_bytes:
            self._refused.clear()

    def _settle_some(self, commit: _Commit, now_s: float, until_s: float) -> None:
        failures = self._distribution.failures
        durability, accepted = self._durability, commit.accepted
        numbers_all = durability.numbers_messages
        own, number = durability.own, commit.first
        count = 0
        while accepted:
            one = accepted.popleft()
            message = one.message
            if message is not None and number:
                if numbers_all or message.retain:
                    message.ref = (own, number)
                number += 1
            try:
                if message is not None:
                    self._settle_one(one, message, now_s)
                elif one.publisher is not None:
                    self._answer_again(one, one.publisher)
            except Exception as error:  # those behind it are waited for, too
                topic = "" if message is None else message.topic
                failures.failed("message that the log has", error, topic)
            count += 1
            if not count % PORTION and accepted and self._now() > until_s:
                break
        if commit.first:
            commit.first = number
            durability.has_delivered(own, number - 1)

    def _settle_one(self, one: AcceptedMessage, message: Message, now_s: float) -> None:
        if self._to_retain:
            self._is_dealt_with(one)
        if self._refused and (exchange := one.exchange) is not None:
            self._refused.discard(exchange)
        try:
            if one.is_delivered:
                self._retention.placed(message)
            else:  # first: who waits for it waits longer than its publisher
                self._distribution.give_out(message, one.session, now_s)
        finally:  # the log has it
            if one.publisher is not None:
                one.publisher.acknowledge(message.qos, one.packet_id)

    def _answer_again(self, one: AcceptedMessage, publisher: Publisher) -> None:
        """Answer a copy as the first was answered: by whether that is in the log."""
        if one.exchange in self._refused:
            publisher.refuse(2, one.packet_id, ReasonCode.QUOTA_EXCEEDED)
        else:
            publisher.acknowledge(2, one.packet_id)

    def _is_dealt_with(self, one: AcceptedMessage) -> None:
        topic = one.retains
        if topic is not None and topic in self._to_retain:
            self._to_retain[topic] -= 1
            if not self._to_retain[topic]:
                del self._to_retain[topic]

    def _refuse(self, accepted: Sequence[AcceptedMessage], why: OSError) -> None:
        for one in accepted:
            try:
                self._refuse_one(one, why)
            except Exception as error:  # the others are told all the same
                topic = "" if one.message is None else one.message.topic
                self._distribution.failures.failed("message that the log refused", error, topic)

    def _refuse_one(self, one: AcceptedMessage, why: OSError) -> None:
        self._is_dealt_with(one)
        message, publisher, will = one.message, one.publisher, one.will
        if message is None:
            if publisher is not None:
                self._answer_again(one, publisher)
            return
        if not message.qos and not one.is_delivered:  # it was to be retained; QoS 0 goes on
            self._distribution.give_out(message, one.session, self._now())
        if will is not None:
            will.was_refused()
        elif message.qos and publisher is None:
            self._distribution.failures.failed("message of the gateway's own", why, message.topic)
        elif message.qos and publisher is not None:
            if message.qos == 2:
                self._refused.add((publisher.session, one.packet_id))
                publisher.session.incoming.refuse(one.packet_id)
            publisher.refuse(message.qos, one.packet_id, ReasonCode.QUOTA_EXCEEDED)


def _taken(accepted: deque[AcceptedMessage], messages: int) -> deque[AcceptedMessage]:
    """Take out the first messages, and what stands before the next."""
    taken: deque[AcceptedMessage] = deque()
    while accepted and (messages or accepted[0].message is None):
        messages -= accepted[0].message is not None
        taken.append(accepted.popleft())
    return taken
