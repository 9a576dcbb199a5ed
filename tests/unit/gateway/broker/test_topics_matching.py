"""Goal: trees, indexes and caches answer as section 4.7 of MQTT says, read literally.

Method: a matcher of ten lines is the standard; state machines make arbitrary subscriptions,
retained messages and cached routes, and compare after every step.
"""

from __future__ import annotations

from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.broker.retained.messages import RetainedMessages
from gateway.broker.topics.index import TopicIndex
from gateway.broker.topics.route_cache import RouteCache
from gateway.broker.topics.subscription_tree import SubscriptionTree
from gateway.mqtt import FilterError
from tree_handler.routing.topic_filters import covers, matches, split_share


def standard_matches(topic_filter: str, topic: str) -> bool:
    if topic.startswith("$") and topic_filter[0] in "+#":
        return False
    return _levels_match(topic_filter.split("/"), topic.split("/"))


def _levels_match(wanted: list[str], levels: list[str]) -> bool:
    if not wanted:
        return not levels
    if wanted[0] == "#":
        return True
    return bool(levels) and wanted[0] in ("+", levels[0]) and _levels_match(wanted[1:], levels[1:])


LITERALS = ["a", "b", "", "$x"]
topics = st.lists(st.sampled_from(LITERALS), min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn, levels_max: int = 4) -> str:
    levels = draw(st.lists(st.sampled_from([*LITERALS, "+", "+"]), max_size=levels_max))
    if not levels or draw(st.booleans()):
        levels.append("#")
    return "/".join(levels) or "+"


shared_filters = st.builds("$share/{}/{}".format, st.sampled_from(["g", "h"]), filters())
subscribers = st.integers(0, 3)
UNIVERSE = [
    "/".join(levels)
    for depth in range(1, 5)
    for levels in product([*LITERALS, "other"], repeat=depth)
    if "/".join(levels)
]


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matched"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "sport/tennis", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/uptime", False),
        ("+/uptime", "$SYS/uptime", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("$SYS/+", "$SYS/uptime", True),
        ("ACCOUNTS", "Accounts", False),
    ],
)
def test_the_examples_of_the_standard_hold(topic_filter: str, topic: str, matched: bool) -> None:
    assert standard_matches(topic_filter, topic) is matched
    assert matches(topic_filter, topic) is matched


@given(filters(), topics)
def test_a_filter_matches_as_the_standard_says(topic_filter: str, topic: str) -> None:
    assert matches(topic_filter, topic) == standard_matches(topic_filter, topic)


@given(filters(), st.sets(topics))
def test_an_index_finds_the_topics_that_the_standard_matches(
    topic_filter: str, names: set[str]
) -> None:
    index: TopicIndex[str] = TopicIndex()
    for name in names:
        index.add(name, name.split("/"))
    assert index.matching(topic_filter) == {
        name for name in names if standard_matches(topic_filter, name)
    }


@given(filters(), st.sets(topics), st.integers(1, 5))
def test_who_walks_finds_the_same_topics_or_as_many_as_it_wants(
    topic_filter: str, names: set[str], most: int
) -> None:
    index: TopicIndex[str] = TopicIndex()
    for name in names:
        index.add(name, name.split("/"))
    matching = index.matching(topic_filter)
    every = [name for name in index.walk(topic_filter, len(names) + 1) if name is not None]
    assert sorted(every) == sorted(matching)
    some = [name for name in index.walk(topic_filter, most) if name is not None]
    assert len(some) == len(set(some)) == min(most, len(matching)) and matching.issuperset(some)


@given(filters(), st.sets(topics), st.sets(topics), st.sets(topics), st.integers(0, 5))
def test_a_topic_that_stays_while_somebody_walks_comes_once(
    topic_filter: str, names: set[str], going: set[str], coming: set[str], after: int
) -> None:
    index: TopicIndex[str] = TopicIndex()
    for name in names:
        index.add(name, name.split("/"))
    walk = index.walk(topic_filter, len(names) + len(coming) + 1)
    found = list(islice(walk, after))
    for name in names & going:
        index.remove(name, name.split("/"))
    for name in coming - names:
        index.add(name, name.split("/"))
    found += walk
    told = [name for name in found if name is not None]
    assert len(told) == len(set(told))
    stayed = {name for name in names - going if standard_matches(topic_filter, name)}
    assert stayed.issubset(told) and names.union(coming).issuperset(told)


def test_who_walks_goes_through_the_topics_of_one_level_alone() -> None:
    index: TopicIndex[str] = TopicIndex()
    for number in range(1_000):
        name = f"floor{number % 10}/room{number % 100}/device{number}"
        index.add(name, name.split("/"))
    for topic_filter, most, looked_at in (
        ("#", 20, 20),
        ("+/+/+", 20, 20),
        ("+/+/+/#", 20, 20),
        ("floor1/#", 20, 20),
        ("+/room7/+", 20, 10),
        ("floor1/+/device12", 20, 1),
        ("floor1/room1/+/#", 20, 10),
        ("elsewhere/#", 20, 0),
    ):
        assert len(list(index.walk(topic_filter, most))) == looked_at, topic_filter


@settings(max_examples=200, deadline=None)
@given(filters(levels_max=2), filters(levels_max=2))
def test_a_filter_covers_another_if_no_topic_tells_otherwise(wider: str, narrower: str) -> None:
    counterexamples = [
        topic
        for topic in UNIVERSE
        if standard_matches(narrower, topic) and not standard_matches(wider, topic)
    ]
    assert covers(wider, narrower) == (not counterexamples)


@pytest.mark.parametrize("malformed", ["", "a#", "#/a", "a/#/b", "##", "a+", "+a/b", "a/b+/#"])
def test_a_filter_with_a_misplaced_wildcard_is_refused(malformed: str) -> None:
    tree: SubscriptionTree[int, int] = SubscriptionTree()
    with pytest.raises(FilterError) as caught:
        tree.add(malformed, 1, 1)
    assert caught.value.value == malformed
    assert (len(tree), tree.node_count) == (0, 0)


@pytest.mark.parametrize(
    "malformed", ["$share/", "$share/g", "$share//a", "$share/g/", "$share/+/a"]
)
def test_a_shared_filter_needs_a_share_name_and_a_filter(malformed: str) -> None:
    tree: SubscriptionTree[int, int] = SubscriptionTree()
    with pytest.raises(FilterError):
        tree.add(malformed, 1, 1)
    assert (len(tree), tree.node_count) == (0, 0)


def test_a_share_name_is_told_from_the_filter() -> None:
    assert split_share("$share/g/a/+/#") == ("g", "a/+/#")
    assert split_share("a/$share/g") == ("", "a/$share/g")


class Subscriptions(RuleBasedStateMachine):
    """A tree of subscriptions and a cache of routes in front of it, under churn."""

    def __init__(self) -> None:
        super().__init__()
        self.tree: SubscriptionTree[int, int] = SubscriptionTree()
        self.model: dict[tuple[str, int], int] = {}
        self.cache: RouteCache[object] = RouteCache(topics_max=6)

    @rule(topic_filter=filters() | shared_filters, subscriber=subscribers, value=st.integers())
    def subscribe(self, topic_filter: str, subscriber: int, value: int) -> None:
        is_new = (topic_filter, subscriber) not in self.model
        assert self.tree.add(topic_filter, subscriber, value) is is_new
        self.model[topic_filter, subscriber] = value
        self.cache.touched(topic_filter)

    @rule(topic_filter=filters() | shared_filters, subscriber=subscribers)
    def unsubscribe(self, topic_filter: str, subscriber: int) -> None:
        was_there = self.model.pop((topic_filter, subscriber), None) is not None
        assert self.tree.remove(topic_filter, subscriber) is was_there
        self.cache.touched(topic_filter)

    @rule(data=st.data())
    def unsubscribe_one_that_is_there(self, data: st.DataObject) -> None:
        if self.model:
            self.unsubscribe(*data.draw(st.sampled_from(sorted(self.model))))

    @rule(topic=topics)
    def publish(self, topic: str) -> None:
        fresh = self.fresh(topic)
        cached = self.cache.kept.get(topic.encode())
        if cached is None:
            self.cache.put(topic.encode(), fresh)
            cached = self.cache.kept.get(topic.encode())
        assert cached == fresh
        assert len(self.cache) <= 6

    def fresh(self, topic: str) -> object:
        plain = self.tree.match(topic)
        shared = self.tree.match_shared(topic)
        assert sorted(plain) == sorted(
            (subscriber, value)
            for (topic_filter, subscriber), value in self.model.items()
            if not topic_filter.startswith("$share/") and standard_matches(topic_filter, topic)
        )
        expected: dict[tuple[str, str], dict[int, int]] = {}
        for (topic_filter, subscriber), value in self.model.items():
            name, proper = split_share(topic_filter)
            if name and standard_matches(proper, topic):
                expected.setdefault((name, proper), {})[subscriber] = value
        assert len(shared) == len(expected)
        assert {group: dict(members) for group, members in shared} == expected
        return sorted(plain), sorted(shared)

    @invariant()
    def counts_and_memory_follow(self) -> None:
        assert len(self.tree) == len(self.model)
        assert bool(self.tree.node_count) == bool(self.model)

    def teardown(self) -> None:
        for topic_filter, subscriber in self.model:
            assert self.tree.remove(topic_filter, subscriber)
        assert self.tree.node_count == 0
        self.cache.touched("#")
        self.cache.touched("$x/#")
        assert len(self.cache) == 0
        assert self.cache.bytes_held == 0


class Retained(RuleBasedStateMachine):
    """Retained messages that are set, replaced, deleted and expire."""

    def __init__(self) -> None:
        super().__init__()
        self.retained: RetainedMessages[bytes] = RetainedMessages(len)
        self.model: dict[str, tuple[bytes, float]] = {}
        self.now_s = 0.0

    @rule(topic=topics, message=st.binary(max_size=3), lifetime_s=st.none() | st.integers(1, 5))
    def set(self, topic: str, message: bytes, lifetime_s: int | None) -> None:
        expires_at_s = float("inf") if lifetime_s is None else self.now_s + lifetime_s
        self.retained.set(topic, message, expires_at_s)
        self.model[topic] = (message, expires_at_s)

    @rule(topic=topics)
    def delete(self, topic: str) -> None:
        assert self.retained.delete(topic) is (self.model.pop(topic, None) is not None)

    @rule(seconds=st.integers(1, 3))
    def time_passes(self, seconds: int) -> None:
        self.now_s += seconds

    @rule()
    def expire(self) -> None:
        gone = {topic for topic, (_, at_s) in self.model.items() if at_s <= self.now_s}
        expected = [(topic, self.model[topic][0]) for topic in sorted(gone)]
        assert sorted(self.retained.expire(self.now_s)) == expected
        for topic in gone:
            del self.model[topic]

    @rule(topic_filter=filters())
    def subscribe(self, topic_filter: str) -> None:
        found = list(self.retained.match(topic_filter, self.now_s))
        assert len(found) == len(dict(found))
        assert dict(found) == {
            topic: message
            for topic, (message, at_s) in self.model.items()
            if at_s > self.now_s and standard_matches(topic_filter, topic)
        }
        walked = [one for one in self.retained.walk(topic_filter, self.now_s, 100) if one]
        assert sorted(walked) == sorted(found)

    @invariant()
    def counts_and_memory_follow(self) -> None:
        assert len(self.retained) == len(self.model)
        assert bool(self.retained.bytes_held) == bool(self.model)


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRetained = Retained.TestCase
TestRetained.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_who_walks_by_several_levels_gets_as_many_as_it_wants_and_looks_at_no_more() -> None:
    index: TopicIndex[str] = TopicIndex()
    for number in range(40):
        index.add(f"a/{number}/c", ["a", str(number), "c"])
    for topic_filter in ("a/+/c", "a/+/+", "a/+/#", "+/+/c"):
        for most in (1, 3, 40):
            assert len(list(index.walk(topic_filter, most))) == most, topic_filter
        assert len([one for one in index.walk(topic_filter, 41) if one]) == 40
