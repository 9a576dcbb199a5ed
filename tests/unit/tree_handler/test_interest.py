"""The interests of gateways: the record, the times at which it is told, and a topic's receivers."""

from __future__ import annotations

import math

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.routing.interest import (
    MAX_ADVERTISED,
    MAX_FILTERS,
    MAX_NEIGHBOURS,
    TOPIC_S,
    Interest,
    Interests,
    OwnInterest,
)

IDS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,9}", fullmatch=True)
TEXTS = st.frozensets(st.text("ab/+#", min_size=1, max_size=8), max_size=5)
RECORDS = st.builds(
    Interest,
    IDS,
    st.integers(1, 1 << 62),
    st.integers(0, 1 << 62),
    TEXTS,
    TEXTS,
    st.frozensets(IDS, max_size=4),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.booleans(),
)


def record(gateway_id: str, version: int, *filters: str, epoch: int = 1) -> Interest:
    return Interest(gateway_id, epoch, version, frozenset(filters))


@given(RECORDS)
def test_a_record_survives_the_wire_and_later_keys_are_ignored(one: Interest) -> None:
    assert Interest.decode(one.encode()) == one
    fields = msgpack.unpackb(one.encode())
    assert Interest.decode(msgpack.packb(fields | {"later": 1})) == one


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gateway_id", "NO"),
        ("epoch", 0),
        ("version", -1),
        ("subscribes", "a"),
        ("subscribes", [1]),
        ("subscribes", [""]),
        ("subscribes", ["x" * 65_536]),
        ("publishes", ["x"] * (MAX_FILTERS + 1)),
        ("neighbours", ["A"]),
        ("clients", True),
        ("rooted", "1"),
        ("transit", 1),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(name: str, value: object) -> None:
    fields = msgpack.unpackb(record("a", 1).encode())
    with pytest.raises(ProtocolError, match=f"interest {name.removesuffix('s')}"):
        Interest.decode(msgpack.packb(fields | {name: value}))
    del fields[name]
    with pytest.raises(ProtocolError, match=f"without {name}"):
        Interest.decode(msgpack.packb(fields))


def test_the_largest_record_that_is_allowed_is_read() -> None:
    names = frozenset(f"g-{number}" for number in range(MAX_NEIGHBOURS))
    topics = frozenset(f"t/{number}" for number in range(MAX_FILTERS - 1))
    one = Interest("g" * 63, 1, 1, topics | {"x" * 65_535}, topics, names)
    assert Interest.decode(one.encode()) == one


@given(st.binary(max_size=80))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Interest.decode(data)


def test_the_first_change_is_told_at_once_and_those_soon_after_it_together() -> None:
    own = OwnInterest("a", 1, interval_s=0.2)
    first = own.take(0.0)
    assert first is not None
    assert (first.version, first.subscribes) == (1, frozenset())
    assert own.next_timer() == math.inf
    own.subscribed("a/b")
    own.subscribed("$share/g/c")
    assert own.next_timer() == 0.2
    assert own.take(0.1) is None
    second = own.take(0.2)
    assert second is not None
    assert (second.version, second.subscribes) == (2, {"a/b", "c"})


def test_a_filter_goes_with_its_last_subscription_and_what_ends_as_it_was_is_not_told() -> None:
    own = OwnInterest("a", 1)
    own.subscribed("x")
    own.subscribed("x")
    assert own.take(0.0) is not None
    own.unsubscribed("x")
    assert own.next_timer() == math.inf
    own.unsubscribed("x")
    own.subscribed("x")
    assert own.take(1.0) is None
    assert own.next_timer() == math.inf


def test_a_record_that_the_log_drops_is_told_anew_and_no_other() -> None:
    own = OwnInterest("a", 1)
    first = own.take(0.0)
    assert first is not None
    own.trimmed({("$a", 1): 7})  # it is not in the log yet
    assert own.next_timer() == math.inf
    own.logged(first, 7)
    own.logged(record("b", 1), 1)
    own.trimmed({("$a", 1): 7, ("a", 1): 100, ("$a", 0): 100})
    assert own.next_timer() == math.inf
    own.subscribed("x")
    second = own.take(1.0)
    assert second is not None
    own.logged(first, 7)  # late
    own.trimmed({("$a", 1): 8})
    assert own.next_timer() == math.inf
    own.logged(second, 8)
    own.trimmed({("$a", 1): 9})
    again = own.take(2.0)
    assert again is not None
    assert (again.version, again.subscribes) == (3, {"x"})
    assert own.next_timer() == math.inf


def test_a_large_record_is_told_less_often() -> None:
    own = OwnInterest("a", 1, interval_s=0.2, bytes_per_s=1000)
    for n in range(100):
        own.subscribed(f"a/{n:098}")
    assert own.take(0.0) is not None
    own.subscribed("b")
    assert own.next_timer() == pytest.approx(10.0)


def test_how_busy_a_gateway_is_alone_is_told_rarely() -> None:
    own = OwnInterest("a", 1, load_interval_s=10)
    own.take(0.0)
    own.busy(3)
    assert own.next_timer() == 10.0
    told = own.take(10.0)
    assert told is not None
    assert told.clients == 3


def test_a_topic_is_advertised_once_and_many_become_prefixes() -> None:
    own = OwnInterest("a", 1)
    own.published("a/b")
    told = own.take(0.0)
    assert told is not None
    assert told.publishes == {"a/b"}
    own.published("a/b")
    assert own.next_timer() == TOPIC_S  # nothing is to be told
    for n in range(MAX_ADVERTISED + 5):
        own.published(f"many/{n}")
    told = own.take(9.0)
    assert told is not None
    assert told.publishes == {"a/#", "many/#"}
    own.published("many/one-more")
    assert own.next_timer() == TOPIC_S  # nothing is to be told


def test_a_topic_on_which_nothing_is_published_any_more_is_not_advertised_for_ever() -> None:
    own = OwnInterest("a", 1)
    interests = Interests("a", own.published)

    def publish_for_a_day(first: float, *topics: str) -> list[Interest]:
        told = []
        for hour in range(24):
            now = first + hour * 3_600.0
            for topic in topics:
                interests.destinations(topic)  # which is remembered, and looks but once
            while (due := own.next_timer()) <= now:
                turns = own.turns
                record = own.take(max(due, first))
                told += [] if record is None else [record]
                if own.turns != turns:
                    interests.look_anew()
        return told

    day_s = 86_400.0
    assert publish_for_a_day(0.0, "always", "once")[-1].publishes == {"always", "once"}
    told = [one for day in (1, 2, 3) for one in publish_for_a_day(day * day_s, "always")]
    assert [one.publishes for one in told] == [{"always"}]  # told once, when it had gone
    told = [one for day in (4, 5) for one in publish_for_a_day(day * day_s, "always", "once")]
    assert [one.publishes for one in told] == [{"always", "once"}]
    told = [one for day in range(6, 10) for one in publish_for_a_day(day * day_s)]
    assert [one.publishes for one in told] == [frozenset()]
    assert own.next_timer() == math.inf  # and a still network says nothing


def test_many_topics_once_are_prefixes_for_a_while_and_not_for_good() -> None:
    own, now = OwnInterest("a", 1), 0.0
    for number in range(3 * MAX_ADVERTISED):
        own.published(f"reply/{number}")
    record = own.take(now)
    assert record is not None
    assert any(one.endswith("#") for one in record.publishes)
    while own.next_timer() < math.inf:
        now = max(now, own.next_timer())
        own.published("valve")
        record = own.take(now) or record
        if now > 4 * 86_400.0:
            break
    assert record.publishes == {"valve"}


def test_the_newest_record_wins_and_a_restart_is_newer() -> None:
    known = Interests("me")
    assert known.update(record("a", 5, "x")) == record("a", 5, "x")
    assert known.update(record("a", 4, "y")) is None
    assert known.update(record("a", 5, "y")) is None
    assert known.update(record("a", 1, "z", epoch=2)) == record("a", 5, "x")
    assert known.destinations("z") == {"a"}
    assert known.destinations("x") == frozenset()


def test_who_gets_a_topic_follows_the_records_and_never_is_this_gateway() -> None:
    known = Interests("me")
    known.update(record("me", 1, "#"))
    known.update(record("a", 1, "t/+"))
    known.update(record("b", 1))
    assert known.destinations("t/1") == {"a"}
    assert known.everyone == {"a", "b"}
    known.update(record("b", 2, "t/1"))
    assert known.destinations("t/1") == {"a", "b"}
    known.update(record("a", 2))
    assert known.destinations("t/1") == {"b"}
    known.update(record("c", 1))
    assert known.everyone == {"a", "b", "c"}


def test_a_record_with_very_many_levels_is_refused_and_none_is_made() -> None:
    deep = frozenset(f"{number}" + "/" * 40 for number in range(512))
    with pytest.raises(ProtocolError, match="interest subscribes, levels"):
        Interest.decode(Interest("gw", 1, 1, deep).encode())
    own = OwnInterest("gw", 1)
    for topic_filter in deep:
        own.subscribed(topic_filter)
    told = own.take(0.0)
    assert told is not None
    assert Interest.decode(told.encode()) == told


def test_the_routes_of_20_000_topics_are_remembered_and_each_is_advertised_when_it_is_found() -> (
    None
):
    told: list[str] = []
    known = Interests("me", told.append)
    known.update(record("a", 1, "t/1", "t/2"))
    topics = [f"t/{number}" for number in range(20_000)]
    for topic in topics:
        known.destinations(topic)
    assert told == topics
    assert (known.destinations("t/0"), known.destinations("t/1")) == (frozenset(), {"a"})
    assert told == topics
    known.destinations("one/more")
    assert known.destinations("t/1") == {"a"}
    assert told[20_000:] == ["one/more", "t/1"]
    known.look_anew()
    known.destinations("t/1")
    assert told[20_002:] == ["t/1"]


def test_a_changed_filter_has_the_routes_of_its_topics_found_anew_and_many_have_all() -> None:
    told: list[str] = []
    known = Interests("me", told.append)
    known.update(record("a", 1))
    for number in range(400):
        known.destinations(f"t/{number}")
    known.update(record("a", 2, "t/7"))
    assert [known.destinations(f"t/{number}") for number in (6, 7)] == [frozenset(), {"a"}]
    assert told[400:] == ["t/7"]
    many = tuple(f"other/{number}" for number in range(500))
    known.update(record("a", 3, "t/7", *many))  # 200,000 looks
    known.destinations("t/7")
    assert told[401:] == []
    known.update(record("a", 4, "t/7", *many, "one/more", epoch=1))
    known.update(record("b", 1, *many, "one/more"))  # 200,400
    known.destinations("t/7")
    assert told[401:] == ["t/7"]


def test_who_is_gone_for_good_gets_nothing_and_is_nobody() -> None:
    known = Interests("me")
    for name in ("me", "a", "b"):
        known.update(record(name, 1, "t", "u/#"))
    assert (known.destinations("t"), known.everyone, len(known)) == ({"a", "b"}, {"a", "b"}, 3)
    known.forget("a")
    known.forget("c")
    assert (known.destinations("t"), known.destinations("u/1")) == ({"b"}, {"b"})
    assert (known.everyone, len(known), known.get("a")) == ({"b"}, 2, None)
    assert [one.gateway_id for one in known] == ["me", "b"]
    known.update(record("a", 1, "t"))  # as a newcomer
    assert (known.destinations("t"), known.everyone) == ({"a", "b"}, {"a", "b"})


def test_a_record_waits_so_long_for_the_next_as_its_bytes_take_and_never_less_than_0_2_s() -> None:
    own = OwnInterest("a", 1)
    first = own.take(0.0)
    assert first is not None
    assert (first.version, own.next_timer()) == (1, math.inf)
    own.subscribed("x" * 32_768)
    assert own.next_timer() == 0.2
    assert own.take(0.19) is None
    assert own.take(0.2) is not None
    own.linked_to(["gw-b"])
    assert own.next_timer() == 1.2  # a second for as many bytes as a second has
    own.refused()
    assert own.next_timer() == 1.2
    told = own.take(1.2)
    assert told is not None
    assert (told.version, told.neighbours) == (3, {"gw-b"})


def test_what_is_told_again_as_it_was_is_not_told_but_for_what_was_refused() -> None:
    own = OwnInterest("a", 1)
    own.take(0.0)
    own.linked_to([])
    assert own.next_timer() == 0.2
    assert own.take(0.2) is None
    assert own.next_timer() == math.inf
    own.refused()
    told = own.take(0.3)
    assert told is not None
    assert told.version == 2
    own.busy(3, 1)
    assert own.next_timer() == 10.3
    assert own.take(10.2) is None
    told = own.take(10.3)
    assert told is not None
    assert (told.version, told.clients, told.rooted) == (3, 3, 1)
    own.busy(3, 1)
    assert own.next_timer() == math.inf


def test_a_topic_that_a_prefix_covers_is_not_advertised_besides() -> None:
    own = OwnInterest("a", 1)
    for number in range(2_000):
        own.published(f"many/{number}")
    told = own.take(0.0)
    assert told is not None
    assert own.next_timer() == TOPIC_S
    own.published("many/0")
    assert own.next_timer() == TOPIC_S
    own.published("many/more")
    own.published("many/yet/more")
    own.published("other")
    told = own.take(9.0)
    assert told is not None
    assert told.publishes == {"many/#", "other"}


def test_a_record_names_1_000_neighbours_the_first_by_name() -> None:
    own = OwnInterest("a", 1)
    names = [f"gw-{number:04}" for number in range(1_001)]
    own.linked_to(reversed(names))
    told = own.take(0.0)
    assert told is not None
    assert told.neighbours == set(names[:1_000])
