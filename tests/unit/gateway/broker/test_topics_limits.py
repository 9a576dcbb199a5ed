"""Goal: what a peer can grow has a limit, and nothing is left behind when it goes."""

from __future__ import annotations

import pytest

from gateway.broker.retained.messages import (
    RetainedLimitError,
    RetainedMessages,
)
from gateway.broker.topics.index import TopicIndex
from gateway.broker.topics.route_cache import ROUTES_BYTES_MAX, RouteCache
from gateway.broker.topics.subscription_tree import SubscriptionTree
from gateway.mqtt import FilterError
from tests.held_objects import held_objects


def test_a_filter_of_too_many_levels_is_refused_and_changes_nothing() -> None:
    tree: SubscriptionTree[str, int] = SubscriptionTree(levels_max=3)
    assert tree.add("$share/g/a/b/c", "one", 0)
    with pytest.raises(FilterError, match="3 levels"):
        tree.add("a/b/c/d", "one", 0)
    with pytest.raises(FilterError):
        tree.add("a/#/c", "one", 0)
    assert len(tree) == 1
    assert tree.match("a/b/c/d") == []


def test_a_topic_of_thousands_of_levels_is_matched() -> None:
    tree: SubscriptionTree[str, int] = SubscriptionTree()
    tree.add("a/#", "one", 7)
    assert tree.match("a" + "/" * 65_000) == [("one", 7)]


def test_overlapping_filters_of_one_subscriber_are_each_listed() -> None:
    tree: SubscriptionTree[str, int] = SubscriptionTree()
    for value, topic_filter in enumerate(["a/b", "a/+", "a/#", "#", "+/b"]):
        tree.add(topic_filter, "one", value)
    assert sorted(tree.match("a/b")) == [("one", value) for value in range(5)]


def test_members_of_a_share_come_in_the_order_in_which_they_joined() -> None:
    tree: SubscriptionTree[str, int] = SubscriptionTree()
    for name in ("zoe", "adam", "mia"):
        tree.add("$share/g/a/+", name, 1)
    tree.add("$share/h/a/+", "adam", 2)
    assert tree.match("a/b") == []
    assert tree.match_shared("a/b") == [
        (("g", "a/+"), [("zoe", 1), ("adam", 1), ("mia", 1)]),
        (("h", "a/+"), [("adam", 2)]),
    ]


@pytest.mark.parametrize(("matched", "is_left"), [(2_000, True), (2_001, False)])
def test_routes_of_up_to_2000_topics_are_forgotten_one_by_one_and_beyond_that_all(
    matched: int, *, is_left: bool
) -> None:
    cache: RouteCache[str] = RouteCache()
    cache.put(b"other", "route")
    for number in range(matched):
        cache.put(b"a/%d" % number, "route")
    cache.touched("a/+")
    assert (b"other" in cache.kept) == is_left
    assert len(cache.kept) == is_left


@pytest.mark.parametrize(("filters", "is_left"), [(20_000, True), (20_001, False)])
def test_two_million_looks_for_topics_are_made_and_beyond_that_all_routes_are_forgotten(
    filters: int, *, is_left: bool
) -> None:
    cache: RouteCache[str] = RouteCache()
    for number in range(100):
        cache.put(b"a/%d" % number, "route")
    cache.expect(filters)
    assert bool(cache.kept) == is_left


def test_an_exact_filter_forgets_one_route_only() -> None:
    cache: RouteCache[str] = RouteCache()
    for topic in (b"a/b", b"a/c", b"a"):
        cache.put(topic, "route")
    cache.touched("a/b")
    assert cache.kept.get(b"a/b") is None
    assert cache.kept.get(b"a/c") == cache.kept.get(b"a") == "route"
    cache.touched("$share/g/a/c")
    assert cache.kept.get(b"a/c") is None
    assert len(cache) == 1


def test_a_route_that_is_forgotten_holds_no_memory_however_it_is_forgotten() -> None:
    for topic_filter in ("a/b", "+/b", "#", "$share/g/a/b"):
        cache: RouteCache[str] = RouteCache()
        cache.put(b"other/c", "route")
        before = cache.bytes_held
        cache.put(b"a/b", "route")
        assert cache.bytes_held > before
        cache.touched(topic_filter)
        assert cache.bytes_held == (0 if topic_filter == "#" else before)


def test_a_wildcard_forgets_only_the_routes_that_it_matches() -> None:
    cache: RouteCache[str] = RouteCache()
    for topic in (b"a/b/t", b"a/c/t", b"a/c/u", b"b/c/t", b"a", b"$SYS/c/t"):
        cache.put(topic, "route")
    cache.touched("+/c/t")
    assert cache.kept.get(b"a/c/t") is cache.kept.get(b"b/c/t") is None
    assert len(cache) == 4
    cache.touched("a/#")
    assert len(cache) == 1
    cache.touched("#")
    assert cache.kept.get(b"$SYS/c/t") == "route"


def test_a_full_cache_forgets_the_oldest_routes() -> None:
    cache: RouteCache[int] = RouteCache(topics_max=16)
    for number in range(17):
        cache.put(b"t/%d" % number, number)
    assert len(cache) <= 16
    assert cache.kept.get(b"t/0") is None
    assert cache.kept.get(b"t/16") == 16


def test_a_cache_keeps_within_its_bytes() -> None:
    cache: RouteCache[int] = RouteCache(bytes_max=100_000)
    for number in range(1_000):
        cache.put(b"/".join(b"%d-%d" % (number, level) for level in range(10)), number)
        assert cache.bytes_held <= 100_000
    assert len(cache) > 10
    cache.put(b"/" * 60_000, 1)
    assert cache.kept.get(b"/" * 60_000) is None


@pytest.mark.parametrize("more", [0, 1])
def test_routes_take_so_many_bytes_together_and_beyond_that_the_last_one_stays_alone(
    more: int,
) -> None:
    cache: RouteCache[int] = RouteCache()
    cache.put(b"a", 1, ROUTES_BYTES_MAX - 10)
    cache.put(b"b", 2, 10 + more)
    assert list(cache.kept) == ([b"b"] if more else [b"a", b"b"])
    if more:
        cache.put(b"c", 3, ROUTES_BYTES_MAX - 11)
        assert list(cache.kept) == [b"b", b"c"]
    cache.put(b"d", 4, 1)
    assert list(cache.kept) == [b"d"]
    cache.put(b"d", 5, ROUTES_BYTES_MAX)
    assert cache.kept == {b"d": 5}


def test_many_filters_forget_what_any_of_them_matches_or_all() -> None:
    cache: RouteCache[int] = RouteCache()
    for topic in (b"a/b", b"c", b"d", b"$x"):
        cache.put(topic, 1)
    cache.touched_by(["a/+", "$share/g/c", "e"])
    assert list(cache.kept) == [b"d", b"$x"]
    cache.expect(1_000_000)
    assert len(cache) == 2, "two million looks are still less than all that is kept"
    cache.expect(1_000_001)
    assert len(cache) == 0


@pytest.mark.parametrize("over", [0, 7])
def test_a_topic_that_takes_over_an_eighth_of_the_room_is_not_kept_and_costs_no_other(
    over: int,
) -> None:
    alone: RouteCache[int] = RouteCache()
    assert alone.bytes_held == 0
    alone.put(b"12345", 1)
    cache: RouteCache[int] = RouteCache(bytes_max=8 * alone.bytes_held + over)
    for number, topic in enumerate((b"other", b"123456", b"12345")):
        cache.put(topic, number)
    assert list(cache.kept) == [b"other", b"12345"]
    assert cache.bytes_held == 2 * alone.bytes_held
    for number in range(6):
        cache.put(b"more%d" % number, number)
    assert len(cache) == 8
    cache.put(b"12346", 9)
    assert next(iter(cache.kept)) == b"more0", "an eighth and one of the oldest made room"


@pytest.mark.parametrize(("topics_max", "left"), [(1, 1), (7, 7), (8, 7), (9, 8), (16, 14)])
def test_a_full_cache_forgets_an_eighth_and_one_of_its_oldest_at_once(
    topics_max: int, left: int
) -> None:
    cache: RouteCache[int] = RouteCache(topics_max=topics_max)
    for number in range(topics_max):
        cache.put(b"%d" % number, number)
    assert len(cache) == topics_max
    cache.put(b"new", 0)
    kept = [b"%d" % number for number in range(topics_max - left + 1, topics_max)]
    assert list(cache.kept) == [*kept, b"new"]


def test_a_cache_for_no_topic_is_refused() -> None:
    with pytest.raises(ValueError, match="topics_max"):
        RouteCache(topics_max=0)


def test_putting_a_route_again_replaces_it() -> None:
    cache: RouteCache[int] = RouteCache(topics_max=1)
    cache.put(b"a", 1)
    held = cache.bytes_held
    cache.put(b"a", 2)
    assert cache.kept.get(b"a") == 2
    assert cache.bytes_held == held
    cache.clear()
    assert len(cache) == cache.bytes_held == 0


def test_too_many_retained_messages_are_refused_by_name_and_the_old_ones_stay() -> None:
    retained: RetainedMessages[bytes] = RetainedMessages(len, messages_max=2)
    retained.set("a", b"1")
    retained.set("b", b"2")
    with pytest.raises(RetainedLimitError, match="retained messages, limit") as caught:
        retained.set("c", b"3")
    assert (caught.value.topic, caught.value.value, caught.value.limit) == ("c", 3, 2)
    retained.set("a", b"4")
    assert dict(retained.match("#", 0.0)) == {"a": b"4", "b": b"2"}


def test_too_many_retained_bytes_are_refused_by_name_and_the_old_message_stays() -> None:
    retained: RetainedMessages[bytes] = RetainedMessages(len, bytes_max=2_000)
    retained.set("a", b"x" * 500)
    with pytest.raises(RetainedLimitError, match="bytes of retained messages") as caught:
        retained.set("a", b"x" * 3_000)
    assert caught.value.value > caught.value.limit == 2_000
    assert dict(retained.match("a", 0.0)) == {"a": b"x" * 500}
    retained.set("a", b"")
    retained.set("b", b"x" * 500)


def test_the_memory_of_deep_topics_counts_against_the_bytes() -> None:
    retained: RetainedMessages[bytes] = RetainedMessages(len, bytes_max=100_000)
    with pytest.raises(RetainedLimitError, match="bytes of retained messages"):
        retained.set("/" * 1_000, b"")


def test_a_message_that_has_expired_is_not_delivered_and_goes_in_slices() -> None:
    retained: RetainedMessages[bytes] = RetainedMessages(len)
    for number in range(10):
        retained.set(f"t/{number}", b"", 5.0)
    retained.set("t/for-ever", b"")
    assert len(list(retained.match("t/+", 4.9))) == 11
    assert list(retained.match("t/+", 5.0)) == [("t/for-ever", b"")]
    assert list(retained.match("t/3", 5.0)) == []
    assert len(retained.expire(5.0, count_max=4)) == 4
    assert len(retained.expire(5.0, count_max=40)) == 6
    assert retained.expire(5.0) == []
    assert len(retained) == 1


def test_a_replaced_message_does_not_expire_at_the_old_ones_time() -> None:
    retained: RetainedMessages[bytes] = RetainedMessages(len)
    retained.set("a", b"old", 5.0)
    retained.set("a", b"new", 9.0)
    assert retained.expire(5.0) == []
    assert list(retained.match("a", 6.0)) == [("a", b"new")]
    assert retained.expire(9.0) == [("a", b"new")]


def test_setting_a_topic_again_and_again_does_not_grow_the_expiry_times() -> None:
    retained: RetainedMessages[bytes] = RetainedMessages(len)
    for number in range(10_000):
        retained.set("a", b"", 1e6 + number)
    assert held_objects(retained) < 5_000
    assert retained.expire(2e6, count_max=1_000) == [("a", b"")]


def test_messages_that_change_while_they_are_delivered_are_given_as_they_are_then() -> None:
    retained: RetainedMessages[bytes] = RetainedMessages(len)
    for number in range(4):
        retained.set(f"t/{number}", b"old")
    delivery = retained.match("t/+", 0.0)
    first, _ = next(delivery)
    rest = sorted({f"t/{number}" for number in range(4)} - {first})
    retained.delete(rest[0])
    retained.set(rest[1], b"new")
    retained.set("t/later", b"new")
    assert dict(delivery) == {rest[1]: b"new", rest[2]: b"old"}


def test_an_index_without_topics_holds_nothing() -> None:
    index: TopicIndex[str] = TopicIndex()
    names = ["a/b", "a/b/c", "$SYS/x", "/", "a/a/a"]
    for name in names:
        index.add(name, name.split("/"))
    assert index.bytes_held <= sum(index.bytes_max(len(name.split("/"))) for name in names)
    for name in names:
        index.remove(name, name.split("/"))
    assert index.bytes_held == 0


def test_an_index_that_is_cleared_or_emptied_holds_nothing_and_takes_all_in_again() -> None:
    index: TopicIndex[str] = TopicIndex()
    names = ["a/b", "$SYS/a", "$x"]
    for ends in ("cleared", "emptied"):
        assert (index.bytes_held, index.holds_dollar) == (0, False), ends
        for name in names:
            index.add(name, name.split("/"))
        assert index.holds_dollar
        assert index.bytes_held <= sum(index.bytes_max(name.count("/") + 1) for name in names)
        assert index.matching("#") == {"a/b"}
        assert index.matching("$SYS/#") == {"$SYS/a"}
        if ends == "cleared":
            index.clear()
        else:
            for name in names:
                index.remove(name, name.split("/"))
        assert [index.matching(one) for one in ("#", "$SYS/#", "+/b", "$x")] == [set()] * 4
    assert (index.bytes_held, index.holds_dollar) == (0, False)
