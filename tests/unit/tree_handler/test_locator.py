"""Each gateway knows over which link another is reached, on trees that grow, break and rejoin."""

from __future__ import annotations

from collections import deque

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.routing.locator import MAX_BEHIND, GatewayLocation, Locator, ReachUpdate

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,9}", fullmatch=True)
LINKS = [(a, b) for a in range(6) for b in range(a + 1, 6)]


class Tree:
    """Locators joined by links that forward, are cut and forward again; messages wait in order."""

    def __init__(self, count: int) -> None:
        self.nodes = [Locator(f"gw-{n}", n + 1) for n in range(count)]
        self.forwarding: list[set[int]] = [set() for _ in range(count)]
        self.under_way: dict[tuple[int, int], deque[bytes]] = {}
        self.sent = 0

    def switch(self, a: int, b: int, *, forwards: bool) -> None:
        """One end of a link, which is named by the number of the other gateway."""
        (self.forwarding[a].add if forwards else self.forwarding[a].discard)(b)
        self._send(a, self.nodes[a].forwards(self.forwarding[a]))

    def drop(self, a: int, b: int) -> None:
        for one, other in ((a, b), (b, a)):
            self.under_way.pop((one, other), None)
            self.forwarding[one].discard(other)
            self._send(one, self.nodes[one].link_down(other))

    def carry(self) -> None:
        while waiting := [pair for pair, queue in self.under_way.items() if queue]:
            for a, b in waiting:
                payload = self.under_way[a, b].popleft()
                self._send(b, self.nodes[b].receive(a, ReachUpdate.decode(payload)))

    def _send(self, a: int, news: dict[int, ReachUpdate]) -> None:
        for b, behind in news.items():
            self.sent += 1
            self.under_way.setdefault((a, b), deque()).append(behind.encode())

    def join(self, a: int, b: int) -> None:
        self.switch(a, b, forwards=True)
        self.switch(b, a, forwards=True)


def test_on_a_line_each_gateway_knows_behind_which_link_every_other_is() -> None:
    tree = Tree(4)
    for n in range(3):
        tree.join(n, n + 1)
    tree.carry()
    for here, node in enumerate(tree.nodes):
        assert node.reached == {f"gw-{n}" for n in range(4) if n != here}
        for there in range(4):
            want = None if there == here else here + (1 if there > here else -1)
            assert node.link_of(f"gw-{there}") == want


def test_a_still_tree_sends_nothing_more() -> None:
    tree = Tree(3)
    tree.join(0, 1)
    tree.join(1, 2)
    tree.carry()
    before = tree.sent
    for node, links in zip(tree.nodes, tree.forwarding, strict=True):
        assert node.forwards(links) == {}
    assert tree.sent == before


def test_what_a_blocked_link_told_counts_once_it_forwards() -> None:
    locator = Locator("a", 7)
    locator.receive(1, ReachUpdate(True, {"b": 1, "c": 2}))
    assert locator.reached == set()
    assert locator.link_of("b") is None
    assert locator.forwards({1}) == {1: ReachUpdate(True, {"a": 7})}
    assert locator.reached == {"b", "c"} == locator.take_came()
    assert locator.take_came() == set()
    assert locator.link_down(1) == {}
    assert locator.reached == set()


def test_of_two_ways_to_a_gateway_the_one_counts_that_was_told_last() -> None:
    locator = Locator("a", 7)
    locator.forwards({1, 2})
    for link, epoch in ((1, 3), (2, 4), (1, 5)):
        locator.receive(link, ReachUpdate(True, {"b": epoch}))
        assert locator.link_of("b") == link
        assert locator.epoch_of("b") == epoch
    locator.receive(2, ReachUpdate(False, {"c": 1}))
    assert locator.link_of("b") == 2
    assert locator.way_to("b") == GatewayLocation(2, 4)
    assert locator.way_to("d") is None


def test_who_is_told_of_again_over_a_link_that_forwards_may_have_come_another_way() -> None:
    locator = Locator("a", 7)
    locator.forwards({1})
    for told in ({"b": 1}, {"b": 1}, {"b": 2, "c": 1}):
        locator.receive(1, ReachUpdate(False, told))
        assert locator.take_came() == told.keys()
    locator.receive(2, ReachUpdate(True, {"b": 3, "c": 1, "d": 1}))
    assert locator.take_came() == set()
    assert locator.link_of("d") is None
    locator.receive(1, ReachUpdate(False, {"e": 1}))
    locator.receive(1, ReachUpdate(False, {}, frozenset({"e"})))
    assert locator.take_came() == set()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("join"), st.sampled_from(LINKS)),
            st.tuples(st.just("drop"), st.sampled_from(LINKS)),
            st.tuples(st.just("stop"), st.sampled_from(LINKS)),
            st.tuples(st.just("carry"), st.just((0, 0))),
        ),
        max_size=20,
    )
)
def test_after_any_changes_of_the_forest_all_know_exactly_who_is_reached_and_how(
    changes: list[tuple[str, tuple[int, int]]],
) -> None:
    tree = Tree(6)
    for what, (a, b) in changes:
        if what == "carry":
            tree.carry()
        elif what == "drop":
            tree.drop(a, b)
        elif what == "stop":
            tree.switch(a, b, forwards=False)
            tree.switch(b, a, forwards=False)
        elif b not in reached_by(tree, a):
            tree.join(a, b)
    tree.carry()
    for here, node in enumerate(tree.nodes):
        assert node.reached == {f"gw-{n}" for n in reached_by(tree, here) if n != here}
        for link in tree.forwarding[here]:
            for there in reached_by(tree, link, without=here):
                assert node.link_of(f"gw-{there}") == link
                assert node.epoch_of(f"gw-{there}") == there + 1


def reached_by(tree: Tree, start: int, without: int | None = None) -> set[int]:
    seen, front = {start}, [start]
    while front:
        for other in tree.forwarding[front.pop()]:
            if other not in seen and other != without:
                seen.add(other)
                front.append(other)
    return seen


@given(st.booleans(), st.dictionaries(NAMES, st.integers(0, MAX_BOOT_EPOCH)), st.frozensets(NAMES))
def test_what_is_told_survives_the_wire(
    whole: bool, added: dict[str, int], removed: frozenset[str]
) -> None:
    behind = ReachUpdate(whole, added, removed)
    assert ReachUpdate.decode(behind.encode()) == behind


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused_by_name(data: bytes) -> None:
    try:
        ReachUpdate.decode(data)
    except ProtocolError as error:
        assert "behind a link" in str(error)


def test_a_life_that_there_cannot_be_is_refused() -> None:
    told = ReachUpdate(True, {"b": MAX_BOOT_EPOCH + 1})
    with pytest.raises(ProtocolError, match=r"behind a link: \['b', 4294967296\]"):
        ReachUpdate.decode(told.encode())


def test_a_neighbour_that_tells_of_too_many_gateways_is_broken() -> None:
    locator = Locator("a", 1)
    many = {f"gw-{n}": 1 for n in range(MAX_BEHIND)}
    locator.receive(1, ReachUpdate(True, many))
    with pytest.raises(ProtocolError, match="behind a link"):
        locator.receive(1, ReachUpdate(False, {"one-more": 1}))


CHANGES = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(["whole", "some", "forwards", "down"]),
        st.dictionaries(st.sampled_from("abcde"), st.integers(1, 3)),
        st.frozensets(st.sampled_from("abcde")),
    ),
    max_size=30,
)


@given(CHANGES)
def test_what_a_neighbour_was_told_in_changes_is_all_that_others_reach(
    changes: list[tuple[int, str, dict[str, int], frozenset[str]]],
) -> None:
    node, forwarding = Locator("gw", 9), set[int]()
    told: dict[int, dict[str, int]] = {}
    heard: dict[int, dict[str, int]] = {}
    for link, what, added, removed in changes:
        if what == "down":
            forwarding.discard(link)
            heard.pop(link, None)
            news = node.link_down(link)
        elif what == "forwards":
            forwarding ^= {link}
            news = node.forwards(set(forwarding))
        else:
            before = {} if what == "whole" else heard.get(link, {})
            now = before | added
            gone = frozenset() if what == "whole" else removed
            heard[link] = {one: life for one, life in now.items() if one not in gone}
            news = node.receive(link, ReachUpdate(what == "whole", dict(added), gone))
        for other, update in news.items():
            known = {} if update.whole else told[other]
            told[other] = {k: v for k, v in known.items() if k not in update.removed}
            told[other] |= update.added
        reached: set[str] = set()
        for one in forwarding:
            others = [heard.get(other, {}) for other in forwarding - {one}]
            assert told[one].keys() == {"gw"}.union(*others)
            for name, life in told[one].items():
                assert name == "gw" or life in [row.get(name) for row in others]
            reached |= heard.get(one, {}).keys()
        assert node.reached == reached
        for name in reached:
            assert node.epoch_of(name) in [heard.get(one, {}).get(name) for one in forwarding]
        assert node.take_came() <= reached


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ([True, []], "gateways behind a link"),
        ([True, [], [], []], "gateways behind a link"),
        ([1, [], []], "gateways behind a link"),
        ([True, {}, []], "gateways behind a link"),
        ([True, [], {}], "gateways behind a link"),
        ([True, [["b"]], []], "gateway behind a link"),
        ([True, [["b", 1, 1]], []], "gateway behind a link"),
        ([True, [["b", -1]], []], "gateway behind a link"),
        ([True, [["B", 1]], []], "gateway behind a link"),
        ([True, [], ["B"]], "gateway behind a link"),
        ([True, [], [1]], "gateway behind a link"),
    ],
)
def test_what_is_wrong_in_what_a_neighbour_tells_is_named(row: list[object], named: str) -> None:
    with pytest.raises(ProtocolError, match=rf"^{named}: "):
        ReachUpdate.decode(msgpack.packb(row))


def test_10_000_gateways_may_come_and_go_at_once() -> None:
    names = [f"gw-{number}" for number in range(10_001)]
    most = ReachUpdate(False, dict.fromkeys(names[:10_000], MAX_BOOT_EPOCH), frozenset(names[1:]))
    assert ReachUpdate.decode(most.encode()) == most
    for over in ((dict.fromkeys(names, 0), frozenset[str]()), ({}, frozenset(names))):
        with pytest.raises(ProtocolError, match="behind a link"):
            ReachUpdate.decode(ReachUpdate(False, *over).encode())
