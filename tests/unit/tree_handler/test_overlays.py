"""Topic overlays of one gateway: sessions, epochs, what way a message takes (C5)."""

from __future__ import annotations

import contextlib
from collections import Counter

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tree_handler.overlay_pair import Fleet, Wires, mesh, told
from tree_handler.errors import ProtocolError
from tree_handler.overlays import overlays
from tree_handler.overlays import wire as overlay_wire
from tree_handler.overlays.instance import Instance, OverlayContext
from tree_handler.overlays.overlays import OverlayChanged, Overlays, Say, Settings
from tree_handler.overlays.plan import overlay_id
from tree_handler.overlays.wire import Item
from tree_handler.spanning.election import MAX_EPOCH
from tree_handler.spanning.spanning_tree import Identity, Parameters

PAIR = overlay_id(frozenset({"gw-a", "gw-b"}))


def links(wires: Wires, at: str, topic: str = "t") -> set[str] | None:
    """Over the links to which gateways a message goes."""
    way = wires.gateways[at].way(topic)
    ids = list(wires.gateways)
    return None if way is None else {ids[link - 1] for link in way.links}


def test_a_message_goes_over_the_overlay_once_its_tree_is_settled() -> None:
    wires = Wires.of("gw-a", "gw-b")
    assert links(wires, "gw-a") is None
    wires.run(1.0)
    assert links(wires, "gw-a") == {"gw-b"}
    assert links(wires, "gw-b") == {"gw-a"}
    assert wires.gateways["gw-a"].hops("t") == {wires.link("gw-b")}
    assert wires.gateways["gw-a"].hops("other") is None


def test_only_links_between_members_are_in_an_overlay() -> None:
    ids = ("gw-a", "gw-b", "gw-c")
    records = mesh(*ids)
    records["gw-c"] = told("gw-c", frozenset(), frozenset(), frozenset(ids) - {"gw-c"})
    wires = Wires.of(*ids, records=records)
    wires.run(1.0)
    assert links(wires, "gw-a") == {"gw-b"}
    assert not wires.gateways["gw-c"].instances
    assert not any("gw-c" in said[:2] for said in wires.sent)


def test_three_members_are_joined_by_two_links_and_share_the_root_by_capacity() -> None:
    wires = Wires.of("gw-a", "gw-b", "gw-c")
    wires.run(1.0)
    ways = {i: links(wires, i) for i in wires.gateways}
    assert ways == {"gw-a": {"gw-b", "gw-c"}, "gw-b": {"gw-a"}, "gw-c": {"gw-a"}}
    assert {g.snapshots()[0].root for g in wires.gateways.values()} == {"gw-a"}
    assert [g.rooted for g in wires.gateways.values()] == [1, 0, 0]


def test_topics_with_the_same_members_share_one_overlay() -> None:
    topics = frozenset(f"t/{n}" for n in range(30))
    wires = Wires.of(
        "gw-a",
        "gw-b",
        records=mesh("gw-a", "gw-b", publishes=topics, subscribes=frozenset({"t/+"})),
    )
    wires.run(1.0)
    (overlay,) = wires.gateways["gw-a"].snapshots()
    assert (overlay.topics, overlay.members) == (30, ("gw-a", "gw-b"))
    assert all(links(wires, "gw-b", topic) == {"gw-a"} for topic in topics)


def test_there_is_no_way_while_the_parent_has_not_accepted() -> None:
    wires = Wires.of("gw-a", "gw-b")
    wires.run(1.0)
    wires.gateways["gw-b"].link_down(wires.link("gw-a"), wires.now)
    assert links(wires, "gw-b") is None


def test_a_batch_from_a_link_that_does_not_forward_is_discarded_and_counted() -> None:
    wires = Wires.of("gw-a", "gw-b", "gw-c")
    wires.run(1.0)
    b, c = wires.gateways["gw-b"], wires.link("gw-c")
    (overlay,) = b.instances
    assert b.onward(overlay, wires.link("gw-a")) == frozenset()
    assert wires.gateways["gw-a"].onward(overlay, wires.link("gw-b")) == {c}
    assert b.onward(overlay, c) is None
    assert b.onward(b"unknown!", wires.link("gw-a")) is None
    assert b.counters["overlay_discarded"] == 2


def test_overlays_are_never_mixed() -> None:
    """A batch that came in one overlay leaves over the links of that overlay alone."""
    ids = ("gw-a", "gw-b", "gw-c")
    records = {
        i: told(i, frozenset({"pair", "all"}), frozenset({"pair", "all"}), frozenset(ids) - {i})
        for i in ids
    }
    records["gw-c"] = told("gw-c", frozenset(), frozenset({"all"}), frozenset({"gw-a", "gw-b"}))
    wires = Wires.of(*ids, records=records)
    wires.run(1.0)
    a = wires.gateways["gw-a"]
    assert links(wires, "gw-a", "pair") == {"gw-b"}
    assert links(wires, "gw-a", "all") == {"gw-b", "gw-c"}
    assert a.onward(PAIR, wires.link("gw-b")) == frozenset()
    assert a.onward(overlay_id(frozenset(ids)), wires.link("gw-b")) == {wires.link("gw-c")}


# -- lives -----------------------------------------------------------------------------------------


def without(records: Fleet, gateway_id: str) -> Fleet:
    """The records when this gateway wants nothing any more."""
    silent = told(gateway_id, frozenset(), frozenset(), records[gateway_id].neighbours)
    return records | {gateway_id: silent}


def test_a_gateway_that_enters_an_overlay_again_is_followed_at_once() -> None:
    """Its sequences begin anew, but under a higher epoch; gw-b never hears that it was away."""
    wires = Wires.of("gw-a", "gw-b")
    wires.run(20.0)
    a = wires.gateways["gw-a"]
    before = a.instances[PAIR].tree.identity.boot_epoch
    wires.tell(without(mesh("gw-a", "gw-b"), "gw-a"), to=["gw-a"])
    assert PAIR not in a.instances
    assert links(wires, "gw-b") is None
    wires.tell(mesh("gw-a", "gw-b"), to=["gw-a"])
    assert a.instances[PAIR].tree.identity.boot_epoch > before
    wires.run(1.0)
    assert links(wires, "gw-b") == {"gw-a"}
    assert wires.gateways["gw-b"].snapshots()[0].root == "gw-a"


def test_epochs_of_a_later_boot_are_higher_than_all_of_an_earlier_one() -> None:
    def first_epoch(boot_epoch: int) -> int:
        own = Overlays(Identity("gw-a", boot_epoch, 1.0, "10.0.0.1"), Parameters(), Settings(), 0.0)
        for _ in range(3):
            own.records_changed(mesh("gw-a", "gw-b"), 0.0)
            own.records_changed({}, 0.0)
        own.records_changed(mesh("gw-a", "gw-b"), 0.0)
        return own.instances[PAIR].tree.identity.boot_epoch

    assert first_epoch(7) < first_epoch(8) < first_epoch(2**32 - 1) <= MAX_EPOCH


def test_without_a_free_epoch_there_is_no_overlay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlays, "LIVES_BITS", 1)
    own = Overlays(Identity("gw-a", 1, 1.0, "10.0.0.1"), Parameters(), Settings(), 0.0)
    for _ in range(3):
        own.records_changed(mesh("gw-a", "gw-b"), 0.0)
        own.records_changed({}, 0.0)
    assert own.counters["overlay_epochs_used_up"] == 1


def test_what_was_meant_for_an_earlier_life_is_not_taken() -> None:
    wires = Wires.of("gw-a", "gw-b")
    wires.run(2.0)
    wires.held.add(("gw-b", "gw-a"))
    wires.run(0.6)
    a = wires.gateways["gw-a"]
    wires.tell(without(mesh("gw-a", "gw-b"), "gw-a"), to=["gw-a"])
    wires.tell(mesh("gw-a", "gw-b"), to=["gw-a"])
    wires.held.clear()
    heard = a.instances[PAIR].tree.neighbours()
    assert heard == []
    wires.deliver()
    assert a.counters["overlay_stale_session"] > 0
    wires.run(1.0)
    assert links(wires, "gw-a") == {"gw-b"}


def test_a_member_that_is_silent_is_given_up_and_greeted_anew() -> None:
    wires = Wires.of("gw-a", "gw-b")
    wires.run(2.0)
    wires.held |= {("gw-a", "gw-b"), ("gw-b", "gw-a")}
    wires.run(3.0)
    assert links(wires, "gw-a") is None
    wires.held.clear()
    wires.deliver()
    wires.run(1.5)
    assert links(wires, "gw-a") == {"gw-b"}
    assert links(wires, "gw-b") == {"gw-a"}


# -- signalling ------------------------------------------------------------------------------------


def test_a_way_costs_the_first_round_trip_of_its_link_and_follows_the_smoothed_one() -> None:
    wires = Wires.of("gw-a", "gw-b")
    overlays, link = wires.gateways["gw-b"], wires.link("gw-a")

    def cost_ms() -> int | None:
        wires.run(1.0)
        return overlays.snapshots()[0].cost_ms

    overlays.measured(link, 100.0, wires.now)
    assert cost_ms() == 100
    smoothed_ms = 100.0
    for _ in range(60):
        smoothed_ms += (200.0 - smoothed_ms) / 8
        overlays.measured(link, smoothed_ms, wires.now)
    assert cost_ms() == pytest.approx(200, rel=0.25)


def test_the_hellos_of_all_overlays_due_for_a_link_are_one_message() -> None:
    ids = ("gw-a", "gw-b", "gw-c", "gw-d")
    topics = {"ab": "ab", "abc": "abc", "abd": "abd", "abcd": "abcd"}
    records = {}
    for i in ids:
        wanted = frozenset(topic for topic, who in topics.items() if i[-1] in who)
        records[i] = told(i, wanted, wanted, frozenset(ids) - {i})
    wires = Wires.of(*ids, records=records)
    wires.run(5.0)
    wires.sent.clear()
    wires.run(5.0)
    said = [m for a, b, m in wires.sent if (a, b) == ("gw-a", "gw-b")]
    assert len(said) == 10
    assert all(len(overlay_wire.decode(message)) == 4 for message in said)


def test_the_root_of_a_settled_overlay_says_hello_at_whole_intervals_since_it_began() -> None:
    wires = Wires.of("gw-a", "gw-b")
    root, hello_s = wires.gateways["gw-a"], Parameters().hello_s
    wires.run(0.3)
    for records in ({}, mesh("gw-a", "gw-b")):  # the overlay begins between two of them
        wires.tell(records)
    assert root.next_timer() == 0.3 + hello_s
    wires.run(10 * hello_s)
    for number in range(11, 15):
        assert root.next_timer() == pytest.approx(number * hello_s)
        wires.run(hello_s)


def test_more_overlays_than_the_limit_go_the_routed_way_on_all_gateways_alike() -> None:
    ids = ("gw-a", "gw-b", "gw-c")
    records = {}
    for i in ids:
        wanted = frozenset(t for t in ("ab", "bc", "ac", "abc") if i[-1] in t)
        records[i] = told(i, wanted, wanted, frozenset(ids) - {i})
    wires = Wires.of(*ids, settings=Settings(max_overlays=2), records=records)
    wires.run(2.0)
    plans = [g.plan for g in wires.gateways.values()]
    assert all(set(p.overlays) == set(plans[0].overlays) for p in plans)
    assert {p.over_limit for p in plans} == {2}
    used = [t for t in ("ab", "bc", "ac", "abc") if any(links(wires, i, t) for i in ids)]
    assert len(used) == 2


# -- what neighbours may say -----------------------------------------------------------------------


@given(st.binary(max_size=80))
def test_any_bytes_are_taken_or_refused_as_a_protocol_error(message: bytes) -> None:
    wires = Wires.of("gw-a", "gw-b")
    with contextlib.suppress(ProtocolError):
        wires.gateways["gw-a"].receive(wires.link("gw-b"), message, 0.0)


items = st.builds(
    Item,
    st.binary(min_size=8, max_size=8),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.lists(st.binary(max_size=100), max_size=5),
)


@given(st.lists(items, max_size=20))
def test_what_is_said_about_overlays_is_read_again(said: list[Item]) -> None:
    messages = list(overlay_wire.encode(said))
    assert [item for message in messages for item in overlay_wire.decode(message)] == said
    assert len(messages) == bool(said)


def test_what_does_not_fit_into_one_message_is_cut() -> None:
    said = [Item(bytes(8), n, n, [bytes(2_000)] * 10) for n in range(1, 21)]
    messages = list(overlay_wire.encode(said))
    assert len(messages) > 1
    assert max(map(len, messages)) <= overlay_wire.MAX_MESSAGE_BYTES
    assert [item for message in messages for item in overlay_wire.decode(message)] == said


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [2],
        ["1"],
        [1, b"short", 1, 1, []],
        [1, bytes(8), -1, 1, []],
        [1, bytes(8), 1, True, []],
        [1, bytes(8), 1, 1, b""],
        [1, bytes(8), 1, 1, ["text"]],
        [1, bytes(8), 1, 1, [b""] * 65],
        [1, bytes(8), 1, 1],
        {},
        1,
    ],
)
def test_a_field_out_of_bounds_is_refused(fields: object) -> None:
    with pytest.raises(ProtocolError, match="overlay"):
        overlay_wire.decode(msgpack.packb(fields))


def test_an_overlay_may_be_told_64_bpdus_at_once() -> None:
    (item,) = overlay_wire.decode(msgpack.packb([1, bytes(8), 1, 1, [b""] * 64]))
    assert len(item.bpdus) == 64


def test_news_of_an_overlay_that_is_not_run_here_are_counted() -> None:
    wires = Wires.of("gw-a", "gw-b")
    a = wires.gateways["gw-a"]
    (message,) = overlay_wire.encode([Item(bytes(8), 1, 0, [])])
    a.receive(wires.link("gw-b"), message, 0.0)
    a.receive(99, message, 0.0)
    assert a.counters["overlay_unknown"] == 1
    assert a.counters["overlay_unknown_link"] == 1


def test_a_gateway_is_in_an_overlay_over_so_many_links_and_no_more() -> None:
    shared = OverlayContext(iter(range(1, 99)), Counter())
    members = frozenset({"gw-a", "gw-b", "gw-c", "gw-d"})
    one = Instance(
        PAIR, members, Identity("gw-a", 1, 1.0, "10.0.0.1"), Parameters(max_links=2), 0.0, shared
    )
    for link, peer_id in enumerate(("gw-b", "gw-c", "gw-d"), 1):
        one.link_up(link, peer_id, None, 0.0)
    assert [(link, item.own) for link, item in one.take_said()] == [(1, 1), (2, 2)]
    assert shared.counters == {"overlay_too_many_links": 1}
    one.receive(3, Item(PAIR, 9, 0, []), 0.0)
    assert shared.counters == {"overlay_too_many_links": 1, "overlay_not_a_member": 1}
    one.measured(3, 1.0, 0.0)
    one.link_down(3, 0.0)
    one.receive(2, Item(PAIR, 9, 7, []), 0.0)
    assert shared.counters["overlay_stale_session"] == 1
    assert one.take_said() == []
    one.close()
    assert [(link, item.own, item.peer) for link, item in one.take_said()] == [
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert (one.forwarding, one.way) == (frozenset(), None)


def test_what_is_said_in_two_sessions_of_a_link_is_not_put_together() -> None:
    shared = OverlayContext(iter(range(1, 99)), Counter())
    members = frozenset({"gw-a", "gw-b"})
    one = Instance(PAIR, members, Identity("gw-a", 1, 1.0, "10.0.0.1"), Parameters(), 0.0, shared)
    one.link_up(1, "gw-b", None, 0.0)
    one.receive(1, Item(PAIR, 9, 1, []), 0.0)  # a hello for session 9 is said behind the greeting
    one.receive(1, Item(PAIR, 0, 1, []), 0.1)
    one.receive(1, Item(PAIR, 10, 1, []), 0.2)
    said = [(item.own, item.peer, len(item.bpdus) > 0) for _, item in one.take_said()]
    assert said == [(1, 0, False), (1, 9, True), (1, 10, True)]


def test_a_round_trip_of_a_link_that_has_ended_says_nothing() -> None:
    wires = Wires.of("gw-a", "gw-b")
    wires.run(1.0)
    gateway = wires.gateways["gw-a"]
    gateway.link_down(wires.link("gw-b"), wires.now)
    gateway.link_down(wires.link("gw-b"), wires.now)
    gateway.take_actions()
    gateway.measured(wires.link("gw-b"), 5.0, wires.now)
    assert gateway.take_actions() == []


def test_a_link_that_ends_is_told_of_at_once_to_those_whom_it_moves_to_another_parent() -> None:
    wires = Wires.of("gw-a", "gw-b", "gw-c")
    wires.run(1.0)
    gateway, gone = wires.gateways["gw-c"], wires.link("gw-a")
    (overlay,) = gateway.instances
    gateway.link_down(gone, wires.now)
    told = gateway.take_actions()
    assert {one.link for one in told if isinstance(one, Say)} == {wires.link("gw-b")}
    (changed,) = [one.why for one in told if isinstance(one, OverlayChanged)]
    assert changed.startswith(f"overlay {overlay.hex()}: link to gw-a down: ")
    gateway.link_down(gone, wires.now)
    assert gateway.take_actions() == []


def test_each_life_in_an_overlay_is_told_of_when_it_begins_and_when_it_ends() -> None:
    own = Overlays(Identity("gw-a", 1, 1.0, "10.0.0.1"), Parameters(), Settings(), 0.0)
    begins, ends = f"overlay {PAIR.hex()}: records: ", f"overlay {PAIR.hex()} ended"
    for _ in range(3):
        for records, why in ((mesh("gw-a", "gw-b"), begins), ({}, ends)):
            own.records_changed(records, 0.0)
            (told,) = own.take_actions()
            assert isinstance(told, OverlayChanged)
            assert told.why.startswith(why)
            own.records_changed(records, 0.0)
            assert own.take_actions() == []
