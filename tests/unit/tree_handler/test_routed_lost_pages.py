"""Logs in routed mode that have lost a page: for whom messages are, who is told, who asks again.

In most cases the origin started when it could not reach ``gw-1``, which wants ``t/#``, and knows
so from its log alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.tree_handler.routed_line import Line, Node
from tree_handler.batch import CONTROL_PREFIX, Entry, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Summary
from tree_handler.routing.interest import TOPIC, Interest, OwnInterest
from tree_handler.sharing.claims import OwnClaims

WANTED = Interest("gw-1", 1, 2, frozenset({"t/#"}))


def is_record(header: Header) -> bool:
    """Return whether a batch is the one in which the origin has the record of another gateway."""
    return header.control and header.first > 1


def is_number(number: int) -> Callable[[Header], bool]:
    return lambda header: not header.control and header.first == number


class World:
    """The origin, who wants its messages, and one who wants nothing."""

    def __init__(self) -> None:
        self.line = Line(3)
        self.origin, self.wanting, self.other = self.line.nodes
        self.cut()
        for payload in (b"", WANTED.encode()):  # before a record stands where lives have ended
            row = Entry(TOPIC + "gw-1" if payload else "begin", payload, qos=1).row()
            self.origin.do(self.origin.core.publish([row], Flags.LOGGED | Flags.CONTROL, 0))
        self.wanting.wants(2, "t/#")

    def cut(self) -> None:
        self.line.lose = {(0, 1), (1, 0)}

    def publish(self, *topics: str) -> None:
        """A batch for each, which is lost on its way."""
        for topic in topics:
            self.origin.publish(topic)
        self.line.run()

    def come_back(self) -> None:
        self.line.lose = set()
        self.origin.locator.forwards(())
        self.origin.routed.moved(self.line.now)
        self.line.link(self.origin)
        self.line.wait(5)

    def save(self) -> tuple[int, list[Any]]:
        """Accounts, and the place in the log as of which they are so."""
        return len(self.line.logs[0]), self.origin.routed.accounts.save()

    def restart(
        self,
        lost: Callable[[Header], bool] = lambda header: False,
        *,
        saved: tuple[int, list[Any]] = (0, []),
        is_whole: bool = False,
    ) -> None:
        log = self.line.logs[0]
        log[:] = [one for one in log if not lost(one[1])]
        epoch = self.origin.core.epoch + 1
        self.origin = self.line.nodes[0] = Node(self.line, 0, epoch)
        routed = self.origin.routed
        place, accounts = saved
        routed.accounts.load(accounts, self.line.now)
        for frame, header in log[place:]:
            routed.recall(frame, header, self.line.now)
        routed.recalled({}, self.line.now, is_whole=is_whole)

    def tell(self, record: Interest = WANTED) -> None:
        """A neighbour brings a record."""
        self.origin.routed.update(record, self.line.now)

    def told_all(self) -> None:
        """A neighbour says that it has what the origin has, and no more."""
        core = self.origin.core
        core.repair.link_up(1, self.line.now)
        core.repair.receive_summary(1, Summary(completes=True), self.line.now)
        self.line.wait(2)


def test_messages_behind_a_lost_record_reach_who_wants_them() -> None:
    world = World()
    world.publish("t/1", "t/2")
    world.restart(is_record)
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1", "t/2"]


def test_messages_that_stay_at_home_stay_there_whatever_page_is_lost() -> None:
    world = World()
    row = Entry("t/home", b"", qos=1).row()
    world.origin.do(world.origin.core.publish([row], Flags.LOGGED | Flags.LOCAL, 0))
    world.publish("t/1")
    world.restart(is_record)
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1"]


def test_what_is_accepted_before_a_lost_record_is_back_reaches_who_wants_it() -> None:
    world = World()
    world.restart(is_record)
    world.publish("t/1")
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1"]


def test_what_is_accepted_while_an_older_record_is_known_reaches_who_wants_it_by_now() -> None:
    world = World()
    world.restart(is_record)
    world.tell(Interest("gw-1", 1, 1))
    world.publish("t/1")
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1"]


def test_once_neighbours_have_told_all_messages_go_to_who_wants_them_alone() -> None:
    world = World()
    world.restart(is_record)
    world.publish("y")
    world.tell()
    world.tell(Interest("gw-2", 1, 2))
    world.line.lose = set()
    world.line.link(world.origin)
    assert world.origin.routed.is_unsure
    world.told_all()
    assert not world.origin.routed.is_unsure
    world.origin.publish("t/1", "x")
    world.line.run()
    assert world.wanting.got == ["y", "t/1"]
    assert world.other.got == ["y"]


def test_who_is_met_after_neighbours_have_told_all_and_a_restart_gets_what_was_for_everybody() -> (
    None
):
    world = World()
    world.publish("t/1")
    world.restart(is_record)
    world.publish("t/2")
    world.line.lose = set()
    world.line.link(world.origin)
    world.told_all()
    world.publish("t/3")
    world.restart(saved=world.save(), is_whole=True)
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1", "t/2"]


def test_who_lacks_a_message_between_gateways_is_not_sure_though_neighbours_have_told_all() -> None:
    world = World()
    world.restart(is_record)
    world.line.lose = set()
    world.line.link(world.origin)
    gap = (CONTROL_PREFIX + "gw-1", 1)
    world.origin.core.have[gap] = Intervals([(1, 1), (3, 3)])
    world.told_all()
    assert world.origin.routed.is_unsure


def test_who_has_not_read_all_of_its_log_is_not_sure_though_neighbours_have_told_all() -> None:
    world = World()
    world.restart(is_record)
    world.line.lose = set()
    world.line.link(world.origin)
    world.origin.routed.log_is_read(False)
    world.told_all()
    assert world.origin.routed.is_unsure
    world.origin.routed.log_is_read(True)
    world.line.wait(2)
    assert not world.origin.routed.is_unsure


def test_messages_that_a_page_held_are_told_as_lost_to_who_has_not_heard_of_them() -> None:
    world = World()
    world.publish("t/1", "t/2", "t/3")
    world.restart(is_number(2))
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1", "t/3"]
    assert world.wanting.core.counters.lost == 1


def test_they_are_told_so_also_after_the_origin_has_noted_in_its_log_that_they_are_lost() -> None:
    world = World()
    world.publish("t/1", "t/2", "t/3")
    world.restart(is_number(2))
    world.origin.do(world.origin.core.repair.handle_timer(world.line.now))
    assert any(header.flags & Flags.LOST for _, header in world.line.logs[0])
    world.restart(is_whole=True)
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1", "t/3"]
    assert world.wanting.core.counters.lost == 1


def test_who_is_known_not_to_have_wanted_a_lost_message_is_told_of_no_loss() -> None:
    world = World()
    world.publish("x", "t/2", "t/3")
    saved = world.save()
    world.restart(lambda header: not header.control and header.first < 3, saved=saved)
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/3"]
    assert world.wanting.core.counters.lost == 1


def test_who_is_met_late_hears_how_earlier_lives_ended_of_which_nothing_is_for_it() -> None:
    """Else the messages of the later one wait for ever."""
    world = World()
    world.publish("x")
    world.restart(saved=world.save(), is_whole=True)
    saved = world.save()
    world.publish("t/1")
    world.restart(saved=saved)
    world.tell()
    world.come_back()
    assert world.wanting.got == ["t/1"]


# -- a page that a running gateway finds it has lost ----------------------------------------------


def loses(world: World, number: int) -> None:
    """The log of who wants messages can't read one of them any more."""
    node, stream, lost = world.wanting, ("gw-0", 1), Intervals([(number, number)])
    world.line.logs[1][:] = [
        one for one in world.line.logs[1] if one[1].stream != stream or one[1].first != number
    ]
    node.core.lost(stream, lost)
    node.routed.lost(stream, lost, world.line.now)


def test_what_a_running_gateway_finds_lost_is_asked_of_its_origin_though_it_was_acknowledged() -> (
    None
):
    world = World()
    world.line.lose = set()
    world.origin.publish("t/1")
    world.origin.publish("t/2")
    world.line.wait(60)
    loses(world, 1)
    world.line.wait(1)
    assert world.wanting.got == ["t/1", "t/2", "t/1"], "who had it is the receiver's to know"
    assert world.wanting.core.covered(("gw-0", 1)) == Intervals([(1, 2)])


def test_an_answer_that_is_lost_on_the_way_is_made_again_though_nothing_was_claimed() -> None:
    world = World()
    world.line.lose = set()
    world.origin.publish("t/1")
    world.line.wait(60)
    world.line.lose = {(0, 1)}
    loses(world, 1)
    world.line.wait(5)
    world.line.lose = set()
    world.line.wait(30)
    assert world.wanting.got == ["t/1", "t/1"]
    before = len(world.line.carried)
    world.line.wait(300)
    assert len(world.line.carried) == before


def test_it_is_asked_for_until_the_origin_is_in_reach_and_then_all_is_quiet() -> None:
    world = World()
    world.line.lose = set()
    world.origin.publish("t/1")
    world.line.wait(60)
    world.cut()
    loses(world, 1)
    world.line.wait(100)
    world.line.lose = set()
    world.line.wait(20)
    assert world.wanting.got == ["t/1", "t/1"]
    before = len(world.line.carried)
    world.line.wait(100)
    assert len(world.line.carried) == before


def test_what_its_origin_has_lost_too_is_told_as_lost() -> None:
    world = World()
    world.line.lose = set()
    world.origin.publish("t/1")
    world.line.wait(60)
    world.line.logs[0][:] = [one for one in world.line.logs[0] if one[1].control]
    loses(world, 1)
    world.line.wait(1)
    assert world.wanting.core.counters.lost == 1


def test_so_is_what_stood_behind_the_end_that_its_origin_knows_of_since_it_lost_more() -> None:
    world = World()
    world.line.lose = set()
    world.origin.publish("t/1")
    world.origin.publish("t/2")
    world.line.wait(60)
    world.restart(is_number(2))
    world.line.link(world.origin)
    loses(world, 2)
    world.line.wait(1)
    assert world.wanting.core.counters.lost == 1


def test_what_a_start_finds_missing_is_asked_for_though_its_origin_claims_nothing_any_more() -> (
    None
):
    world = World()
    world.line.lose = set()
    for topic in ("t/1", "t/2"):
        world.origin.publish(topic)
        world.line.run()
    world.line.logs[0][:] = [one for one in world.line.logs[0] if one[1].control]
    world.origin.routed.trimmed({("gw-0", 1): 3})
    world.line.logs[1][:] = [one for one in world.line.logs[1] if one[1].first != 1]
    again = world.line.restart(1, epoch=2)
    world.line.wait(20)
    assert again.core.covered(("gw-0", 1)) == Intervals([(1, 2)])


def test_a_record_that_the_log_has_lost_is_told_anew() -> None:
    own = OwnInterest("gw-0", 1)
    own.subscribed("t/#")
    record = own.take(0.0)
    assert record is not None
    own.logged(record, 5)
    stream = (CONTROL_PREFIX + "gw-0", 1)
    own.lost({stream: Intervals([(1, 4)])})
    assert own.take(10.0) is None
    own.lost({stream: Intervals([(4, 5)])})
    again = own.take(20.0)
    assert again is not None
    assert again.subscribes == record.subscribes
    assert again.version > record.version


def test_so_is_who_is_there_of_shared_subscriptions() -> None:
    own = OwnClaims("gw-0", 1)
    own.changed(("g", "t"), 1)
    record = own.take(0.0)
    assert record is not None
    own.logged(record, 5)
    own.lost({(CONTROL_PREFIX + "gw-0", 1): Intervals([(5, 5)])})
    again = own.take(20.0)
    assert again is not None
    assert again.groups == record.groups
