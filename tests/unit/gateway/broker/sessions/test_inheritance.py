"""Messages that members of shared subscriptions leave: who goes on with which, and what is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from members_elsewhere import MembersElsewhere

from gateway.base.turns import Turns
from gateway.broker.durability.persistence import Persistence
from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits, counted_refusals
from gateway.broker.outbound.channel import Channel, PendingWrites
from gateway.broker.outbound.message import Message, share_mark
from gateway.broker.sessions import inheritance as module
from gateway.broker.sessions.estates import OVERHEAD_BYTES, Estate
from gateway.broker.sessions.inheritance import LATE_MAX, LATE_TEXT_MAX, Inheritance
from gateway.broker.sessions.places import KINDS_MAX, Places, WaitingRun
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.statistics.traffic import Traffic
from gateway.broker.topics.subscription_tree import SubscriptionTree
from tree_handler.batch import Entry, Epoch
from tree_handler.holders import SharedGroup
from tree_handler.sharing.rule import EachGateway, SharedGroups

JOBS: SharedGroup = ("workers", "jobs/#")
QOS_1 = 2
STREAM: Epoch = ("gw", 1)
OWNED = ("anna", False)


class Elsewhere(MembersElsewhere):
    """Notes what is left to another gateway, which may refuse it."""

    def __init__(self) -> None:
        self.left: list[tuple[bytes, int]] = []
        """Payloads that were left to it, each with how often it was handed on by then."""
        self.takes = True

    def leave(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        if self.takes:
            self.left.append((entry.payload, hops))
        return self.takes


class Members:
    """Sessions that wait for their clients, in a broker that knows no other gateway."""

    def __init__(
        self,
        groups: SharedGroups | None = None,
        may_deliver: Callable[[Session, str], bool] | None = None,
        **limits: Any,
    ) -> None:
        self.limits = Limits(**limits)
        self.budget = Budget(self.limits)
        self.tree: SubscriptionTree[Session, Subscription] = SubscriptionTree()
        self.left = Inheritance(
            self.tree,
            groups or EachGateway(),
            may_deliver,
            Persistence(("gw", 1)),
            self.budget,
            lambda: 0.0,
        )

    def session(self, name: str, user: str = "anna") -> Session:
        client = Client(name, user, "", 5)
        session = Session(client, self.limits, self.budget, None)
        session.expiry_s = 60
        return session

    def member(self, name: str, group: SharedGroup = JOBS, user: str = "anna") -> Session:
        session = self.session(name, user)
        self.tree.add(f"$share/{group[0]}/{group[1]}", session, Subscription(1))
        self.left.joined(group)
        return session

    def ends(self, session: Session, group: SharedGroup = JOBS) -> None:
        """A member unsubscribes and its session ends."""
        self.tree.remove(f"$share/{group[0]}/{group[1]}", session)
        self.left.left(group)
        self.left.hand_over(session)


def places(*runs: tuple[Epoch, int, int], group: SharedGroup | None = JOBS) -> Places:
    made = Places()
    mark = 0 if group is None else share_mark(group)
    for key, first, last in runs:
        made.add(WaitingRun((key, QOS_1 | mark, ()), first, last))
    return made


def waiting(session: Session) -> list[tuple[Epoch, int, int]]:
    found = session.outgoing.backlog.places()
    return [(run.way[0], run.first, run.last) for one in found for run in one.runs()]


def test_what_waited_for_a_group_goes_to_a_member_in_order_and_nothing_else_does() -> None:
    world = Members()
    one, other = world.member("one"), world.member("other")
    mixed = places((STREAM, 1, 3))
    mixed.add(WaitingRun((STREAM, QOS_1, ()), 4, 6))  # of a subscription of its own
    mixed.add(WaitingRun((STREAM, QOS_1 | share_mark(JOBS), ()), 7, 9))
    one.outgoing.backlog.restore(mixed)
    world.ends(one)
    assert waiting(other) == [(STREAM, 1, 3), (STREAM, 7, 9)]
    assert (other.outgoing.backlog.count, world.budget.dropped) == (6, 0)
    assert world.left.sweep()


def test_what_no_member_can_go_on_with_is_dropped_and_counted() -> None:
    world = Members()
    last = world.member("last")
    last.outgoing.backlog.restore(places((STREAM, 1, 3), (STREAM, 9, 10)))
    world.ends(last)
    assert world.budget.dropped == 5
    assert world.left.sweep()


def test_a_member_without_room_gets_nothing() -> None:
    world = Members(queue_messages=4)
    one, other = world.member("one"), world.member("other")
    one.outgoing.backlog.restore(places((STREAM, 1, 4)))
    other.outgoing.backlog.restore(places((STREAM, 9, 9), group=None))
    world.ends(one)
    assert waiting(other) == [(STREAM, 9, 9)]
    assert world.budget.dropped == 4


@pytest.mark.parametrize("first", range(3))
async def test_the_heir_is_rather_of_the_same_user_than_there_and_there_than_one_that_lasts(
    first: int,
) -> None:
    """Whoever's turn it is."""
    lines = counted_refusals(lambda: 0.0)
    kinds = [("bob", True, 0), ("bob", False, 60), ("bob", False, 0)]
    for better in (("anna", False, 0), None):
        world = Members()
        one = world.member("one")
        members = {}
        for kind in [*kinds[first:], *kinds[:first], *([better] if better else [])]:
            user, is_there, expiry_s = kind
            member = members[kind] = world.member(f"{kind}", user=user)
            member.expiry_s = expiry_s
            if is_there:
                turns = Turns(lambda: False)
                output = PendingWrites(turns, world.limits, lines, Traffic(), lambda: 0.0)
                member.channel = Channel(output)
        message = Message("jobs/1", b"jobs/1", b"x", 1, False)
        message.ref = (STREAM, 1)
        one.outgoing.backlog.restore((message, QOS_1 | share_mark(JOBS), ()))
        world.ends(one)
        chosen = [kind for kind, member in members.items() if member.outgoing.backlog.count]
        assert chosen == [better or ("bob", True, 0)]


@pytest.mark.parametrize(("user", "may"), [("anna", False), ("bob", True), ("bob", False)])
def test_a_member_of_another_user_gets_what_it_may_receive_and_one_of_the_same_user_all(
    user: str, *, may: bool
) -> None:
    world = Members(may_deliver=lambda session, topic: may)
    one, heir = world.member("one"), world.member("heir", user=user)
    message = Message("jobs/1", b"jobs/1", b"x", 1, False)
    message.ref = (STREAM, 1)
    one.outgoing.backlog.restore((message, QOS_1 | share_mark(JOBS), ()))
    world.ends(one)
    is_given = may or user == "anna"
    assert (heir.outgoing.backlog.count, world.budget.dropped) == (is_given, not is_given)


def test_messages_of_many_streams_come_to_one_member_in_their_order() -> None:
    world = Members()
    one, other = world.member("one"), world.member("other")
    runs = [((f"gw{n}", 1), 5, 5) for n in range(KINDS_MAX + 50)]
    for run in runs:
        one.outgoing.backlog.restore(places(run))
    world.ends(one)
    assert waiting(other) == runs
    assert other.outgoing.backlog.count == len(runs)


LEFT_CHARACTERS = LATE_TEXT_MAX - len("".join(JOBS))


@pytest.mark.parametrize(
    ("others", "is_known"),
    [
        ([(f"{number}", "f") for number in range(LATE_MAX - 1)], True),
        ([(f"{number}", "f") for number in range(LATE_MAX)], False),
        ([("n" * (LEFT_CHARACTERS - 1), "f")], True),
        ([("n" * LEFT_CHARACTERS, "f")], False),
    ],
    ids=["as many groups", "one more", "as long names", "a letter more"],
)
def test_of_groups_without_a_member_so_many_and_so_long_ones_are_remembered(
    others: list[SharedGroup], *, is_known: bool
) -> None:
    """Messages of one that is forgotten are not counted: nobody knows whose they were."""
    world = Members()
    session = world.member("was")
    world.ends(session)
    for group in others:
        world.ends(world.member("m", group), group)
    session.outgoing.backlog.restore(places((STREAM, 1, 3)))
    world.left.hand_over(session)
    assert world.budget.dropped == (3 if is_known else 0)


@pytest.mark.parametrize(("more", "is_known"), [(0, True), (1, False)])
def test_of_groups_of_the_life_before_as_long_ones_are_remembered(
    more: int, *, is_known: bool
) -> None:
    world = Members()
    session = world.session("was")
    mark = share_mark(JOBS)
    world.left.resume(Estate(OWNED, [], {mark: JOBS}))
    group = "n" * (LEFT_CHARACTERS - 1 + more), "f"
    world.ends(world.member("m", group), group)
    session.outgoing.backlog.restore(places((STREAM, 1, 3)))
    world.left.hand_over(session)
    assert world.left.sweep()
    assert world.budget.dropped == (3 if is_known else 0)


def test_a_group_that_has_members_again_is_not_forgotten() -> None:
    world = Members()
    session = world.member("was")
    world.tree.remove("$share/workers/jobs/#", session)
    world.left.left(JOBS)
    heir = world.member("heir")
    session.outgoing.backlog.restore(places((STREAM, 1, 3)))
    world.left.hand_over(session)
    assert waiting(heir) == [(STREAM, 1, 3)]


@pytest.mark.parametrize("less", [0, 1])
def test_a_frame_of_the_journal_is_written_before_it_holds_too_much(
    monkeypatch: pytest.MonkeyPatch, less: int
) -> None:
    written = []
    monkeypatch.setattr(Persistence, "write", lambda _: written.append(True))
    two = 2 * Message("jobs/1", b"jobs/1", bytes(400), 1, False).size_bytes
    monkeypatch.setattr(module, "BYTES_AT_ONCE", two - less)
    world = Members()
    heir = world.member("heir")
    calls = []
    for number, size in enumerate((400, 400, 10), 1):
        member = world.member(f"m{number}")
        message = Message("jobs/1", b"jobs/1", bytes(size), 1, False)
        message.ref = (STREAM, number)
        member.outgoing.backlog.restore((message, QOS_1 | share_mark(JOBS), ()))
        world.ends(member)
        calls.append(len(written))
    assert heir.outgoing.backlog.count == 3
    assert calls == [0, 0, less], "beyond the bytes, not at them"


def leaving(groups: Elsewhere) -> Members:
    """The last member here of a subscription has gone, and three messages waited for it."""
    world = Members(groups)
    last = world.member("last")
    for number in (1, 2, 3):
        message = Message("jobs/1", b"jobs/1", b"%d" % number, 1, False)
        message.ref = (STREAM, number)
        last.outgoing.backlog.restore((message, QOS_1 | share_mark(JOBS), ()))
    world.ends(last)
    return world


def test_what_no_member_here_can_go_on_with_goes_elsewhere_with_the_next_sweep() -> None:
    groups = Elsewhere()
    world = leaving(groups)
    assert (groups.left, world.left.is_pending) == ([], True)
    assert world.left.sweep()
    assert groups.left == [(b"1", 1), (b"2", 1), (b"3", 1)]
    assert (world.left.is_pending, world.left.is_busy, world.budget.dropped) == (False, False, 0)
    assert world.left.sweep()
    assert len(groups.left) == 3


def test_nothing_goes_elsewhere_before_the_journal_has_that_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = Elsewhere()
    world = leaving(groups)
    answers: list[OSError | None] = [None, OSError("disk full"), OSError("disk full")]

    def write(_: Persistence) -> OSError | None:
        return answers.pop(0) if answers else None

    with monkeypatch.context() as patched:
        patched.setattr(Persistence, "write", write)
        patched.setattr(Persistence, "is_safe", lambda *_: False)
        for _ in range(3):  # taken, not written, and then not safe
            assert not world.left.sweep()
            assert (groups.left, world.left.is_pending) == ([], True)
        assert answers == []
        world.left.finish()
    assert groups.left == [(b"1", 1), (b"2", 1), (b"3", 1)], "a stop waits for no disk"
    assert not world.left.is_pending


def test_what_nobody_elsewhere_takes_is_dropped_and_counted() -> None:
    groups = Elsewhere()
    world = leaving(groups)
    groups.takes = False
    assert world.left.sweep()
    assert (groups.left, world.budget.dropped) == ([], 3)


@pytest.mark.parametrize("where", ["elsewhere", "nowhere else", "to a member that does not last"])
def test_the_journal_is_told_of_what_is_taken_and_of_what_is_dropped(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No start is to go on with it a second time."""
    taken: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Persistence, "session_leaves", lambda *_: True)
    monkeypatch.setattr(Persistence, "taken", lambda _, *told: taken.append(told))
    mark = share_mark(JOBS)
    if where == "elsewhere":
        leaving(Elsewhere()).left.sweep()
        assert taken == [(STREAM, (number, number), mark) for number in (1, 2, 3)]
        return
    world = Members()
    last = world.member("last")
    if where != "nowhere else":
        world.member("heir")
    last.outgoing.backlog.restore(places((STREAM, 1, 3), (STREAM, 9, 9)))
    world.ends(last)
    told = [(STREAM, (1, 3), mark), (STREAM, (9, 9), mark)]
    assert taken == (told if where == "nowhere else" else [(STREAM, (1, 3, 9, 9), mark)])


def test_an_estate_counts_what_is_of_its_groups_and_all_that_takes_memory() -> None:
    mine, other = share_mark(JOBS), share_mark(("workers", "other/#"))
    waits = places((STREAM, 1, 3))
    waits.add(WaitingRun((STREAM, QOS_1 | other, ()), 4, 9))
    message = Message("jobs/1", b"jobs/1", b"x", 1, False)
    items = [waits, (message, QOS_1 | mine, ()), (message, QOS_1, ())]
    estate = Estate(OWNED, [*items], {mine: JOBS})
    assert estate.count == 4
    assert estate.size_bytes == OVERHEAD_BYTES + waits.size_bytes + 2 * message.size_bytes
