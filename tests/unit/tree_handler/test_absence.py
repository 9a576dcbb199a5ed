"""A gateway that is out of reach leaves the fleet's records after a timeout, and may come back."""

from __future__ import annotations

import itertools
import math

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.members.absence import MAX_BELIEVED, Absence, AbsenceNotice
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord


def record(gateway_id: str, epoch: int = 1, version: int = 0) -> MemberRecord:
    return MemberRecord(gateway_id, epoch, version, "", "", "10.0.0.1", 1883, capability=1.0)


def test_a_gateway_is_absent_once_it_was_out_of_the_tree_for_the_whole_timeout() -> None:
    absence, members = Absence(60.0), [record("gw-a"), record("gw-b", 3, 2)]
    assert absence.look(members, {"gw-a"}, 100.0) == []
    assert absence.next_timer() == 160.0
    assert absence.look(members, {"gw-a"}, 159.0) == []
    assert absence.look(members, {"gw-a"}, 160.0) == [AbsenceNotice("gw-b", 3, 2)]


def test_who_comes_back_in_time_begins_anew() -> None:
    absence, members = Absence(60.0), [record("gw-b")]
    absence.look(members, set(), 0.0)
    absence.look(members, {"gw-b"}, 50.0)
    assert absence.next_timer() == math.inf
    assert absence.look(members, set(), 61.0) == []


def test_only_the_root_says_who_is_absent_and_counts_from_when_it_became_root() -> None:
    absence, members = Absence(60.0), [record("gw-b")]
    absence.look(members, set(), 0.0)
    assert absence.look(members, None, 70.0) == []
    assert absence.look(members, set(), 80.0) == []
    assert absence.look(members, set(), 140.0) == [AbsenceNotice("gw-b", 1, 0)]


def test_a_record_of_an_absent_gateway_counts_again_only_if_it_is_newer() -> None:
    members = Membership()
    members.update(record("gw-b", 2, 1))
    assert members.is_absent(AbsenceNotice("gw-b", 2, 1))
    assert members.get("gw-b") is None
    assert not members.update(record("gw-b", 2, 1))
    assert members.update(record("gw-b", 2, 2))
    assert not members.is_absent(AbsenceNotice("gw-b", 2, 1))
    assert members.is_absent(AbsenceNotice("gw-b", 2, 2))
    assert members.update(record("gw-b", 3, 0))


def test_the_children_of_an_absent_head_have_its_substitute_for_a_parent_at_once() -> None:
    members = Membership()
    for gateway_id, capability in (("gw-a", 9.0), ("gw-b", 5.0), ("gw-c", 1.0)):
        members.update(
            MemberRecord(gateway_id, 1, 0, "campus", "", "10.0.0.1", 1, capability=capability)
        )
    hierarchy = members.hierarchy()
    assert hierarchy.parents["gw-c"] == "gw-a"
    assert hierarchy.substitutes("gw-c")[0] == "gw-b"
    members.is_absent(AbsenceNotice("gw-a", 1, 0))
    assert members.hierarchy().parents["gw-c"] == "gw-b"


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["gw-a", "gw-b"]), *2 * [st.integers(1, 3)]),
        max_size=5,
    )
)
def test_any_order_of_records_and_absences_leaves_the_same_members(
    events: list[tuple[bool, str, int, int]],
) -> None:
    outcomes = set()
    for order in itertools.permutations(events):
        members = Membership()
        for is_absence, gateway_id, epoch, version in order:
            if is_absence:
                members.is_absent(AbsenceNotice(gateway_id, epoch, version))
            else:
                members.update(record(gateway_id, epoch, version))
        outcomes.add(tuple(members))
    assert len(outcomes) == 1


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["gw-a", "gw-b"]), *2 * [st.integers(1, 3)]),
        max_size=5,
    ),
    st.frozensets(st.sampled_from(["gw-a", "gw-b"])),
)
def test_whoever_believed_a_notice_at_once_or_later_knows_the_same_members_in_the_end(
    events: list[tuple[bool, str, int, int]], gone: frozenset[str]
) -> None:
    """A gateway that is present has told its record anew, with a version above all notices."""
    outcomes = set()
    for order in itertools.permutations(events):
        for known_gone in (frozenset(), gone):
            members = Membership()
            members.suspect(known_gone)
            for is_absence, gateway_id, epoch, version in order:
                if is_absence:
                    members.is_said_absent(AbsenceNotice(gateway_id, epoch, version))
                else:
                    members.update(record(gateway_id, epoch, version))
            for gateway_id in ("gw-a", "gw-b"):
                if gateway_id not in gone:
                    members.update(record(gateway_id, 3, 4))
            members.suspect(gone)
            outcomes.add(tuple(members))
    assert len(outcomes) == 1


def test_a_notice_survives_the_wire() -> None:
    notice = AbsenceNotice("gw-a", 7, 3)
    assert AbsenceNotice.decode(notice.encode()) == notice


@given(st.binary(max_size=64))
def test_any_bytes_are_a_notice_or_a_protocol_error(data: bytes) -> None:
    try:
        notice = AbsenceNotice.decode(data)
    except ProtocolError:
        return
    assert AbsenceNotice.decode(notice.encode()) == notice


@pytest.mark.parametrize("row", [["x", 1], ["gw", "1", 1], ["gw", 1, -1], ["G W", 1, 1], 7])
def test_what_is_no_notice_is_named(row: object) -> None:
    with pytest.raises(ProtocolError, match="absen"):
        AbsenceNotice.decode(msgpack.packb(row))


LAST = (1 << 63) - 1


def test_a_notice_behind_which_no_record_could_come_is_not_believed() -> None:
    members = Membership()
    members.suspect(frozenset())
    liar = AbsenceNotice("gw-b", 2, LAST)
    assert not members.is_said_absent(liar)
    assert members.update(record("gw-b", 2, 1))
    members.is_said_absent(liar)
    members.suspect(frozenset({"gw-b"}))
    assert members.get("gw-b") == record("gw-b", 2, 1)
    assert members.is_said_absent(AbsenceNotice("gw-b", 2, MAX_BELIEVED))
    assert members.update(record("gw-b", 2, MAX_BELIEVED + 1))
    assert members.is_said_absent(AbsenceNotice("gw-b", 2, MAX_BELIEVED + 1))


def test_who_is_said_to_be_gone_for_good_while_he_is_there_is_lost_when_he_is() -> None:
    members = Membership()
    members.suspect(frozenset())
    members.update(record("gw-b", 2, 1))
    members.is_forgotten(AbsenceNotice("gw-b", 2, MAX_BELIEVED))
    members.is_absent(AbsenceNotice("gw-b", 2, 1))
    assert members.forgotten == frozenset()
    members.is_forgotten(AbsenceNotice("gw-b", 2, 1))
    assert members.forgotten == frozenset({"gw-b"})


def test_a_notice_of_a_life_that_no_batch_could_have_is_none() -> None:
    with pytest.raises(ProtocolError):
        AbsenceNotice("gw-b", 1 << 32, 0)
