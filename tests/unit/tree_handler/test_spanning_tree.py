"""One core against neighbours that the test speaks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.spanning.bpdu import UNREACHABLE_MS, Bpdu, BpduFlags, Kind
from tree_handler.spanning.election import Root
from tree_handler.spanning.round_trip import SETTLED_SAMPLES
from tree_handler.spanning.spanning_tree import (
    Changed,
    Discard,
    Drop,
    Forward,
    Identity,
    Parameters,
    Role,
    Send,
    SpanningAction,
    SpanningTree,
)

ME = Identity("gw-m", 1, 3.0, "10.0.0.13")
BEST = Root("gw-r", 1, 9.0, "10.0.0.1")
GOOD = Root("gw-s", 1, 5.0, "10.0.0.2")


class Bench:
    """A core, and what its neighbours say to it."""

    def __init__(self, identity: Identity = ME, **parameters: Any) -> None:
        self.now = 100.0
        self.tree = SpanningTree(identity, Parameters(**parameters), self.now)
        self.peers: dict[int, tuple[str, int]] = {}
        self._number = 1000

    def up(self, link: int, peer_id: str, epoch: int = 1) -> list[SpanningAction]:
        self.peers[link] = (peer_id, epoch)
        self.tree.link_up(link, peer_id, self.now)
        return self.tree.take_actions()

    def down(self, link: int) -> list[SpanningAction]:
        self.tree.link_down(link, self.now)
        return self.tree.take_actions()

    def hear(self, link: int, kind: Kind, root: Root, **fields: Any) -> list[SpanningAction]:
        self._number += 1
        peer_id, epoch = self.peers[link]
        bpdu = Bpdu(kind, self._number, peer_id, epoch, 4.0, root, **fields)
        self.tree.receive(link, bpdu, self.now)
        return self.tree.take_actions()

    def hello(
        self,
        link: int,
        root: Root,
        sequence: int = 1,
        cost_ms: int = 5,
        flags: BpduFlags = BpduFlags.TRANSIT | BpduFlags.AGREEMENT,
    ) -> list[SpanningAction]:
        return self.hear(
            link, Kind.HELLO, root, sequence=sequence, cost_ms=cost_ms, hops=1, flags=flags
        )

    def accept(self, link: int, joined: list[SpanningAction]) -> list[SpanningAction]:
        join = said(joined, Kind.JOIN, link)[0]
        return self.hear(link, Kind.ACCEPT, join.root, answers=join.number)

    def join_through(self, link: int, root: Root, **offer: int) -> None:
        """Become a neighbour's child, accepted."""
        self.accept(link, self.hello(link, root, **offer))
        assert link in self.tree.forwarding

    def pass_time(self, seconds: float) -> list[SpanningAction]:
        actions: list[SpanningAction] = []
        end = self.now + seconds
        while self.tree.next_timer() <= end:
            self.now = max(self.now, self.tree.next_timer())
            self.tree.handle_timer(self.now)
            actions += self.tree.take_actions()
        self.now = end
        return actions


def said(actions: list[SpanningAction], kind: Kind, link: int | None = None) -> list[Bpdu]:
    return [
        action.bpdu
        for action in actions
        if isinstance(action, Send) and action.bpdu.kind is kind and link in (None, action.link)
    ]


def order(actions: list[SpanningAction], *wanted: SpanningAction | Kind) -> None:
    """Check that these come in this order."""
    at = -1
    for one in wanted:
        at = next(
            i
            for i, action in enumerate(actions)
            if i > at and (action == one or (isinstance(action, Send) and action.bpdu.kind is one))
        )


# -- links that are agreed on --------------------------------------------------------------------


def joins(bench: Bench, link: int, root: Root = BEST, **distance: int) -> list[SpanningAction]:
    """A neighbour asks to be a child, from farther away."""
    return bench.hear(link, Kind.JOIN, root, **({"sequence": 1, "cost_ms": 90} | distance))


def test_whoever_joins_from_farther_away_is_accepted_and_told_no_more() -> None:
    bench = Bench()
    bench.up(1, "gw-r")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST)
    actions = joins(bench, 2)
    order(actions, Kind.ACCEPT, Forward(2))
    assert not said(actions, Kind.LEAVE)
    assert bench.tree.role(2) is Role.DESIGNATED
    assert bench.tree.forwarding == {1, 2}


def test_a_neighbour_that_is_asked_and_joins_itself_is_asked_no_more() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=10)
    bench.hello(2, BEST, sequence=4, cost_ms=2)
    (asked,) = said([*measure(bench, 1, 20.0), *measure(bench, 2, 5.0)], Kind.JOIN, 2)
    actions = joins(bench, 2, sequence=4)
    order(actions, Kind.LEAVE, Kind.ACCEPT, Forward(2))
    assert [one.answers for one in said(actions, Kind.LEAVE)] == [asked.number]
    assert bench.tree.parent_link == 1
    assert 1 in bench.tree.forwarding


def test_a_child_that_is_asked_for_the_way_is_let_go_first() -> None:
    bench = Bench()
    for link, peer_id in ((1, "gw-b"), (2, "gw-c"), (3, "gw-d")):
        bench.up(link, peer_id)
    bench.join_through(1, BEST)
    joins(bench, 2)
    bench.hello(3, BEST, cost_ms=90)  # no way for now, and hope that there is one
    bench.down(1)
    assert bench.tree.forwarding == {2}
    actions = bench.hello(2, BEST, sequence=9)  # it has another way, of which this is news
    order(actions, Discard(2), Kind.JOIN)
    assert bench.tree.forwarding == frozenset()
    assert bench.tree.role(2) is Role.ROOT
    assert Forward(2) in bench.accept(2, actions)


# -- election ------------------------------------------------------------------------------------


def test_a_gateway_alone_is_its_own_root() -> None:
    tree = Bench().tree
    assert (tree.root_id, tree.root.capability, tree.cost_ms, tree.hops) == ("gw-m", 3.0, 0, 0)
    assert tree.parent_link is None
    assert tree.forwarding == frozenset()


def test_a_root_with_another_key_is_the_same_root_under_another_signature() -> None:
    bench = Bench(replace(ME, seal=b"older"))
    bench.up(1, "gw-b")
    bench.tree.reseal(replace(ME, seal=b"newer"))
    assert bench.tree.take_actions() == []
    hello = said(bench.pass_time(1.0), Kind.HELLO, 1)[-1]
    assert (hello.root, hello.root.seal) == (ME.root, b"newer")


def test_a_roots_newest_signature_goes_on_with_its_next_hello_and_moves_nobody() -> None:
    bench = Bench()
    bench.up(1, "gw-r")
    bench.up(2, "gw-c")
    bench.join_through(1, replace(BEST, seal=b"older"))
    actions = bench.hello(1, replace(BEST, seal=b"newer"), sequence=2)
    assert [hello.root.seal for hello in said(actions, Kind.HELLO, 2)] == [b"newer"]
    assert not [action for action in actions if isinstance(action, Changed)]
    assert 1 in bench.tree.forwarding


def test_a_gateway_that_leaves_its_root_stands_for_election_with_its_newest_signature() -> None:
    bench = Bench(replace(ME, seal=b"older"))
    bench.up(1, "gw-r")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST)
    bench.tree.reseal(replace(ME, seal=b"newer"))
    told = said([*bench.down(1), *bench.pass_time(30.0)], Kind.HELLO, 2)
    assert (told[-1].root, told[-1].root.seal) == (ME.root, b"newer")


def test_a_new_neighbour_is_told_at_once() -> None:
    (hello,) = said(Bench().up(1, "gw-b"), Kind.HELLO, 1)
    assert (hello.root, hello.cost_ms, hello.hops) == (ME.root, 0, 0)


def test_a_better_root_is_joined_and_a_worse_one_is_not() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    worse = Root("gw-c", 1, 1.0, "10.0.0.3")
    assert not said(bench.hello(2, worse), Kind.JOIN)
    actions = bench.hello(1, BEST)
    (join,) = said(actions, Kind.JOIN, 1)
    assert join.root == BEST
    assert bench.tree.root_id == "gw-r"
    assert {hello.root for hello in said(actions, Kind.HELLO)} == {BEST}


def test_among_ways_to_the_same_root_the_cheapest_is_taken_then_the_better_neighbour() -> None:
    bench = Bench()
    for link, peer_id in ((1, "gw-d"), (2, "gw-b"), (3, "gw-c")):
        bench.up(link, peer_id)
    bench.hello(1, GOOD, cost_ms=1)
    bench.hello(2, BEST, cost_ms=7)
    bench.hello(3, BEST, cost_ms=5)
    bench.down(2)
    assert bench.tree.parent_link == 3


def test_a_leaf_follows_any_root_and_takes_no_children() -> None:
    bench = Bench(Identity("gw-cloud", 1, 0.0, "10.0.0.99", transit=False))
    actions = bench.up(1, "gw-b")
    assert BpduFlags.TRANSIT not in said(actions, Kind.HELLO)[0].flags
    bench.join_through(1, Root("gw-b", 1, 0.0, "10.0.0.200"))
    bench.up(2, "gw-c")
    actions = bench.hear(2, Kind.JOIN, Root("gw-b", 1, 0.0, "10.0.0.200"))
    assert said(actions, Kind.REFUSE, 2)


def test_a_leaf_is_never_a_parent() -> None:
    bench = Bench()
    bench.up(1, "gw-cloud")
    assert not said(bench.hello(1, BEST, flags=BpduFlags(0)), Kind.JOIN)
    assert bench.tree.root_id == "gw-m"


# -- agreement -----------------------------------------------------------------------------------


def test_a_child_forwards_only_when_the_parent_accepted_its_very_join() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    join = said(bench.hello(1, BEST), Kind.JOIN, 1)[0]
    bench.hear(1, Kind.ACCEPT, BEST, answers=join.number + 1)
    assert not bench.tree.forwarding
    actions = bench.hear(1, Kind.ACCEPT, BEST, answers=join.number)
    assert Forward(1) in actions
    assert bench.tree.role(1) is Role.ROOT
    assert bench.tree.counters["stale_answer"] == 1


def test_a_parent_says_accept_and_then_forwards() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    actions = bench.hear(1, Kind.JOIN, ME.root, sequence=0, cost_ms=UNREACHABLE_MS)
    order(actions, Kind.ACCEPT, Forward(1))
    assert bench.tree.role(1) is Role.DESIGNATED


@pytest.mark.parametrize("root", [BEST, Root("gw-m", 2, 3.0, "10.0.0.13")])
def test_a_join_for_another_root_or_epoch_is_refused(root: Root) -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    assert said(bench.hear(1, Kind.JOIN, root), Kind.REFUSE, 1)
    assert not bench.tree.forwarding


def test_a_join_from_one_that_is_not_farther_from_the_root_is_refused() -> None:
    bench = Bench(unmeasured_ms=10)
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=5)
    for sequence, cost_ms in ((4, 15), (4, 3), (5, 900)):
        actions = bench.hear(2, Kind.JOIN, BEST, sequence=sequence, cost_ms=cost_ms)
        assert said(actions, Kind.REFUSE, 2), (sequence, cost_ms)
    for sequence, cost_ms in ((4, 16), (3, 1)):
        actions = bench.hear(2, Kind.JOIN, BEST, sequence=sequence, cost_ms=cost_ms)
        assert said(actions, Kind.ACCEPT, 2), (sequence, cost_ms)


def test_a_change_of_root_stops_every_link_before_anyone_is_told() -> None:
    bench = Bench()
    for link, peer_id in ((1, "gw-b"), (2, "gw-c"), (3, "gw-d")):
        bench.up(link, peer_id)
    bench.join_through(1, GOOD)
    bench.hear(2, Kind.JOIN, GOOD)
    assert bench.tree.forwarding == {1, 2}
    actions = bench.hello(3, BEST)
    order(actions, Discard(2), Discard(1), Kind.LEAVE, Kind.JOIN, Kind.HELLO)
    first_said = next(i for i, action in enumerate(actions) if isinstance(action, Send))
    assert Discard(2) in actions[:first_said]
    assert Discard(1) in actions[:first_said]
    assert bench.tree.forwarding == frozenset()


def test_a_parent_that_changes_its_root_is_not_forwarded_to_any_more() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.join_through(1, BEST)
    actions = bench.hello(1, Root("gw-b", 1, 1.0, "10.0.0.9"))
    order(actions, Discard(1), Kind.LEAVE)
    assert bench.tree.root_id == "gw-m"


def test_a_leaving_child_is_let_go() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.hear(1, Kind.JOIN, ME.root)
    assert Discard(1) in bench.hear(1, Kind.LEAVE, ME.root)
    assert bench.tree.role(1) is Role.BLOCKED


def test_a_parent_that_no_longer_agrees_is_left_and_asked_again() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.join_through(1, BEST)
    actions = bench.hello(1, BEST, sequence=2, flags=BpduFlags.TRANSIT)
    order(actions, Discard(1), Kind.LEAVE, Kind.JOIN)
    assert bench.tree.counters["agreement_lost"] == 1


def test_a_refusal_is_asked_again_at_the_next_hello_only() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    join = said(bench.hello(1, BEST), Kind.JOIN)[0]
    assert not said(bench.hear(1, Kind.REFUSE, BEST, answers=join.number), Kind.JOIN)
    assert said(bench.hello(1, BEST, sequence=2), Kind.JOIN, 1)


# -- feasibility and repair ----------------------------------------------------------------------


def test_a_lost_parent_is_replaced_at_once_by_a_feasible_neighbour() -> None:
    bench = Bench(unmeasured_ms=10)
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.up(3, "gw-d")
    bench.join_through(1, BEST, sequence=4, cost_ms=5)
    bench.hello(2, BEST, sequence=4, cost_ms=14)
    bench.hear(3, Kind.JOIN, BEST, sequence=3, cost_ms=99)
    actions = bench.down(1)
    assert said(actions, Kind.JOIN, 2)
    assert bench.tree.parent_link == 2
    assert Discard(3) not in actions
    assert 3 in bench.tree.forwarding


def test_a_neighbour_that_is_not_feasible_is_asked_for_a_newer_sequence_instead() -> None:
    bench = Bench(unmeasured_ms=10)
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=5)
    bench.hello(2, BEST, sequence=4, cost_ms=15)
    actions = bench.down(1)
    assert not said(actions, Kind.JOIN)
    (request,) = said(actions, Kind.SEQUENCE_REQUEST, 2)
    assert (request.root, request.sequence) == (BEST, 4)
    (hello,) = said(actions, Kind.HELLO, 2)
    assert hello.cost_ms == UNREACHABLE_MS
    assert bench.tree.cost_ms is None
    assert said(bench.hello(2, BEST, sequence=5, cost_ms=15), Kind.JOIN, 2)


def test_a_root_that_nobody_has_a_way_to_is_given_up_at_once() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=5)
    bench.hello(2, BEST, sequence=4, cost_ms=50)
    bench.down(1)
    assert bench.tree.root_id == "gw-r"
    actions = bench.hello(2, BEST, sequence=4, cost_ms=UNREACHABLE_MS)
    assert bench.tree.root_id == "gw-m"
    assert said(actions, Kind.HELLO, 2)[0].root == ME.root


def test_a_stranded_gateway_hopes_on_account_of_a_child_that_hopes() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=5)
    bench.hear(2, Kind.JOIN, BEST, sequence=3, cost_ms=99)
    bench.hello(2, BEST, sequence=4, cost_ms=50)
    bench.down(1)
    hopes = BpduFlags.TRANSIT | BpduFlags.AGREEMENT | BpduFlags.SEEKING
    bench.hello(2, BEST, sequence=4, cost_ms=UNREACHABLE_MS, flags=hopes)
    assert bench.tree.root_id == "gw-r"
    assert bench.tree.forwarding == {2}
    bench.hello(2, BEST, sequence=4, cost_ms=UNREACHABLE_MS)
    assert bench.tree.root_id == "gw-m"


def test_hope_in_vain_ends_at_a_deadline() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=5)
    bench.hello(2, BEST, sequence=4, cost_ms=50)
    bench.down(1)
    bench.pass_time(1.2)
    assert bench.tree.root_id == "gw-m"


def test_a_restarted_root_is_joined_in_its_new_epoch_and_never_again_in_the_old() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=900, cost_ms=5)
    again = Root("gw-r", 2, 9.0, "10.0.0.1")
    actions = bench.hello(2, again, sequence=1, cost_ms=40)
    assert said(actions, Kind.JOIN, 2)[0].root == again
    assert not said(bench.hello(1, BEST, sequence=901, cost_ms=1), Kind.JOIN)
    assert bench.tree.parent_link == 2


LATER, EARLIER = replace(BEST, boot_epoch=7), replace(BEST, boot_epoch=2)


def joins_the_earlier_life(rises: int, apart_s: float, *, hears_of_the_later: bool = False) -> bool:
    """Return whether one who was in the later life's tree follows the earlier one's hellos."""
    bench = Bench()
    bench.up(1, "gw-a")
    bench.join_through(1, LATER, sequence=4)
    bench.down(1)
    bench.up(2, "gw-b")
    bench.up(3, "gw-c")
    for rise in range(rises + 1):
        if said(bench.hello(2, EARLIER, sequence=10 + rise), Kind.JOIN, 2):
            return True
        if hears_of_the_later:
            bench.hello(3, LATER, sequence=4, cost_ms=UNREACHABLE_MS)
        bench.pass_time(apart_s)
    return False


def test_a_root_that_has_lost_its_disk_is_followed_again_while_its_earlier_epoch_goes_on() -> None:
    """It has drawn an earlier epoch than its last, and those who knew that are no neighbours."""
    assert joins_the_earlier_life(rises=7, apart_s=0.5)


def test_what_may_be_old_news_of_an_earlier_life_is_not_followed() -> None:
    assert not joins_the_earlier_life(rises=6, apart_s=0.5)  # 3 s: twice the silence of the dead
    assert not joins_the_earlier_life(rises=40, apart_s=0.0)  # what a line has held up
    assert not joins_the_earlier_life(rises=3, apart_s=1.4)  # it has risen three times
    assert not joins_the_earlier_life(rises=0, apart_s=60.0)  # and never


def test_an_earlier_life_is_not_followed_while_a_neighbour_tells_of_the_later_one() -> None:
    assert not joins_the_earlier_life(rises=40, apart_s=0.5, hears_of_the_later=True)


def test_an_echo_of_ones_own_tree_is_no_way_to_anywhere() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    assert not said(bench.hello(1, Root("gw-m", 7, 9.0, "10.0.0.13")), Kind.JOIN)
    assert bench.tree.root_id == "gw-m"
    assert bench.tree.counters["own_epoch_ahead"] == 1


def test_the_root_raises_its_sequence_on_request_but_not_all_the_time() -> None:
    bench = Bench(request_interval_s=0.05)
    bench.up(1, "gw-b")
    first = said(bench.hear(1, Kind.SEQUENCE_REQUEST, ME.root, sequence=1), Kind.HELLO)[0]
    assert first.sequence == 2
    assert not said(bench.hear(1, Kind.SEQUENCE_REQUEST, ME.root, sequence=2), Kind.HELLO)
    assert said(bench.pass_time(0.06), Kind.HELLO)[0].sequence == 3


def test_a_sequence_request_is_passed_on_towards_the_root_once() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4)
    actions = bench.hear(2, Kind.SEQUENCE_REQUEST, BEST, sequence=4)
    assert said(actions, Kind.SEQUENCE_REQUEST, 1)
    assert not said(bench.hear(2, Kind.SEQUENCE_REQUEST, BEST, sequence=4), Kind.SEQUENCE_REQUEST)


# -- a better way --------------------------------------------------------------------------------


def measure(bench: Bench, link: int, rtt_ms: float) -> list[SpanningAction]:
    actions: list[SpanningAction] = []
    for _ in range(SETTLED_SAMPLES):
        bench.tree.measured(link, rtt_ms, bench.now)
        actions += bench.tree.take_actions()
    return actions


def test_the_old_parent_serves_until_the_better_one_accepts() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=10)
    bench.hello(2, BEST, sequence=4, cost_ms=2)
    actions = measure(bench, 1, 20.0) + measure(bench, 2, 5.0)
    assert bench.tree.forwarding == {1}
    swap = bench.accept(2, actions)
    order(swap, Discard(1), Kind.LEAVE, Forward(2))
    assert bench.tree.parent_link == 2


def test_a_better_parent_that_fell_behind_meanwhile_is_not_taken() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=10)
    bench.hello(2, BEST, sequence=4, cost_ms=2)
    actions = measure(bench, 1, 20.0) + measure(bench, 2, 5.0)
    bench.hello(1, BEST, sequence=5, cost_ms=10)
    assert said(bench.accept(2, actions), Kind.LEAVE, 2)
    assert bench.tree.forwarding == {1}


@pytest.mark.parametrize(("rtt_ms", "switches"), [(20.0, False), (15.5, False), (10.0, True)])
def test_a_way_must_be_better_by_the_margin(rtt_ms: float, switches: bool) -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-c")
    bench.join_through(1, BEST, sequence=4, cost_ms=0)
    bench.hello(2, BEST, sequence=4, cost_ms=0)
    actions = measure(bench, 1, 20.0) + measure(bench, 2, rtt_ms)
    assert bool(said(actions, Kind.JOIN, 2)) is switches


# -- liveness and misuse -------------------------------------------------------------------------


def test_a_silent_neighbour_is_dropped_after_three_hellos_and_not_before() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.join_through(1, BEST)
    assert not [a for a in bench.pass_time(1.49) if isinstance(a, Drop)]
    actions = bench.pass_time(0.02)
    assert actions[:2] == [Discard(1), Drop(1, "gw-b is silent")]
    assert bench.tree.neighbours() == []
    assert bench.tree.root_id == "gw-m"


def test_a_neighbour_from_which_bytes_come_is_not_silent_however_long_its_hello_takes() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.join_through(1, BEST)
    for _ in range(20):
        assert not [a for a in bench.pass_time(0.4) if isinstance(a, Drop)]
        bench.tree.heard(1, bench.now)
        bench.tree.heard(7, bench.now)
    assert not [a for a in bench.pass_time(1.49) if isinstance(a, Drop)]
    assert [a for a in bench.pass_time(0.02) if isinstance(a, Drop)]


def test_a_process_that_stood_still_does_not_take_its_neighbours_for_dead() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.join_through(1, BEST)
    bench.now += 60
    bench.tree.handle_timer(bench.now)
    assert not [a for a in bench.tree.take_actions() if isinstance(a, Drop)]
    assert bench.tree.counters["late_timer"] == 1
    assert [a for a in bench.pass_time(1.6) if isinstance(a, Drop)]


def test_after_link_down_no_action_names_the_link() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.join_through(1, BEST)
    assert all(isinstance(action, Changed) for action in bench.down(1))
    assert bench.down(1) == []


def test_a_link_to_a_gateways_earlier_life_is_dropped() -> None:
    bench = Bench()
    bench.up(1, "gw-b", epoch=1)
    bench.join_through(1, BEST)
    bench.up(2, "gw-b", epoch=2)
    actions = bench.hello(2, BEST, sequence=2)
    order(actions, Discard(1), Drop(1, "gw-b has restarted"), Kind.JOIN)
    assert [n.link for n in bench.tree.neighbours()] == [2]


def test_two_links_to_one_gateway_carry_data_over_one_of_them() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.up(2, "gw-b")
    bench.join_through(1, BEST)
    assert not said(bench.hello(2, BEST), Kind.JOIN)
    assert bench.tree.forwarding == {1}
    assert said(bench.down(1), Kind.JOIN, 2)
    assert bench.tree.counters["second_link"] == 1


def test_ones_own_id_and_links_beyond_the_limit_are_dropped() -> None:
    bench = Bench(max_links=1)
    assert isinstance(bench.up(1, "gw-m")[0], Drop)
    bench.up(2, "gw-b")
    assert isinstance(bench.up(3, "gw-c")[0], Drop)
    assert bench.tree.counters == {"own_id": 1, "too_many_links": 1}


def test_what_comes_over_an_unknown_link_or_in_another_name_is_counted_and_ignored() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    bench.peers[9] = ("gw-x", 1)
    assert bench.hello(9, BEST) == []
    bench.peers[1] = ("gw-x", 1)
    assert bench.hello(1, BEST) == []
    bench.tree.measured(9, 1.0, bench.now)
    assert bench.tree.counters == {"unknown_link": 2, "wrong_sender": 1}
    assert bench.tree.root_id == "gw-m"


def test_a_link_number_in_use_is_the_callers_fault() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    with pytest.raises(ValueError, match="link 1"):
        bench.tree.link_up(1, "gw-c", bench.now)


def test_parameters_out_of_bounds_are_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match="hello_s"):
        Parameters(hello_s=0)


def test_the_neighbour_table_shows_what_is_known() -> None:
    bench = Bench()
    bench.up(1, "gw-b")
    assert bench.tree.neighbours()[0].peer_cost_ms is None
    bench.join_through(1, BEST)
    bench.tree.measured(1, 4.0, bench.now)
    (row,) = bench.tree.neighbours()
    assert (row.link, row.peer_id, row.role, row.rtt_ms) == (1, "gw-b", Role.ROOT, 4.0)
    assert (row.peer_capability, row.peer_root, row.peer_cost_ms) == (4.0, "gw-r", 5)


roots = st.sampled_from([BEST, GOOD, ME.root, Root("gw-r", 2, 9.0, "10.0.0.1")])
steps = st.one_of(
    st.tuples(st.just("up"), st.integers(1, 4), st.sampled_from(["gw-b", "gw-c", "gw-m"])),
    st.tuples(st.just("down"), st.integers(1, 4)),
    st.tuples(st.just("time"), st.floats(0, 3)),
    st.tuples(st.just("rtt"), st.integers(1, 4), st.floats(0, 1e5)),
    st.tuples(
        st.just("hear"),
        st.integers(1, 4),
        st.sampled_from(Kind),
        roots,
        st.integers(0, 6),
        st.one_of(st.integers(0, 40), st.just(UNREACHABLE_MS)),
        st.integers(0, 7).map(BpduFlags),
        st.integers(0, 40),
    ),
)


@given(st.lists(steps, max_size=60))
def test_no_order_of_events_makes_it_raise_or_break_its_own_rules(
    events: list[tuple[Any, ...]],
) -> None:
    bench = Bench()
    carried: set[int] = set()
    actions: list[SpanningAction] = []
    for what, *args in events:
        known = {n.link for n in bench.tree.neighbours()}
        match what:
            case "up" if args[0] not in known:
                actions = bench.up(*args)
            case "down":
                actions = bench.down(args[0])
                carried.discard(args[0])
            case "time":
                actions = bench.pass_time(args[0])
            case "rtt":
                bench.tree.measured(args[0], args[1], bench.now)
                actions = bench.tree.take_actions()
            case "hear" if args[0] in bench.peers:
                link, kind, root, sequence, cost_ms, flags, answers = args
                actions = bench.hear(
                    link,
                    kind,
                    root,
                    sequence=sequence,
                    cost_ms=cost_ms,
                    flags=flags,
                    answers=answers,
                )
            case _:
                actions = []
        for action in actions:
            match action:
                case Forward(link):
                    assert link not in carried
                    carried.add(link)
                case Discard(link):
                    carried.remove(link)
                case Drop(link):
                    assert link not in carried
                case Send(link, bpdu):
                    assert Bpdu.decode(bpdu.encode()) == bpdu
                    assert link in {n.link for n in bench.tree.neighbours()} | known
        assert carried == bench.tree.forwarding
        assert bench.tree.next_timer() > bench.now - 1e-9
        towards_root = [n for n in bench.tree.neighbours() if n.role is Role.ROOT]
        assert len(towards_root) <= 1
