"""Topic filters against a brute-force reading of MQTT 5.0, section 4.7."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tree_handler.routing.filter_trie import FilterTrie
from tree_handler.routing.topic_filters import collapse, levels_of, matches, proper

NAMES = ("", "a", "b", "$s")
TOPICS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.one_of(
    st.lists(st.sampled_from((*NAMES, "+")), min_size=1, max_size=4).map("/".join).filter(bool),
    st.lists(st.sampled_from((*NAMES, "+")), max_size=3).map(lambda ls: "/".join([*ls, "#"])),
)


def oracle(wanted: list[str], levels: list[str], first: bool = True) -> bool:
    """Section 4.7 as it is written, level by level."""
    if not wanted:
        return not levels
    head, *rest = wanted
    wild = not (first and levels and levels[0].startswith("$"))
    if head == "#":
        return wild
    if not levels:
        return False
    return (head == levels[0] or (head == "+" and wild)) and oracle(rest, levels[1:], False)


def means(topic_filter: str, topic: str) -> bool:
    return oracle(topic_filter.split("/"), topic.split("/"))


@given(FILTERS, TOPICS)
def test_a_filter_matches_what_the_standard_says(topic_filter: str, topic: str) -> None:
    assert matches(topic_filter, topic) == means(topic_filter, topic)


def test_examples_of_the_standard() -> None:
    for topic in ("sport/tennis/player1", "sport/tennis/player1/ranking"):
        assert matches("sport/tennis/player1/#", topic)
    assert matches("sport/#", "sport")
    assert matches("+/+", "/finance")
    assert not matches("+", "/finance")
    assert not matches("sport/+", "sport")
    assert matches("sport/+", "sport/")
    assert not matches("#", "$SYS/x")
    assert not matches("+/monitor/Clients", "$SYS/monitor/Clients")
    assert matches("$SYS/#", "$SYS/x")


def test_a_shared_subscription_counts_as_its_filter() -> None:
    assert proper("$share/group/a/+") == "a/+"
    assert proper("$share/group//a") == "/a"
    assert proper("a/$share/b") == "a/$share/b"


@given(
    st.lists(st.tuples(st.booleans(), FILTERS, st.sampled_from("xyz")), max_size=30),
    st.lists(TOPICS, max_size=6),
)
def test_the_index_finds_who_has_a_filter_that_matches_whatever_came_and_went(
    changes: list[tuple[bool, str, str]], topics: list[str]
) -> None:
    index: FilterTrie[str, None] = FilterTrie()
    there: set[tuple[str, str]] = set()
    for comes, topic_filter, key in changes:
        if comes:
            index.set(topic_filter, key, None)
            there.add((topic_filter, key))
        else:
            index.delete(topic_filter, key)
            there.discard((topic_filter, key))
    for topic in topics:
        assert index.matching_keys(topic) == {key for f, key in there if means(f, topic)}
    for topic_filter, key in there:
        index.delete(topic_filter, key)
    assert index.node_count == 0


@given(st.sets(FILTERS, max_size=12), st.integers(1, 5), TOPICS.filter(lambda t: t[0] != "$"))
def test_collapsed_filters_are_few_and_match_all_that_was_matched(
    filters: set[str], limit: int, topic: str
) -> None:
    few = collapse(filters, limit, 1_000)
    assert len(few) <= limit
    if any(means(f, topic) for f in filters):
        assert any(means(f, topic) for f in few)


def test_few_filters_stay_as_they_are_and_many_become_prefixes() -> None:
    assert collapse({"a/+/c", "b"}, 2, 1_000) == {"a/+/c", "b"}
    assert collapse({f"a/b/{n}" for n in range(9)} | {"c/d"}, 2, 1_000) == {"a/b/#", "c/d"}
    assert collapse({f"{n}/x" for n in range(9)}, 2, 1_000) == {"#"}
    assert collapse({"a/#", "a/b/c", "a"}, 9, 1_000) == {"a/#"}
    assert collapse({"$SYS/#"}, 9, 1_000) == frozenset()


def test_filters_with_very_many_levels_become_prefixes() -> None:
    deep = {f"{n}/" + "/".join("abcdefgh") for n in range(9)}
    few = collapse(deep, 9, 40)
    assert levels_of(few) <= 40
    assert few == {f"{n}/a/b/#" for n in range(9)}


def test_what_has_a_wildcard_is_no_topic_and_gets_nothing() -> None:
    index: FilterTrie[str, int] = FilterTrie()
    assert index.set("a/+", "x", 1)
    assert not index.set("a/+", "x", 2)
    index.set("#", "y", 3)
    index.set("a/#", "z", 4)
    assert [index.match(topic) for topic in ("a/+", "+", "#", "a/#", "+a")] == [[]] * 5
    assert sorted(index.match("a/b")) == [("x", 2), ("y", 3), ("z", 4)]
    assert sorted(index.match("a")) == [("y", 3), ("z", 4)]
    assert index.match("$a/b") == []
    assert [index.delete(*gone) for gone in (("a", "x"), ("a/b", "x"), ("a/+", "y"))] == [False] * 3
    assert (index.delete("a/+", "x"), index.delete("a/+", "x")) == (True, False)
    assert index.node_count == 3  # "#", "a" and "a/#"
