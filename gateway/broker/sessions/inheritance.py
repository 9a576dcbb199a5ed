"""Members of shared subscriptions, and who goes on with what one of them leaves (4.8.2).

A message that a member was not sent, or of QoS 1 and has not acknowledged, goes to another member
when its session ends. One of QoS 2 that was sent does not: the member may have had it, and nobody
could tell [MQTT-4.8.2-5]. They go behind what waits there, in their order.

What waits in the log goes as places in it, and is read by who gets it. What is in memory goes as it
is, for the log may have let it go: a checkpoint has it, or nobody. So much is handed over at a
time; the rest goes with the next sweeps.

Where no member here can go on with it, one on another gateway does (`SharedGroups.leave`), once the
journal has that it is taken, so that no start comes to it a second time. What the journal has of a
session's end and nobody has gone on with, a start goes on with (`durability.restored_estates`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final

from gateway.broker.durability import saved_places
from gateway.broker.durability.persistence import Persistence
from gateway.broker.limits import Budget
from gateway.broker.outbound.message import (
    IN_PACKET,
    HandedOnMessage,
    Message,
    share_mark,
)
from gateway.broker.outbound.routes import SubscriberTree
from gateway.broker.sessions.backlog import QueuedDelivery
from gateway.broker.sessions.estates import Estate, Estates
from gateway.broker.sessions.heirs import Heir
from gateway.broker.sessions.places import Places, WaitingRun
from gateway.broker.sessions.queue_log import read_first
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from tree_handler.batch import Epoch, Row
from tree_handler.holders import SharedGroup
from tree_handler.sharing.rule import SharedGroups

AT_ONCE: Final = 1_000
"""Runs of messages that are handed over before others have their turn."""
BYTES_AT_ONCE: Final = 6 << 20
"""And messages that are in memory alone: a frame of the journal holds them, twice so much."""
LAST_TURNS: Final = 1_000
"""So many such turns a stop may take."""
ELSEWHERE_AT_ONCE: Final = 100
"""Messages that go to other gateways in one turn: each is one more in all logs of the fleet."""
ELSEWHERE_BYTES_AT_ONCE: Final = 256 << 10
LATE_MAX: Final = 512
LATE_TEXT_MAX: Final = 64 << 10
"""Groups without members here that are remembered, and characters of their names and filters."""
_OWN: Final = ("", 0)


class Inheritance:
    """The messages that members of shared subscriptions leave, and the members that take them.

    Args:
        tree: who subscribed to what.
        groups: has members on other gateways go on with what nobody can here.
        may_deliver: whether a session's client may receive a topic; None where all may all.
        durability: keeps over a crash who goes on with what.
        budget: of all queues, which counts what is dropped.
        now: the loop's clock, in seconds.

    Attributes:
        is_busy: whether more can be handed over now.

    """

    def __init__(
        self,
        tree: SubscriberTree,
        groups: SharedGroups,
        may_deliver: Callable[[Session, str], bool] | None,
        durability: Persistence,
        budget: Budget,
        now: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._groups = groups
        self._may_deliver = may_deliver
        self._durability = durability
        self._budget = budget
        self._now = now
        self._by_mark: dict[int, SharedGroup] = {}
        self._late: OrderedDict[int, SharedGroup] = OrderedDict()
        """Those whose last member here has left, the latest last: what it had may still wait."""
        self._late_text = 0
        self._leaves = self._leave_bytes = 0
        """Messages, and bytes of them, that may go to other gateways in this turn."""
        self._left = Estates()
        self._heirs: dict[int, Heir] = {}
        """The heir of each group, by its mark."""
        self._going: list[tuple[Message, SharedGroup, int]] = []
        """The messages for other gateways: of which group, and how often handed on by then."""
        self._leaving: deque[tuple[int, Message, SharedGroup, int]] = deque()
        """The same once the journal has it, with the number of that frame."""
        self._turn = 0
        self.is_busy = False
        self._noted_bytes = 0
        """Of messages that the journal's next frame has to hold."""

    def joined(self, group: SharedGroup) -> None:
        """A session has part in a shared subscription."""
        mark = share_mark(group)
        if mark not in self._by_mark:
            self._by_mark[mark] = group
            self._forget(mark)

    def left(self, group: SharedGroup) -> None:
        """A session has part in it no longer."""
        mark = share_mark(group)
        if self._tree.members(group) or self._by_mark.pop(mark, None) is None:
            return
        self._late[mark] = group
        self._late_text += len(group[0]) + len(group[1])
        while len(self._late) > LATE_MAX or self._late_text > LATE_TEXT_MAX:
            self._forget(next(iter(self._late)))

    def _forget(self, mark: int) -> None:
        group = self._late.pop(mark, None)
        if group is not None:
            self._late_text -= len(group[0]) + len(group[1])

    def hand_over(self, session: Session) -> None:
        """Give others what waits in a session that ends; it has no part in any group any more."""
        if (self._by_mark or self._late) and session.outgoing.is_owed_any:
            if self._noted_bytes > BYTES_AT_ONCE:
                self._write()
            items = session.outgoing.left_behind()
            groups = self._groups_of(items)
            if groups:
                is_kept = self._durability.session_leaves(session, groups)
                self._add_estate(Estate(session.client.owner, items, groups, is_kept))
                self.go_on()

    def resume(self, estate: Estate) -> None:
        """Go on with what a session had left when the life before ended."""
        for mark, group in estate.groups.items():
            if mark not in self._by_mark:
                self._late[mark] = group
                self._late_text += len(group[0]) + len(group[1])
        self._add_estate(estate)

    def _add_estate(self, estate: Estate) -> None:
        if not self._left.add(estate, self._handed(estate)):
            self._budget.dropped += estate.count

    def _groups_of(self, items: list[QueuedDelivery | Places]) -> dict[int, SharedGroup]:
        marks: set[int] = set()
        for item in items:
            if isinstance(item, Places):
                marks.update(way[1] & ~IN_PACKET for way in item.ways)
            else:
                marks.add(item[1] & ~IN_PACKET)
        known = {mark: self._by_mark.get(mark) or self._late.get(mark) for mark in marks}
        return {mark: group for mark, group in known.items() if group is not None}

    def go_on(self) -> bool:
        """Hand over some more of what sessions that have ended left, and return whether that was
        all."""
        most_bytes = self._noted_bytes + BYTES_AT_ONCE
        could_read = True
        try:
            for _ in range(AT_ONCE):
                if not self._left or not could_read or self._noted_bytes > most_bytes:
                    break
                could_read = self._left.step()
        finally:  # whoever is chosen now may be gone when this goes on
            for heir in self._heirs.values():
                self._give(heir)
            self._heirs.clear()
            self.is_busy = could_read and bool(self._left)
        return not self._left

    def sweep(self) -> bool:
        """Go on with what is left of the turns before, and return whether that was all."""
        if not (self._noted_bytes or self.is_pending):
            return True
        if self._write() and not (self._going or self._leaving):
            # Only now: a session whose end the journal has not may come back with all it had.
            self._leaves, self._leave_bytes = ELSEWHERE_AT_ONCE, ELSEWHERE_BYTES_AT_ONCE
        begun_with = self._leaves
        try:
            is_done = self.go_on()
            has_left_all = begun_with and not self._may_leave
            self.is_busy = not is_done and (self.is_busy or bool(has_left_all))
        finally:
            self._leaves = 0
            self._let_leave()
            self.is_busy |= bool(self._leaving)  # the disk takes some milliseconds
        return is_done and not self.is_pending

    def _let_leave(self, *, at_once: bool = False) -> None:
        """Let those elsewhere have what was taken for them, once no crash takes that back."""
        if self._going and self._write():
            self._leaving += [(self._durability.last_frame, *one) for one in self._going]
            self._going.clear()
        while self._leaving and (at_once or self._durability.is_safe(self._leaving[0][0])):
            _, message, group, hops = self._leaving.popleft()
            if not self._groups.leave(message.entry(self._now()), group, hops):
                self._budget.dropped += 1

    @property
    def is_pending(self) -> bool:
        """Return whether the journal alone has something that nobody has gone on with."""
        return bool(self._left or self._going or self._leaving)

    @property
    def _may_leave(self) -> bool:
        return self._leaves > 0 and self._leave_bytes > 0

    def _write(self) -> bool:
        """Between two sessions: what one leaves and its end stand in one frame."""
        self._noted_bytes = 0
        return self._durability.write() is None

    def finish(self) -> None:
        """The broker stops: hand over what is left, as far as the log can be read."""
        for _ in range(LAST_TURNS):
            is_done = self.sweep()
            self._let_leave(at_once=True)
            if is_done:
                break

    # -- one session -----------------------------------------------------------------------------

    def _handed(self, estate: Estate) -> Iterator[bool]:
        """Hand over all that a session left, a piece at a time."""
        for item in estate.items:
            if not isinstance(item, Places):
                yield from self._hand_on_alone(estate, item)
            elif any(way[1] & ~IN_PACKET in estate.groups for way in item.ways):
                for run in item.runs():
                    yield from self._hand_on(estate, run)

    def _hand_on(self, estate: Estate, run: WaitingRun) -> Iterator[bool]:
        """Hand a run on; to another user's member message by message, which it may not receive.

        What the log lets go is put by for the user whose it is (`spilled_messages`), and not for
        others.
        """
        mark = run.way[1] & ~IN_PACKET
        group = estate.groups.get(mark)
        heir = None if group is None else self._heir(estate, group, mark, run.count)
        if group is None or (heir is None and not self._groups.is_elsewhere(group)):
            if group is not None:
                self._budget.dropped += run.count
                self._taken(estate, mark, run.way[0], (run.first, run.last))
            yield True
            return
        if heir is not None and self._is_like(estate, heir.session):
            self._add(heir, run)
            yield True
            return
        alone = Places()
        alone.add(run.copy())
        while alone.count:
            read = self._read_first(alone)
            if read is None:
                yield False
                continue
            found, passed = read
            alone.skip(passed)
            for item in found:
                yield from self._hand_on_alone(estate, item)
            yield True

    def _read_first(self, places: Places) -> tuple[list[QueuedDelivery], int] | None:
        """Read the first of what waits; None while the log can't be read, which may pass."""
        try:
            return read_first(self._durability.logged, places)
        except OSError:
            return None

    def _hand_on_alone(self, estate: Estate, item: QueuedDelivery) -> Iterator[bool]:
        """Hand a message on that is in memory: to a member here, else to another gateway."""
        message, flags, _ = item
        mark = flags & ~IN_PACKET
        group = estate.groups.get(mark)
        if group is not None:
            heir = self._heir(estate, group, mark, 1)
            if heir is not None and self._may(estate, heir.session, message.topic):
                self._inherit(heir, item)
            else:
                yield from self._leave(estate, message, mark, group)
        yield True

    def _inherit(self, heir: Heir, item: QueuedDelivery) -> None:
        message, flags, _ = item
        self._give(heir)
        if message.ref is not None:
            alone = Places()
            alone.add(heir.run_of(WaitingRun.of(*item)))
            self._note(heir.session, alone, message.row())
            self._noted_bytes += message.size_bytes
        heir.session.outgoing.backlog.inherit((message, heir.flags_of(flags), heir.identifiers))
        heir.session.go_on(self._now())

    def _leave(
        self, estate: Estate, message: Message, mark: int, group: SharedGroup
    ) -> Iterator[bool]:
        """Let a member on another gateway have a message, if no other gateway's may have had it."""
        stream = _OWN if message.ref is None else message.ref[0]
        while not message.expired(self._now()):
            if not (
                self._groups.is_elsewhere(group)
                and self._groups.is_sole(stream, message.sharing[1], group)
            ):
                break
            if not (self._may_leave and self._groups.is_settled):
                yield False
                continue
            self._leaves -= 1
            self._leave_bytes -= message.size_bytes
            hops = message.hops if isinstance(message, HandedOnMessage) else 0
            self._taken_alone(estate, mark, message)
            self._going.append((message, group, hops + 1))
            return
        self._taken_alone(estate, mark, message)
        self._budget.dropped += 1

    def _taken_alone(self, estate: Estate, mark: int, message: Message) -> None:
        if message.ref is not None:
            key, number = message.ref
            self._taken(estate, mark, key, (number, number))

    def _taken(self, estate: Estate, mark: int, key: Epoch, numbers: tuple[int, int]) -> None:
        """Have the journal tell that no start is to go on with this."""
        if estate.is_kept:
            self._durability.taken(key, numbers, mark)

    def _is_like(self, estate: Estate, session: Session) -> bool:
        """Return whether a session is the same user's, with the rights of the one before."""
        return session.client.owner == estate.owner

    def _may(self, estate: Estate, session: Session, topic: str) -> bool:
        is_asked = self._may_deliver is not None and not self._is_like(estate, session)
        return not is_asked or self._may_deliver is None or self._may_deliver(session, topic)

    def _add(self, heir: Heir, run: WaitingRun) -> None:
        heir.places.add(heir.run_of(run))
        if heir.places.is_full:
            self._give(heir)

    def _heir(self, estate: Estate, group: SharedGroup, mark: int, count: int) -> Heir | None:
        """Return who goes on with so many messages of a group; None if nobody here can."""
        heir = self._heirs.get(mark)
        if heir is not None:
            if heir.session.outgoing.backlog.room >= heir.places.count + count:
                return heir
            self._give(heir)
        heir = self._chosen(estate, group, mark, count)
        if heir is not None:
            self._heirs[mark] = heir
        return heir

    def _chosen(self, estate: Estate, group: SharedGroup, mark: int, count: int) -> Heir | None:
        """Choose one of the members: rather one who is there and whose session lasts."""
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
        return Heir(one, of.qos << 1 | mark, identifiers, of.retain_as_published, Places())

    def _give(self, heir: Heir) -> None:
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
        for saved in saved_places.saved(places, self._durability.lasting_ahead_s()):
            if session.record is not None:
                how = (saved.flags, saved.identifiers, saved.times)
                session.record.inherits(saved.key, saved.ranges, how, row)
            else:
                self._durability.taken(saved.key, saved.ranges, saved.flags & ~IN_PACKET)
