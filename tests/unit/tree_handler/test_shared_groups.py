"""The choice of the gateway whose members of a shared subscription get a message."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.entry import accepted_at
from tree_handler.errors import ProtocolError
from tree_handler.holders import MAX_HOLDERS, Holders, holders_of, with_holders
from tree_handler.sharing.claims import (
    DURABLE,
    GROUPS_MAX,
    ONLINE,
    TEXT_MAX,
    Claims,
    OwnClaims,
)
from tree_handler.sharing.groups import MAX_GATEWAYS, NAMED_MAX, FleetGroups
from tree_handler.sharing.handed_on import HOPS_MAX, HandedOn
from tree_handler.sharing.rule import EachGateway

JOBS = ("workers", "jobs/#")
HERE: Holders = (("workers", "jobs/#", "a"),)
THERE: Holders = (("workers", "jobs/#", "b"),)


def claims(gateway_id: str, presence: int = ONLINE, version: int = 1, **options: Any) -> Claims:
    groups = {JOBS: presence} if presence else {}
    return Claims(gateway_id, 1, version, groups=groups, **options)


def groups(*records: Claims, reached: str = "", near: str = "", **options: Any) -> FleetGroups:
    """Return the knowledge of gateway ``a`` after these records.

    Each letter of `reached` and of `near` is a gateway within reach, or one that is nearer.
    """
    found = FleetGroups("a", lambda other: 0 if other in near else 1, **options)
    for record in records:
        found.update(record)
    found.moved(frozenset(reached))
    return found


# -- the origin chooses ------------------------------------------------------------------------


def test_a_message_stays_with_its_origins_members_while_one_is_connected() -> None:
    fleet = groups(claims("b"), reached="b")
    assert fleet.choose("jobs/1", 1, {JOBS: ONLINE}) == ()


def test_a_message_goes_to_the_only_gateway_with_a_connected_member() -> None:
    fleet = groups(claims("b"), claims("c", DURABLE), reached="bc")
    assert fleet.choose("jobs/1", 1, {}) == THERE
    assert fleet.choose("jobs/1", 1, {JOBS: DURABLE}) == THERE
    assert fleet.choose("jobs/1", 0, {}) == THERE


def test_a_message_goes_to_the_nearest_gateway_and_to_equally_near_ones_in_turn() -> None:
    fleet = groups(claims("b"), claims("c"), claims("d"), reached="bcd", near="cd")
    holders = Counter(fleet.choose("jobs/1", 1, {})[0][2] for _ in range(10))
    assert holders == {"c": 5, "d": 5}


def test_the_next_message_goes_elsewhere_once_its_holder_is_out_of_reach() -> None:
    fleet = groups(claims("b"), claims("c"), reached="bc", near="b")
    assert fleet.choose("jobs/1", 1, {}) == THERE
    fleet.moved(frozenset("c"))
    assert fleet.choose("jobs/1", 1, {}) == (("workers", "jobs/#", "c"),)


def test_a_message_waits_where_a_session_waits_if_nobody_is_connected() -> None:
    fleet = groups(claims("b", DURABLE), claims("c", DURABLE), reached="b", near="c")
    assert fleet.choose("jobs/1", 1, {JOBS: DURABLE}) == ()
    assert fleet.choose("jobs/1", 1, {}) == THERE
    fleet.moved(frozenset())
    assert fleet.choose("jobs/1", 2, {}) == (("workers", "jobs/#", "c"),)
    assert fleet.choose("jobs/1", 0, {}) == ()


def test_a_connected_member_of_a_gateway_out_of_reach_is_not_counted_on() -> None:
    fleet = groups(claims("b", ONLINE))
    assert fleet.choose("jobs/1", 1, {}) == ()


def test_a_gateway_is_not_chosen_to_which_a_message_is_not_carried() -> None:
    fleet = groups(claims("b"), claims("c"), reached="bc", near="b", carried_to=lambda topic: {"c"})
    assert fleet.choose("jobs/1", 1, {}) == (("workers", "jobs/#", "c"),)


def test_a_gateway_is_not_chosen_that_may_not_hold_messages_on_a_topic() -> None:
    fleet = groups(claims("b"), claims("c"), reached="bc", near="b")
    fleet.may_hold = lambda gateway_id, topic: gateway_id != "b" or topic != "jobs/secret"
    assert fleet.choose("jobs/1", 1, {}) == THERE
    assert fleet.choose("jobs/secret", 1, {}) == (("workers", "jobs/#", "c"),)
    assert fleet.next_holder("jobs/secret", JOBS) == "c"


def test_topics_of_the_broker_are_no_shared_work_of_the_fleet() -> None:
    fleet = groups(Claims("b", 1, 1, groups={("g", "#"): ONLINE}), reached="b")
    assert fleet.matching("$SYS/x") == ()
    assert fleet.choose("x", 0, {}) == (("g", "#", "b"),)


def test_one_gateway_can_add_so_much_to_a_message_and_no_more() -> None:
    many: dict[tuple[str, str], int] = {(f"{n:04}", "#"): ONLINE for n in range(200)}
    fleet = groups(Claims("b", 1, 1, groups=many), claims("c"), reached="bc")
    named = Counter(holder for *_, holder in fleet.choose("jobs/1", 1, {}))
    assert named == {"b": NAMED_MAX, "c": 1}
    assert fleet.left_out == 200 - NAMED_MAX
    long: dict[tuple[str, str], int] = {("g" * 1_000 + str(n), "#"): ONLINE for n in range(9)}
    fleet.update(Claims("b", 1, 2, groups=long))
    assert len(fleet.choose("jobs/1", 1, {})) == 5


def test_a_message_names_so_many_holders_at_most() -> None:
    fleet = groups(reached="".join(chr(ord("b") + n) for n in range(20)))
    for n in range(20):
        own = {(f"{n:02}-{m}", "#"): ONLINE for m in range(NAMED_MAX)}
        fleet.update(Claims(chr(ord("b") + n), 1, 1, groups=own))
    holders = fleet.choose("x", 0, {})
    assert len(holders) == MAX_HOLDERS
    assert holders_of(with_holders(("x", 0, b""), holders)) == holders


# -- each gateway obeys --------------------------------------------------------------------------


def test_a_message_is_for_its_holders_members_and_for_nobody_elses() -> None:
    fleet = groups(claims("b"))
    assert fleet.gives("b", HERE, JOBS)
    assert not fleet.gives("b", THERE, JOBS)
    assert not fleet.gives("a", THERE, JOBS)
    assert not fleet.gives("old", THERE, JOBS)


def test_a_message_without_a_holder_is_for_the_members_of_its_origin() -> None:
    fleet = groups(claims("b"))
    assert fleet.gives("a", (), JOBS)
    assert not fleet.gives("b", (), JOBS)
    assert not fleet.gives("b", (("other", "jobs/#", "a"),), JOBS)


def test_a_message_of_an_earlier_release_is_given_on_each_gateway() -> None:
    fleet = groups(claims("set-so", decides=False))
    assert fleet.gives("old", (), JOBS)
    assert fleet.gives("set-so", (), JOBS)


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.fixed_dictionaries({o: st.integers(0, 3) for o in "abcd"}),
        min_size=4,
    ),
    st.fixed_dictionaries({o: st.sets(st.sampled_from("abcd")) for o in "abcd"}),
    st.sampled_from("abcd"),
    st.integers(0, 2),
)
def test_however_views_differ_a_message_has_one_holder_at_most(
    views: dict[str, dict[str, int]], reach: dict[str, set[str]], origin: str, qos: int
) -> None:
    fleet: dict[str, FleetGroups] = {}
    for own, view in views.items():
        fleet[own] = FleetGroups(own)
        for other, presence in view.items():
            fleet[own].update(claims(other, presence))
        fleet[own].moved(frozenset(reach[own] - {own}))
    holders = fleet[origin].choose("jobs/1", qos, {JOBS: views[origin][origin]})
    assert sum(one.gives(origin, holders, JOBS) for one in fleet.values()) == 1


# -- records --------------------------------------------------------------------------------------


def test_the_newest_record_counts_and_what_has_changed_is_told() -> None:
    fleet = groups()
    assert fleet.update(claims("b", version=2)) == {"jobs/#"}
    assert fleet.update(claims("b", 0, version=1)) == frozenset()
    assert fleet.update(claims("c")) == frozenset()
    assert fleet.update(claims("b", 0, version=3)) == frozenset()
    assert fleet.matching("jobs/1") == (JOBS,)
    assert fleet.update(claims("c", 0, version=2)) == {"jobs/#"}
    assert fleet.matching("jobs/1") == ()
    assert fleet.update(claims("a")) == frozenset()  # its own


def test_a_fleet_beyond_the_bound_forgets_gateways_out_of_reach_first() -> None:
    fleet = FleetGroups("a")
    reached = frozenset(f"g{n}" for n in range(MAX_GATEWAYS - 1))
    fleet.moved(reached)
    fleet.update(Claims("gone", 1, 1, groups={("h", "#"): DURABLE}))
    for one in reached:
        fleet.update(claims(one))
    assert fleet.update(claims("new")) == {"#"}
    assert not fleet.decides("gone")
    fleet.moved(reached | {"new"})
    assert fleet.update(claims("newer")) == frozenset()
    assert not fleet.decides("newer")
    assert fleet.decides("new")


def test_a_record_is_read_as_it_was_written() -> None:
    record = Claims("gw", 3, 7, False, {("g", "a/+"): ONLINE, ("h", "#"): ONLINE | DURABLE})
    assert Claims.decode(record.encode()) == record


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gateway_id": "No"}, "gateway_id"),
        ({"epoch": 0}, "epoch"),
        ({"version": True}, "version"),
        ({"decides": 1}, "decides"),
        ({"groups": {}}, "groups"),
        ({"groups": [["g", "a"]]}, "group"),
        ({"groups": [["g/h", "a", 1]]}, "group"),
        ({"groups": [["g", "$SYS/#", 1]]}, "group"),
        ({"groups": [["g", "a", 1]] * 1_025}, "groups"),
        ({"groups": [["g", "a" * 60_000, 1], ["g", "b" * 80_000, 1]]}, "characters"),
    ],
)
def test_a_record_that_is_none_is_refused_and_its_field_named(
    change: dict[str, object], why: str
) -> None:
    said = msgpack.unpackb(claims("gw").encode()) | change
    with pytest.raises(ProtocolError, match=why):
        Claims.decode(msgpack.packb(said))


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb([]), msgpack.packb({"epoch": 1})])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="shared subscriptions"):
        Claims.decode(data)


def test_a_gateway_tells_at_once_that_it_chooses_and_then_what_changes() -> None:
    own = OwnClaims("gw", 4)
    assert own.take(0.0) == Claims("gw", 4, 1)
    assert own.take(1.0) is None
    assert own.changed(JOBS, ONLINE)
    assert not own.changed(JOBS, ONLINE)
    assert own.next_timer() <= 1.0
    assert own.take(1.0) == Claims("gw", 4, 2, groups={JOBS: ONLINE})
    own.changed(JOBS, 0)
    assert own.take(1.1) is None  # soon after the last
    assert own.take(1.3) == Claims("gw", 4, 3)


def test_a_record_that_the_log_has_dropped_is_told_anew() -> None:
    own = OwnClaims("gw", 1)
    told = own.take(0.0)
    assert told is not None
    own.logged(told, 5)
    own.trimmed({("$gw", 1): 5})
    assert own.take(9.0) is None
    own.trimmed({("$gw", 1): 6})
    again = own.take(9.0)
    assert again is not None and again.version == 2


def test_a_gateway_has_room_for_so_many_shared_subscriptions() -> None:
    own = OwnClaims("gw", 1)
    for n in range(GROUPS_MAX):
        assert own.has_room_for((str(n), "#"))
        own.changed((str(n), "#"), ONLINE)
    assert not own.has_room_for(("one more", "#"))
    assert own.has_room_for(("0", "#"))
    own.changed(("0", "#"), 0)
    assert own.has_room_for(("one more", "#"))
    assert not own.has_room_for(("g", "x" * TEXT_MAX))


# -- handed on ------------------------------------------------------------------------------------


def test_a_message_without_members_here_goes_to_the_next_gateway() -> None:
    fleet = groups(claims("b", DURABLE), claims("c"), reached="bc")
    assert fleet.next_holder("jobs/1", JOBS) == "c"
    fleet.moved(frozenset("b"))
    assert fleet.next_holder("jobs/1", JOBS) == "b"
    assert fleet.next_holder("jobs/1", ("other", "jobs/#")) is None


def test_what_is_handed_on_is_read_as_it_was_written() -> None:
    handed = HandedOn(JOBS, 2, Entry("jobs/1", b"x", 2, properties={2: 60}))
    assert HandedOn.decode(handed.encode()) == handed


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        ["g", "f", 1, "t", 0, b"x", {}],
        ["g", "f", 0, "t", 1, b"x", {}],
        ["g", "f", HOPS_MAX + 1, "t", 1, b"x", {}],
        ["g", "f", 1, "t", 1, "x", {}],
        ["g", "f", 1, 7, 1, b"x", {}],
        ["g", "f", 1, "t", 1, b"x"],
    ],
)
def test_what_is_no_message_handed_on_is_refused(said: object) -> None:
    with pytest.raises(ProtocolError, match="message handed on"):
        HandedOn.decode(msgpack.packb(said))
    with pytest.raises(ProtocolError, match="message handed on"):
        HandedOn.decode(b"\xc1")


# -- in the row -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        ("t", 1, b"x"),
        ("t", 1, b"x", {2: 60}),
        ("t", 5, b"x", {2: 60}, b"proof"),
        accepted_at(("t", 1, b"x", {2: 60}), 9),
    ],
)
def test_holders_travel_behind_what_earlier_releases_read(row: tuple[Any, ...]) -> None:
    named = with_holders(row, THERE)
    frame, header = batch.make("gw", 1, 1, [named], flags=Flags.LOGGED, origin_time_us=0)
    (found,) = batch.rows(frame, header)
    assert found[: len(row)] == row
    entry = Entry.of(found)
    assert entry.holders == THERE
    assert entry.row() == named
    assert Entry.of(row).holders == ()
    assert with_holders(row, ()) is row


def test_a_batch_is_cut_by_what_messages_name_too() -> None:
    many: Holders = tuple((f"{n}" * 40, "#" * 60, "b") for n in range(100))
    rows = [with_holders(("t", 1, b"x"), many)] * 200
    parts = batch.cut(rows)
    assert sum(map(len, parts)) == 200
    for part in parts:
        assert len(msgpack.packb(part)) < 2 * batch.MAX_BODY_BYTES


@pytest.mark.parametrize(
    "said", [None, 5, "b", [[1, 2, 3]], [["g", "f"]], [["g", "f", ""]], [["g", "f", "b"]] * 129]
)
def test_holders_of_another_form_name_nobody(said: object) -> None:
    assert holders_of(("t", 1, b"x", {}, b"", 0, said)) == ()


def test_who_is_gone_for_good_has_no_members_and_its_filters_are_told() -> None:
    other = ("others", "+/x")
    fleet = groups(claims("b"), Claims("c", 2, 1, groups={JOBS: ONLINE, other: ONLINE}))
    assert (fleet.epoch_of("b"), fleet.epoch_of("c"), fleet.epoch_of("d")) == (1, 2, 0)
    assert fleet.forget("d") == frozenset()
    assert fleet.forget("c") == {"+/x"}  # the jobs have members at b
    assert fleet.forget("c") == frozenset()
    assert not fleet.is_elsewhere(other)
    assert fleet.is_elsewhere(JOBS)
    assert fleet.matching("jobs/1") == (JOBS,)
    assert fleet.forget("b") == {"jobs/#"}
    assert (fleet.matching("jobs/1"), list(fleet)) == ((), [])


def test_a_gateway_alone_gives_all_to_its_own_members() -> None:
    alone = EachGateway()
    entry = Entry("jobs/1", b"", 1)
    alone.changed(JOBS, ONLINE)
    alone.hand_on(entry, HERE, [JOBS])
    assert alone.has_room_for(JOBS)
    assert alone.is_settled
    assert (alone.matching("jobs/1"), alone.choose("jobs/1", 1, {JOBS: ONLINE})) == ((), ())
    assert alone.gives("b", THERE, JOBS)
    assert not alone.is_elsewhere(JOBS)
    assert not alone.is_sole(("b", 1), THERE, JOBS)
    assert not alone.leave(entry, JOBS, 0)
