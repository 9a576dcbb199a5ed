"""Who has part in which shared subscription, and who goes on with what a member leaves (4.8.2).

A message that a member was not sent, or of QoS 1 and has not acknowledged, goes to another member
when its session ends. One of QoS 2 that was sent does not: the member may have had it, and nobody
could tell [MQTT-4.8.2-5]. They go behind what waits there, in their order.

What waits in the log goes as places in it, and is read by who gets it. What is in memory goes as it
is, for the log may have let it go: a checkpoint has it, or nobody. So much is handed over at a
time; the rest goes with the next sweeps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from gateway.broker.durability import saved_places
from gateway.broker.durability.durability import Durability
from gateway.broker.hooks import Owner
from gateway.broker.limits import Budget
from gateway.broker.outbound.message import (
    IN_PACKET,
    RETAIN,
    share_mark,
)
from gateway.broker.outbound.routes import Tree
from gateway.broker.sessions.backlog import Delivery
from gateway.broker.sessions.logged import read_first
from gateway.broker.sessions.places import Places, WaitingRun
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from tree_handler.batch import Row

AT_ONCE: Final = 1_000
"""Runs of messages that are handed over before others have their turn."""
BYTES_AT_ONCE: Final = 6 << 20
"""And messages that are in memory alone: a frame of the journal holds them, twice so much."""
LAST_TURNS: Final = 1_000
"""So many such turns a stop may take."""
_QOS: Final = 6

Group = tuple[str, str]
"""Share name and filter."""


@dataclass(slots=True)
class _Heir:
    """Who goes on with what a member left of one group.

    Attributes:
        session: the other member's.
        flags, identifiers: how it gets messages of the group.
        keeps_retain: whether it sees which were published with RETAIN.
        places: those that are still to be handed over.

    """

    session: Session
    flags: int
    identifiers: tuple[int, ...]
    keeps_retain: bool
    places: Places

    def flags_of(self, flags: int) -> int:
        """Return the flags of a message that was to be delivered with these."""
        retain = flags & RETAIN if self.keeps_retain else 0
        return min(self.flags & _QOS, flags & _QOS) | self.flags & ~IN_PACKET | retain

    def run_of(self, run: WaitingRun) -> WaitingRun:
        """Return a run as it waits for this member."""
        key, flags, _ = run.way
        way = (key, self.flags_of(flags), self.identifiers)
        return WaitingRun(way, run.first, run.last, run.timing, run.moment_ms)


@dataclass(frozen=True, slots=True)
class _Estate:
    """What a session left.

    Attributes:
        owner: whose it was.
        items: what waited, in its order.

    """

    owner: Owner
    items: list[Delivery | Places]


class SharedGroups:
    """The shared subscriptions of one broker.

    Args:
        tree: who subscribed to what.
        may_deliver: whether a session's client may receive a topic; None where all may all.
        durability: keeps over a crash who goes on with what.
        budget: of all queues, which counts what is dropped.
        now: the loop's clock, in seconds.

    """

    def __init__(
        self,
        tree: Tree,
        may_deliver: Callable[[Session, str], bool] | None,
        durability: Durability,
        budget: Budget,
        now: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._may_deliver = may_deliver
        self._durability = durability
        self._budget = budget
        self._now = now
        self._by_mark: dict[int, Group] = {}
        self._left: deque[Iterator[None]] = deque()
        """What is still to be handed over, session by session."""
        self._heirs: dict[int, _Heir] = {}
        """Who goes on with it, by the mark of the group."""
        self._turn = 0
        self._noted_bytes = 0
        """Of messages that the journal's next frame has to hold."""

    def joined(self, group: Group) -> None:
        """A session has part in a shared subscription."""
        self._by_mark.setdefault(share_mark(group), group)

    def left(self, group: Group) -> None:
        """A session has part in it no longer."""
        if not self._tree.members(group):
            self._by_mark.pop(share_mark(group), None)

    def hand_over(self, session: Session) -> None:
        """Give others what waits in a session that ends; it has no part in any group any more."""
        if self._by_mark and session.outgoing.is_owed_any:
            if self._noted_bytes > BYTES_AT_ONCE:
                self._write()
            estate = _Estate(session.client.owner, session.outgoing.left_behind())
            self._left.append(self._handed(estate))
            self.go_on()

    def go_on(self) -> bool:
        """Hand over some more of what sessions that have ended left; whether that was all."""
        most_bytes = self._noted_bytes + BYTES_AT_ONCE
        try:
            for _ in range(AT_ONCE if self._left else 0):
                try:
                    next(self._left[0])
                except StopIteration:
                    self._left.popleft()
                    if not self._left:
                        break
                if self._noted_bytes > most_bytes:
                    break
        finally:  # whoever is chosen now may be gone when this goes on
            for heir in self._heirs.values():
                self._give(heir)
            self._heirs.clear()
        return not self._left

    def sweep(self) -> None:
        """Go on with what is left of the turns before."""
        if self._noted_bytes:
            self._write()
        self.go_on()

    def _write(self) -> None:
        """Between two sessions: what one leaves and its end stand in one frame."""
        self._durability.write()
        self._noted_bytes = 0

    def finish(self) -> None:
        """The broker stops: hand over what is left, as far as the log can be read."""
        for _ in range(LAST_TURNS):
            if self.go_on():
                break

    # -- one session -----------------------------------------------------------------------------

    def _handed(self, estate: _Estate) -> Iterator[None]:
        """Hand over all that a session left, a piece at a time."""
        for item in estate.items:
            if isinstance(item, Places):
                for run in item.runs():
                    yield from self._hand_on(estate, run)
            else:
                self._hand_on_alone(estate, item)
                yield

    def _hand_on(self, estate: _Estate, run: WaitingRun) -> Iterator[None]:
        """Hand a run on; to another user's member message by message, which it may not receive.

        What the log lets go is put by for the user whose it is (`spared`), and not for others.
        """
        heir = self._heir(estate, run.way[1], run.count)
        if heir is None:
            return
        if self._is_like(estate, heir.session):
            self._add(heir, run)
            yield
            return
        alone = Places()
        alone.add(run.copy())
        while alone.count:
            read = None
            with suppress(OSError):  # the log can't be read now, and may be later
                read = read_first(self._durability.logged, alone)
            if read is not None:
                found, passed = read
                alone.skip(passed)
                for item in found:
                    self._hand_on_alone(estate, item)
            yield

    def _hand_on_alone(self, estate: _Estate, item: Delivery) -> None:
        """Hand a message on that is in memory."""
        message, flags, _ = item
        heir = self._heir(estate, flags, 1)
        if heir is None:
            return
        is_like = self._is_like(estate, heir.session)
        if is_like or self._may(heir.session, message.topic):
            self._give(heir)
            if message.ref is not None:
                alone = Places()
                alone.add(heir.run_of(WaitingRun.of(*item)))
                self._note(heir.session, alone, message.row())
                self._noted_bytes += message.size_bytes
            heir.session.outgoing.backlog.inherit((message, heir.flags_of(flags), heir.identifiers))
            heir.session.go_on(self._now())

    def _is_like(self, estate: _Estate, session: Session) -> bool:
        """Whether a session's client may receive all that the one before might."""
        return self._may_deliver is None or session.client.owner == estate.owner

    def _may(self, session: Session, topic: str) -> bool:
        may = self._may_deliver is None or self._may_deliver(session, topic)
        self._budget.dropped += not may
        return may

    def _add(self, heir: _Heir, run: WaitingRun) -> None:
        heir.places.add(heir.run_of(run))
        if heir.places.is_full:
            self._give(heir)

    def _heir(self, estate: _Estate, flags: int, count: int) -> _Heir | None:
        """Who goes on with a message of these flags; None if it is of no group, or nobody can."""
        mark = flags & ~IN_PACKET
        group = self._by_mark.get(mark) if mark else None
        if group is None:
            return None
        heir = self._heirs.get(mark)
        if heir is not None:
            if heir.session.outgoing.backlog.room >= heir.places.count + count:
                return heir
            self._give(heir)
        heir = self._chosen(estate, group, mark, count)
        if heir is None:
            self._budget.dropped += count
        else:
            self._heirs[mark] = heir
        return heir

    def _chosen(self, estate: _Estate, group: Group, mark: int, count: int) -> _Heir | None:
        """One of the members: rather one who is there and whose session lasts."""
        members = [
            (one, subscription)
            for one, subscription in self._tree.members(group)
            if subscription.qos and one.outgoing.backlog.room >= count
        ]
        if not members:
            return None
        self._turn += 1
        at = self._turn % len(members)

        def rank(member: tuple[Session, Subscription]) -> int:
            one = member[0]
            is_there = one.channel is not None
            return 4 * self._is_like(estate, one) + 2 * is_there + (one.expiry_s > 0)

        one, of = max((*members[at:], *members[:at]), key=rank)
        identifiers = (of.identifier,) if of.identifier else ()
        return _Heir(one, of.qos << 1 | mark, identifiers, of.retain_as_published, Places())

    def _give(self, heir: _Heir) -> None:
        """Let what was chosen for a member wait there, and send it what there is room for."""
        places, heir.places = heir.places, Places()
        if not places.count:
            return
        one = heir.session
        self._note(one, places)
        one.outgoing.backlog.inherit(places)
        one.go_on(self._now())

    def _note(self, session: Session, places: Places, row: Row | None = None) -> None:
        """Have the journal tell of what waits for a session, and of a message that no log has."""
        if session.record is not None:
            for saved in saved_places.saved(places, self._durability.lasting_ahead_s()):
                how = (saved.flags, saved.identifiers, saved.times)
                session.record.inherits(saved.key, saved.ranges, how, row)
