"""The plan of overlays by the gateways' records, and the choice of a root (C5, C6)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tree_handler.overlay_pair import Wires, mesh, told
from tree_handler.overlays.audience import Audiences
from tree_handler.overlays.overlays import Settings
from tree_handler.overlays.plan import Plan, overlay_id
from tree_handler.overlays.policy import RootPolicy, Weights, standing, standings
from tree_handler.routing.interest import Interest

ABC = ("gw-a", "gw-b", "gw-c")


def record(
    gateway_id: str, publishes: str = "", subscribes: str = "", links: str = "abcd"
) -> Interest:
    """A record from words; links are the last letters of ids."""
    neighbours = frozenset(f"gw-{letter}" for letter in links) - {gateway_id}
    return told(gateway_id, frozenset(publishes.split()), frozenset(subscribes.split()), neighbours)


def plan(*records: Interest, own: str = "gw-a", most: int = 64) -> Plan:
    by_id = {r.gateway_id: r for r in records}
    return Plan.of(Audiences.from_records(by_id), by_id, own, most)


def members(found: Plan, topic: str) -> set[str] | None:
    name = found.overlay_of(topic)
    return None if name is None else {i[-1] for i in found.overlays[name]}


def test_members_are_those_that_advertise_and_those_with_a_matching_subscription() -> None:
    found = plan(
        record("gw-a", publishes="x/1 x/2 y"),
        record("gw-b", publishes="x/1", subscribes="x/+"),
        record("gw-c", subscribes="#"),
        record("gw-d", subscribes="y/# z"),
    )
    assert members(found, "x/1") == set("abc")
    assert members(found, "x/2") == set("abc")
    assert members(found, "y") == set("acd")
    assert sorted(found.topics.values()) == [1, 2]


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([record("gw-a", publishes="t"), record("gw-b")], "nobody subscribes"),
        ([record("gw-a", "t", "t"), record("gw-b")], "it concerns one gateway"),
        ([record("gw-a", subscribes="t"), record("gw-b", subscribes="t")], "nobody advertises it"),
        ([record("gw-a", "$x"), record("gw-b", subscribes="$x #")], "it is not of clients"),
        ([record("gw-a", "t/#"), record("gw-b", subscribes="#")], "only a prefix is advertised"),
    ],
)
def test_a_topic_has_no_overlay_if(records: list[Interest], why: str) -> None:
    found = plan(*records)
    assert not found.overlays, why
    assert [found.overlay_of(topic) for topic in ("t", "$x", "t/1")] == [None] * 3


def test_an_overlay_needs_links_between_its_members() -> None:
    apart = [
        record("gw-a", "t", links="c"),
        record("gw-b", "", "t", links="c"),
        record("gw-c", links="ab"),
    ]
    found = plan(*apart)
    assert (found.overlay_of("t"), found.disconnected) == (None, 1)
    joined = [*apart[:2], record("gw-c", "", "t", links="ab")]
    assert members(plan(*joined), "t") == set("abc")


def test_a_link_counts_only_if_both_ends_tell_it() -> None:
    one_sided = plan(record("gw-a", "t"), record("gw-b", "", "t", links=""), record("gw-c"))
    assert one_sided.overlay_of("t") is None


def test_a_leaf_is_a_member_but_no_bridge() -> None:
    leaf = told("gw-c", frozenset(), frozenset({"t"}), frozenset({"gw-a", "gw-b"}), transit=False)
    a, b = record("gw-a", "t", "t", links="c"), record("gw-b", "t", "t", links="c")
    assert plan(a, b, leaf).overlay_of("t") == overlay_id(frozenset({"gw-a", "gw-c"}))
    a, b = record("gw-a", "t", "t", links="bc"), record("gw-b", "t", "t", links="ac")
    assert members(plan(a, b, leaf), "t") == set("abc")


def test_leaves_alone_make_no_overlay_though_they_have_a_link() -> None:
    ids = ("gw-a", "gw-b", "gw-c")
    leaves = [told(one, ("t",), ("t",), ids, transit=False) for one in ids[:2]]
    found = plan(*leaves, told("gw-c", (), (), ids))
    assert members(found, "t") is None
    assert (found.overlays, found.topics) == ({}, {})
    assert found.disconnected == 1
    found = plan(*leaves, told("gw-c", (), ("t",), ids))
    assert members(found, "t") == set("abc")


def test_a_record_outlives_its_gateway_but_not_the_links_to_it() -> None:
    a = record("gw-a", "t", links="b")
    b = record("gw-b", "", "t", links="a")
    gone = record("gw-c", "", "t", links="ab")
    assert members(plan(a, b, gone), "t") == set("ab")


def test_a_leaf_between_two_networks_is_in_the_overlays_of_each() -> None:
    a, b = record("gw-a", "t", "t", links="bl"), record("gw-b", "", "t", links="al")
    lonely = record("gw-z", "", "t", links="l")
    links = frozenset({"gw-a", "gw-b", "gw-z"})
    leaf = told("gw-l", frozenset("t"), frozenset("t"), links, transit=False)
    fleet = a, b, lonely, leaf
    found = plan(*fleet, own="gw-l")
    assert members(found, "t") == set("abl"), "the larger network carries what the leaf sends"
    for other in ("gw-a", "gw-b", "gw-z"):
        name = plan(*fleet, own=other).overlay_of("t")
        assert name in found.overlays, f"the leaf is in the overlay in which {other} counts it"


ids = st.sampled_from(["gw-a", "gw-b", "gw-c", "gw-d", "gw-e"])
wants = st.frozensets(st.sampled_from(["t", "u", "v", "t/1", "+", "#"]), max_size=4)
tolds = st.builds(
    lambda *values, transit: told(*values, transit=transit),
    ids,
    wants,
    wants,
    st.frozensets(ids),
    transit=st.booleans(),
)
fleets = st.lists(tolds, max_size=5, unique_by=lambda one: one.gateway_id)


@given(fleets)
def test_all_members_of_an_overlay_find_it(fleet: list[Interest]) -> None:
    records = {one.gateway_id: one for one in fleet}
    audiences = Audiences.from_records(records)
    plans = {i: Plan.of(audiences, records, i, 3) for i in records}
    for i, found in plans.items():
        for name, who in found.overlays.items():
            assert name == overlay_id(who)
            assert i not in who or all(plans[j].overlays.get(name) == who for j in who)


@given(st.lists(fleets, min_size=2, max_size=6))
def test_audiences_kept_up_to_date_are_those_worked_out_anew(fleets: list[list[Interest]]) -> None:
    kept = Audiences()
    for fleet in fleets:
        records = {one.gateway_id: one for one in fleet}
        kept.take(records)
        anew = Audiences.from_records(records)
        assert kept.topics == anew.topics
        assert all(kept.of(topic) == anew.of(topic) for topic in ("t", "u", "t/1", "x"))


# -- roots -----------------------------------------------------------------------------------------


def test_the_lowest_load_stands_best_and_the_lower_id_among_the_same() -> None:
    who = frozenset(ABC)
    assert standing(1.0, "gw-b", who) > standing(1.5, "gw-a", who)
    assert standing(1.0, "gw-a", who) > standing(1.0, "gw-b", who) > standing(1.0, "gw-c", who)
    assert standing(1.0, "gw-c", who) > standing(1.01, "gw-a", who)
    assert standing(1e30, "gw-a", who) > 0


def test_overlays_that_begin_together_are_spread_by_rooted_and_clients() -> None:
    names = [bytes([n]) * 8 for n in range(12)]
    new = dict.fromkeys(names, frozenset(ABC))
    records = mesh(*ABC)
    records["gw-b"] = told("gw-b", rooted=3)
    records["gw-c"] = told("gw-c", clients=60)
    own = {i: standings(new, records, i, Weights(1.0, 0.1)) for i in ABC}
    won = Counter(max(ABC, key=lambda i: own[i][name]) for name in names)
    assert won == {"gw-a": 7, "gw-b": 4, "gw-c": 1}


def test_the_root_by_balance_is_the_gateway_with_the_fewest_clients() -> None:
    records = mesh(*ABC)
    records["gw-a"] = told("gw-a", neighbours=records["gw-a"].neighbours, clients=9)
    records["gw-b"] = told("gw-b", neighbours=records["gw-b"].neighbours, clients=5)
    wires = Wires.of(*ABC, settings=Settings(RootPolicy.BALANCE), records=records)
    wires.run(1.0)
    assert {g.snapshots()[0].root for g in wires.gateways.values()} == {"gw-c"}


def test_a_root_stays_root_though_its_load_grows() -> None:
    wires = Wires.of(*ABC, settings=Settings(RootPolicy.BALANCE), records=mesh(*ABC))
    wires.run(1.0)
    records = mesh(*ABC)
    records["gw-a"] = told("gw-a", neighbours=records["gw-a"].neighbours, clients=500, rooted=1)
    wires.tell(records)
    wires.run(2.0)
    assert {g.snapshots()[0].root for g in wires.gateways.values()} == {"gw-a"}


@pytest.mark.parametrize("more", [6, 7], ids=["8 filters", "9 filters"])
def test_however_many_filters_change_each_topic_has_its_audience(more: int) -> None:
    audiences = Audiences()
    topics = ("a/1", "b/1", "c")
    here = {"gw-a": record("gw-a", publishes=" ".join(topics)), "gw-b": record("gw-b")}
    assert audiences.take(here)
    assert not audiences.take(here)
    wanted = ["a/+", "+/1", *(f"other/{number}/#" for number in range(more)), "c"]
    here = {**here, "gw-b": record("gw-b", subscribes=" ".join(wanted))}
    assert audiences.take(here)
    assert [audiences.of(topic).subscribers for topic in topics] == [{"gw-b"}] * 3
    assert [audiences.of(topic).advertisers for topic in (*topics, "other")] == [
        *[{"gw-a"}] * 3,
        frozenset(),
    ]
    assert audiences.topics.total() == 3
    assert audiences.take({"gw-b": here["gw-b"]})
    assert not audiences.topics


def test_10_000_topics_are_remembered_and_then_found_anew() -> None:
    found = plan(record("gw-a", "t"), record("gw-b", "", "t"))
    for number in range(10_001):
        assert found.overlay_of(f"none/{number}") is None
    assert members(found, "t") == set("ab")
    assert members(found, "t") == set("ab")
