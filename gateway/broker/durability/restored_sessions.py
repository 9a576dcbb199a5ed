"""Durable sessions, as the history is read: from the checkpoint, then as the journal goes on."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.broker.durability import saved_places
from gateway.broker.durability.changes import Changes
from gateway.broker.durability.delivery_gaps import DeliveryGaps
from gateway.broker.durability.journal import Event, Journal, Operation, SessionRecord
from gateway.broker.durability.journal_frame import Move
from gateway.broker.durability.replayed_delivery import ReplayedDelivery
from gateway.broker.durability.restored_estates import RestoredEstates
from gateway.broker.durability.saved import SavedPlaces, SavedSession
from gateway.broker.hooks import Client
from gateway.broker.limits import RANGES, Budget
from gateway.broker.outbound.message import IN_PACKET, LearntMessage, Message
from gateway.broker.outbound.routes import Routes
from gateway.broker.retained.retained_backlog import BacklogFilter, RetainedBacklog
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.retained.retention import Retention
from gateway.broker.sessions.estates import Estate
from gateway.broker.sessions.queue_log import QueueLog
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.sessions.subscriptions import Subscriptions
from gateway.mqtt import FilterError
from light_dataclasses import dataclass
from tree_handler.batch import Entry, Ref
from tree_handler.sharing.rule import SharedGroups

BACK_S: Final = 60.0
"""So long whoever was connected when the process ended has to come back after a start, at least; or
as long as its session lasts."""
IDS_APART: Final = 4_099
"""So far apart are the first packet identifiers of lives whose epochs follow each other."""


@dataclass(frozen=True, slots=True)
class RestoreTargets:
    """The owners whose state a start restores.

    Attributes:
        sessions: those of all clients.
        subscriptions: theirs.
        routes: where topics go.
        retention: what is retained.
        retained_backlogs: which sessions are owed what is retained.
        budget: what queues share, and the limits of each.
        groups: decides whose members of shared subscriptions get what.

    """

    sessions: Sessions
    subscriptions: Subscriptions
    routes: Routes
    retention: Retention
    retained_backlogs: RetainedBacklogs
    budget: Budget
    groups: SharedGroups


class RestoredSessions:
    """The sessions of one broker that has no connections yet.

    Limits on queues do not count before `hand_over`: what left a queue at once in life waits here
    for its record.

    Args:
        parts: what is restored.
        delivery: is told which sessions have ended.
        lacking: likewise.
        changes: is told which sessions have ended since the checkpoint.
        strange: is told what does not fit.
        logged: from which queues read.
        now_s: on the loop's clock.

    Attributes:
        next_number: of the next new session.
        estates: what those that have ended left to others.

    """

    def __init__(
        self,
        parts: RestoreTargets,
        delivery: ReplayedDelivery,
        lacking: DeliveryGaps,
        changes: Changes,
        strange: Callable[[str], None],
        logged: QueueLog | None,
        now_s: float,
    ) -> None:
        self._parts = parts
        self._now_s = now_s
        self._delivery = delivery
        self._lacking = lacking
        self._changes = changes
        self._strange = strange
        self._logged = logged
        self._limits = dataclasses.replace(
            parts.budget.limits,
            queue_messages=int(RANGES["queue_messages"][1]),
            queue_bytes=int(RANGES["queue_bytes"][1]),
            all_queues_bytes=int(RANGES["all_queues_bytes"][1]),
        )
        self._budget = Budget(self._limits)
        self._sessions: dict[int, Session] = {}
        self._away_us: dict[int, int] = {}
        """The times since which sessions' clients were away, on the lasting clock."""
        self._given: defaultdict[int, set[str]] = defaultdict(set)
        """Topics of retained messages that the frame gives, by session."""
        self.next_number = 1
        self.estates = RestoredEstates()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, number: int) -> Session | None:
        """Return the session of a number, if there is one."""
        return self._sessions.get(number)

    def up_to_date(self) -> list[int]:
        """Return the numbers of those whose clients are there, and for whom nothing waits."""
        return [
            number
            for number, session in self._sessions.items()
            if number not in self._away_us and not session.outgoing.backlog.count
        ]

    # -- the checkpoint --------------------------------------------------------------------------

    def load(self, saved: SavedSession, messages: Mapping[Ref, Message], lasting_us: int) -> None:
        """A session of the checkpoint, and the messages that it names.

        Args:
            saved: the session.
            messages: those of the checkpoint.
            lasting_us: now, on the lasting clock.

        """
        session = self._open(saved.number, saved.client, saved.expiry_s)
        session.incoming.restore(saved.incoming)
        if saved.away_us is not None:
            self._away_us[saved.number] = saved.away_us
        if saved.owed is not None:
            self._parts.retained_backlogs.owe(session, saved.owed)
        for topic_filter, subscription in saved.subscriptions.items():
            self._subscribe(session, topic_filter, subscription)
        for sent in saved.inflight:
            message = None if sent.message is None else messages[sent.message.ref]
            of = None if message is None else (message, sent.flags, sent.identifiers)
            session.outgoing.restore(sent.packet_id, of)
        session.outgoing.last_packet_id = saved.last_packet_id
        for one in saved.queue:
            if isinstance(one, SavedPlaces):
                behind_s = self._now_s - lasting_us / 1_000_000
                session.outgoing.backlog.restore(saved_places.places_of(one, behind_s))
            elif one.message is not None:
                delivery = (messages[one.message.ref], one.flags, one.identifiers)
                session.outgoing.backlog.restore(delivery)

    # -- the journal -----------------------------------------------------------------------------

    def frame_begins(self) -> None:
        """Begin a frame: what follows was noted in one turn."""
        self._given.clear()

    def event(self, kind: Event, fields: list[Any]) -> None:
        """The journal says what happened to a session."""
        session = self._sessions.get(fields[0])
        if kind is Event.OPENED:
            self._opened(session, *fields)
        elif session is None:
            self._strange(f"{kind.name} of session {fields[0]}, which there is not")
        else:
            self._happened(kind, session, fields)

    def move(self, move: Move, lasting_us: int) -> None:
        """The journal says who left what, or who goes on with it; ``lasting_us`` is now."""
        session = self._sessions.get(move.number)
        match move.kind, move.fields:
            case Operation.TAKEN, [origin, epoch, ranges, mark]:
                self.estates.taken((origin, epoch), ranges, mark)
            case Operation.LEAVES, [groups] if session is not None:
                known = {mark: (share, topic_filter) for mark, share, topic_filter in groups}
                items = session.outgoing.left_behind()
                self.estates.left(Estate(session.client.owner, items, known, is_kept=True))
            case Operation.INHERITS, fields if session is not None:
                self._inherits(session, lasting_us, fields)
            case kind, _:
                self._strange(f"{kind.name} of session {move.number}, which there is not")

    def _inherits(self, session: Session, lasting_us: int, fields: list[Any]) -> None:
        origin, epoch, ranges, flags, identifiers, times, row = fields
        self.estates.taken((origin, epoch), ranges, flags & ~IN_PACKET)
        saved = SavedPlaces((origin, epoch), ranges, flags, identifiers, None, times)
        places = saved_places.places_of(saved, self._now_s - lasting_us / 1_000_000)
        if row is None:
            session.outgoing.backlog.restore(places)
            return
        topic, kind, payload, *more = row  # it may be in the log no longer
        entry = Entry(topic, payload, kind & 3, bool(kind & 4), *more)
        message = LearntMessage.of(entry, self._now_s)
        message.ref = ((origin, epoch), ranges[0])
        next(places.runs()).time(message)
        session.outgoing.backlog.restore((message, flags, identifiers))

    def _happened(self, kind: Event, session: Session, fields: list[Any]) -> None:
        match kind:
            case Event.ENDED:
                self._end(session, fields[0])
            case Event.OWED:
                self._owed(session, *fields)
            case Event.AWAY:
                self._away_us[fields[0]] = fields[1]
            case Event.SUBSCRIBED:
                self._subscribe(session, fields[1], Subscription(*fields[2:]))
            case Event.UNSUBSCRIBED:
                self._parts.subscriptions.withdraw(session, fields[1])
            case Event.RETAINED:
                number, topic, flags, identifiers = fields
                self._given[number].add(topic)
                if session.owed is not None:
                    session.owed.given.add(topic)
                message = self._parts.retention.get(topic)
                if message is not None:
                    of = tuple(identifiers)
                    session.deliver(message, flags, of, self._now_s, retained=True)

    def _owed(self, session: Session, number: int, wanted: tuple[tuple[Any, ...], ...]) -> None:
        if wanted:
            owed = RetainedBacklog(
                tuple(BacklogFilter(*one) for one in wanted), set(self._given[number])
            )
            self._parts.retained_backlogs.owe(session, owed)
        else:
            self._parts.retained_backlogs.settled(session)

    def _opened(self, session: Session | None, number: int, *fields: Any) -> None:
        *of_client, expiry_s = fields
        client = Client.away(*of_client)
        if session is None:
            self._open(number, client, expiry_s)
        else:
            session.client = client
            session.expiry_s = expiry_s
            self._away_us.pop(number, None)
        self.next_number = max(self.next_number, number + 1)

    def _open(self, number: int, client: Client, expiry_s: int) -> Session:
        session = Session(client, self._limits, self._budget, self._logged)
        session.expiry_s = expiry_s
        self._sessions[number] = session
        self._parts.sessions.restore(session)
        return session

    def _end(self, session: Session, number: int) -> None:
        del self._sessions[number]
        self._away_us.pop(number, None)
        self._changes.ended.append(number)
        self._delivery.ended(session)
        self._lacking.ended(number)
        self._parts.sessions.forget(session)

    def _subscribe(self, session: Session, topic_filter: str, subscription: Subscription) -> None:
        try:
            self._parts.subscriptions.restore(session, topic_filter, subscription)
        except FilterError as error:
            self._strange(f"{session.client}: {error}")

    # -- the end ---------------------------------------------------------------------------------

    def hand_over(self, journal: Journal, lasting_us: int, ended_us: int) -> None:
        """All wait for their clients from now on, and go on in this journal.

        Args:
            journal: the new one.
            lasting_us: now, on the lasting clock.
            ended_us: when the process ended at the latest, if the log took what it wrote.

        """
        self._parts.budget.trimmed += self._budget.trimmed
        for number, session in self._sessions.items():
            session.outgoing.adopt(self._parts.budget.limits, self._parts.budget)
            record = SessionRecord(number, journal)
            session.keep_record(record)
            # If the end of the record is lost, or this card was not always in, its client may hold
            # identifiers of messages that are not known here, and would take another message under
            # one of them for the same. So each life begins elsewhere.
            session.outgoing.go_on_from(journal.own[1] * IDS_APART)
            record.known = (session.client, session.expiry_s)
            away_us = record.away_us = self._away_us.get(number)
            if away_us is None:  # its client was there when the process ended
                # The disk may have taken nothing for long before: it has a moment to come back.
                most_s = max(0.0, session.expiry_s - BACK_S)
                away_us = max(ended_us, lasting_us - int(most_s * 1_000_000))
                journal.away(record, away_us)
            self._parts.sessions.wait(session, self._now_s - (lasting_us - away_us) / 1_000_000)
