"""Places, records, membership and the hierarchy that follows from them (rows A1, A2)."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.members import hierarchy
from tree_handler.members.absence import AbsenceNotice
from tree_handler.members.hierarchy import Hierarchy, MemberRecord, Membership
from tree_handler.members.place import Place

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,5}", fullmatch=True)
PLACES = st.one_of(
    st.just(("", "")),
    st.tuples(st.sampled_from(["campus", "harbour"]), st.just("")),
    st.tuples(st.sampled_from(["campus", "harbour"]), st.sampled_from(["north", "south"])),
)
CAPABILITIES = st.sampled_from([0.0, 1.0, 2.0, 3.5])


def member(gateway_id: str, place: str = "-/-", capability: float = 1.0, **fields: Any) -> Any:
    at = Place(*("" if segment == "-" else segment for segment in place.split("/")))
    values: dict[str, Any] = {"epoch": 1, "version": 1, "address": "10.0.0.1", "mqtt_port": 1883}
    return MemberRecord(
        id=gateway_id,
        domain=at.domain,
        group=at.group,
        capability=capability,
        **(values | fields),
    )


@st.composite
def records(draw: st.DrawFn) -> MemberRecord:
    domain, group = draw(PLACES)
    return MemberRecord(
        id=draw(NAMES),
        epoch=draw(st.integers(1, 2**32 - 1)),
        version=draw(st.integers(0, 2**63 - 1)),
        domain=domain,
        group=group,
        address=draw(st.sampled_from(["10.0.0.1", "fe80::1", "gw.example"])),
        mqtt_port=draw(st.integers(0, 65_535)),
        coap_port=draw(st.integers(0, 65_535)),
        coaps_port=draw(st.integers(0, 65_535)),
        capability=draw(st.floats(0, 1e6)),
        draining=draw(st.booleans()),
    )


@st.composite
def fleets(draw: st.DrawFn) -> list[MemberRecord]:
    ids = draw(st.lists(NAMES, unique=True, max_size=12))
    fleet = []
    for gateway_id in ids:
        place = "/".join(part or "-" for part in draw(PLACES))
        fleet.append(member(gateway_id, place, draw(CAPABILITIES), draining=draw(st.booleans())))
    return fleet


# -- place ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "group", "level", "prefix"),
    [
        ("", "", 0, "-/-/gw-1"),
        ("campus", "", 1, "campus/-/gw-1"),
        ("campus", "north", 2, "campus/north/gw-1"),
    ],
)
def test_a_place_has_a_level_and_a_topic_prefix(
    domain: str, group: str, level: int, prefix: str
) -> None:
    place = Place(domain, group)
    assert (place.level, place.prefix("gw-1")) == (level, prefix)


@pytest.mark.parametrize(
    ("domain", "group", "named"),
    [
        ("Campus", "", "domain"),
        ("-", "", "domain"),
        ("a" * 64, "", "domain"),
        ("campus\n", "", "domain"),
        ("campus", "no/rth", "group"),
        ("", "north", "group without a domain"),
    ],
)
def test_a_wrong_place_is_refused_naming_the_field(domain: str, group: str, named: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{named}: "):
        Place(domain, group)


# -- record --------------------------------------------------------------------------------------


@given(records())
def test_a_record_survives_its_wire_form(record: MemberRecord) -> None:
    assert MemberRecord.decode(record.encode()) == record


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        MemberRecord.decode(data)


MSGPACK_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 70_000), st.floats(), st.text(), st.binary()
)


@given(st.sampled_from(MemberRecord.__slots__), MSGPACK_VALUES)
def test_any_value_in_a_field_is_taken_or_refused_with_a_protocol_error(
    name: str, value: object
) -> None:
    fields = msgpack.unpackb(member("gw-1", "campus/north").encode())
    try:
        record = MemberRecord.decode(msgpack.packb(fields | {name: value}))
    except ProtocolError:
        return
    assert getattr(record, name) == value


def test_keys_of_later_versions_are_ignored() -> None:
    fields = msgpack.unpackb(member("gw-1").encode())
    assert MemberRecord.decode(msgpack.packb(fields | {"altitude": 8})) == member("gw-1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", 0),
        ("epoch", True),
        ("version", -1),
        ("version", "1"),
        ("domain", 5),
        ("group", None),
        ("address", ""),
        ("address", "a b"),
        ("mqtt_port", 65_536),
        ("coap_port", 1.5),
        ("coaps_port", -1),
        ("capability", -1.0),
        ("capability", float("nan")),
        ("capability", float("inf")),
        ("draining", 1),
        ("id", "GW"),
    ],
)
def test_a_wrong_field_of_a_record_is_named(name: str, value: object) -> None:
    fields = msgpack.unpackb(member("gw-1").encode())
    with pytest.raises(ProtocolError, match=name):
        MemberRecord.decode(msgpack.packb(fields | {name: value}))


def test_a_missing_field_and_a_long_record_are_named() -> None:
    fields = msgpack.unpackb(member("gw-1").encode())
    del fields["coap_port"]
    with pytest.raises(ProtocolError, match="without coap_port"):
        MemberRecord.decode(msgpack.packb(fields))
    with pytest.raises(ProtocolError, match="too large"):
        MemberRecord.decode(b"\0" * 3_000)


# -- membership ----------------------------------------------------------------------------------


def test_the_newest_epoch_and_version_of_a_gateway_wins() -> None:
    members = Membership()
    assert members.update(member("gw-1", epoch=2, version=1))
    assert not members.update(member("gw-1", epoch=1, version=9))
    assert not members.update(member("gw-1", epoch=2, version=1))
    assert members.update(member("gw-1", epoch=2, version=2, address="10.0.0.2"))
    found = members.get("gw-1")
    assert found is not None
    assert found.address == "10.0.0.2"


@given(
    st.lists(
        st.builds(
            lambda gateway_id, epoch, version, port: member(
                gateway_id, epoch=epoch, version=version, mqtt_port=port
            ),
            st.sampled_from(["a", "b", "c"]),
            st.integers(1, 2),
            st.integers(0, 2),
            st.integers(1, 3),
        ),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_updates_makes_no_difference(updates: list[MemberRecord], random: Any) -> None:
    shuffled = list(updates)
    random.shuffle(shuffled)
    one, other = Membership(), Membership()
    for record in updates:
        one.update(record)
    for record in [*shuffled, *updates[:3]]:
        other.update(record)
    assert list(one) == list(other)


def test_a_path_finds_gateways_by_name_and_by_wildcard() -> None:
    members = Membership()
    for gateway_id, place in [
        ("gw-root", "-/-"),
        ("gw-campus", "campus/-"),
        ("gw-north", "campus/north"),
        ("gw-south", "campus/south"),
        ("gw-quay", "harbour/quay"),
    ]:
        members.update(member(gateway_id, place))

    def find(path: str) -> list[str]:
        return [record.id for record in members.find(*path.split("/"))]

    assert find("-/-/gw-root") == ["gw-root"]
    assert find("campus/north/gw-north") == ["gw-north"]
    assert find("campus/south/gw-north") == []
    assert find("-/-/gw-north") == []
    assert find("campus/+/+") == ["gw-north", "gw-south"]
    assert find("campus/*/*") == ["gw-campus", "gw-north", "gw-south"]
    assert find("+/+/gw-quay") == ["gw-quay"]
    assert len(find("*/*/*")) == 5
    for path, named in [("Campus/-/a", "domain"), ("campus/?/a", "group"), ("-/-/-", "gateway")]:
        with pytest.raises(ProtocolError, match=named):
            find(path)


def test_an_absent_gateway_is_gone_from_the_hierarchy() -> None:
    members = Membership()
    members.update(member("gw-1", capability=2.0))
    members.update(member("gw-2"))
    assert members.hierarchy().root == "gw-1"
    notice = AbsenceNotice.of(member("gw-1"))
    assert members.is_absent(notice)
    assert not members.is_absent(notice)
    assert members.hierarchy().root == "gw-2"
    assert len(members) == 1


def test_new_gateways_beyond_the_limit_are_refused_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tree_handler.members.hierarchy.MAX_MEMBERS", 1)
    members = Membership()
    assert members.update(member("gw-1"))
    assert not members.update(member("gw-2"))
    assert members.update(member("gw-1", version=2))
    assert members.refused == 1


def test_however_many_have_gone_the_next_one_can_be_taken_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tree_handler.members.hierarchy.MAX_MEMBERS", 3)
    members = Membership()
    for number in range(20):
        gone = member(f"gw-{number}")
        assert members.update(gone)
        assert members.is_absent(AbsenceNotice.of(gone))
        assert not members.update(gone)
    assert len(members) == members.refused == 0
    assert members.absences == 3


# -- hierarchy -----------------------------------------------------------------------------------


def test_a_fleet_of_three_levels_has_heads_parents_and_substitutes() -> None:
    hierarchy = Hierarchy.of(
        [
            member("gw-root", "-/-", 4.0),
            member("gw-root-2", "-/-", 3.0),
            member("gw-campus", "campus/-", 2.0),
            member("gw-north-1", "campus/north", 9.0),
            member("gw-north-2", "campus/north", 9.0),
            member("gw-north-3", "campus/north", 1.0),
            member("gw-quay", "harbour/quay", 1.0),
            member("cloud", "-/-", 0.0),
        ]
    )
    assert hierarchy.root == "gw-root"
    assert hierarchy.domain_heads == {"campus": "gw-campus", "harbour": "gw-quay"}
    assert hierarchy.group_heads == {
        ("campus", "north"): "gw-north-1",
        ("harbour", "quay"): "gw-quay",
    }
    assert hierarchy.parents == {
        "gw-root": None,
        "gw-root-2": "gw-root",
        "gw-campus": "gw-root",
        "gw-north-1": "gw-campus",
        "gw-north-2": "gw-north-1",
        "gw-north-3": "gw-north-1",
        "gw-quay": "gw-root",
        "cloud": "gw-root",
    }
    assert hierarchy.children["gw-north-1"] == ("gw-north-2", "gw-north-3")
    assert hierarchy.children["cloud"] == ()
    assert hierarchy.substitutes("gw-north-3") == (
        "gw-north-2",
        "gw-campus",
        "gw-root",
        "gw-root-2",
    )
    assert hierarchy.substitutes("gw-north-3", limit=1) == ("gw-north-2",)


def test_a_draining_head_gives_way_to_one_that_stays() -> None:
    hierarchy = Hierarchy.of([member("a", capability=9.0, draining=True), member("b")])
    assert (hierarchy.root, hierarchy.parents) == ("b", {"a": "b", "b": None})


def test_a_collector_is_never_a_head() -> None:
    hierarchy = Hierarchy.of([member("cloud", "campus/north", 0.0)])
    assert hierarchy.root is None
    assert hierarchy.domain_heads == {}
    assert hierarchy.parents == {"cloud": None}


@given(fleets(), st.randoms(use_true_random=False))
def test_every_gateway_computes_the_same_hierarchy(fleet: list[MemberRecord], random: Any) -> None:
    shuffled = list(fleet)
    random.shuffle(shuffled)
    assert Hierarchy.of(fleet) == Hierarchy.of(shuffled)


@given(fleets())
def test_parents_and_children_are_one_tree_below_the_root(fleet: list[MemberRecord]) -> None:
    hierarchy = Hierarchy.of(fleet)
    assert set(hierarchy.parents) == {record.id for record in fleet}
    for gateway_id in hierarchy.parents:
        seen: set[str] = set()
        at: str | None = gateway_id
        while at is not None:
            assert at not in seen
            seen.add(at)
            at = hierarchy.parents[at]
        if hierarchy.root is not None:
            assert hierarchy.root in seen
    up = {(child, parent) for child, parent in hierarchy.parents.items() if parent is not None}
    down = {(c, parent) for parent, children in hierarchy.children.items() for c in children}
    assert up == down


@given(fleets())
def test_a_substitute_is_the_parent_once_those_before_it_are_gone(
    fleet: list[MemberRecord],
) -> None:
    hierarchy = Hierarchy.of(fleet)
    for record in fleet:
        parent = hierarchy.parents[record.id]
        line = [parent] if parent is not None else []
        line += hierarchy.substitutes(record.id, limit=100)
        for gone in range(len(line) + 1):
            left = Hierarchy.of([r for r in fleet if r.id not in line[:gone]])
            assert left.parents[record.id] == next(itertools.islice(line, gone, None), None)


# -- suspects ------------------------------------------------------------------------------------


def a_group() -> Membership:
    members = Membership()
    for gateway_id, place, capability in (
        ("gw-head", "campus/north", 9.0),
        ("gw-next", "campus/north", 5.0),
        ("gw-leaf", "campus/north", 1.0),
        ("gw-campus", "campus/-", 2.0),
    ):
        members.update(member(gateway_id, place, capability))
    return members


def test_a_suspect_heads_nothing_and_keeps_its_place_below_its_substitute() -> None:
    members = a_group()
    members.suspect(frozenset({"gw-head"}))
    hierarchy = members.hierarchy()
    assert hierarchy.group_heads == {("campus", "north"): "gw-next"}
    assert hierarchy.parents["gw-leaf"] == hierarchy.parents["gw-head"] == "gw-next"
    assert hierarchy.substitutes("gw-leaf")[0] == "gw-campus"
    assert members.get("gw-head") is not None
    members.suspect(frozenset())
    assert members.hierarchy().group_heads == {("campus", "north"): "gw-head"}


def test_a_group_of_suspects_alone_has_no_head() -> None:
    members = a_group()
    members.suspect(frozenset({"gw-head", "gw-next", "gw-leaf"}))
    hierarchy = members.hierarchy()
    assert hierarchy.group_heads == {}
    assert hierarchy.parents["gw-leaf"] == "gw-campus"


@given(fleets(), st.data())
def test_no_suspect_heads_anything_and_the_others_are_as_if_it_were_gone(
    fleet: list[MemberRecord], data: st.DataObject
) -> None:
    suspects = {one.id for one in fleet if data.draw(st.booleans())}
    hierarchy = Hierarchy.of(fleet, suspects)
    without = Hierarchy.of([one for one in fleet if one.id not in suspects])
    assert hierarchy.root == without.root
    assert hierarchy.domain_heads == without.domain_heads
    assert hierarchy.group_heads == without.group_heads
    for one in fleet:
        if one.id in suspects:
            assert hierarchy.children[one.id] == ()
            assert hierarchy.parents[one.id] not in suspects
        else:
            assert hierarchy.parents[one.id] == without.parents[one.id]
            assert hierarchy.substitutes(one.id) == without.substitutes(one.id)


def test_the_word_of_another_takes_nobody_out_who_is_there() -> None:
    members = a_group()
    members.suspect(frozenset())
    assert not members.is_said_absent(AbsenceNotice("gw-head", 1, 1))
    assert members.hierarchy().group_heads == {("campus", "north"): "gw-head"}
    assert members.update(member("gw-head", "campus/north", 9.0, version=2))
    members.suspect(frozenset({"gw-head"}))
    assert members.get("gw-head") is not None, "it told its record anew"


def test_an_absence_that_was_said_counts_once_its_gateway_is_suspect() -> None:
    members = a_group()
    members.suspect(frozenset())
    members.is_said_absent(AbsenceNotice("gw-head", 1, 1))
    members.suspect(frozenset({"gw-head"}))
    assert members.get("gw-head") is None


def test_listeners_are_told_of_each_change_and_of_nothing_else() -> None:
    members, told = a_group(), []
    members.listen(lambda: told.append(members.hierarchy().root))
    members.suspect(frozenset({"gw-campus"}))
    members.suspect(frozenset({"gw-campus"}))
    members.suspect(frozenset())
    members.update(member("gw-head", "campus/north", 9.0))
    assert told == ["gw-head", "gw-campus"]


# -- what a directory has ------------------------------------------------------------------------


def test_a_record_carries_a_digest_and_one_of_an_earlier_version_has_none() -> None:
    for length in (256, 512):
        told = member("gw-1", offers=b"\x01" * length)
        assert MemberRecord.decode(told.encode()) == told
    fields = msgpack.unpackb(told.encode())
    del fields["offers"]
    assert MemberRecord.decode(msgpack.packb(fields)) == member("gw-1")


@pytest.mark.parametrize("offers", ["text", b"\x01" * 513, None])
def test_a_digest_that_is_none_or_too_long_is_refused(offers: object) -> None:
    with pytest.raises(ProtocolError, match="member offers"):
        member("gw-1", offers=offers)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_one_that_will_not_come_back_is_forgotten_in_whatever_order_that_is_heard(
    order: tuple[int, ...],
) -> None:
    members = Membership()
    members.suspect(frozenset({"gw-a"}))
    notice = AbsenceNotice("gw-a", 1, 1)
    news = (
        lambda: members.update(member("gw-a")),
        lambda: members.is_said_absent(notice),
        lambda: members.is_forgotten(notice),
    )
    for one in order:
        news[one]()
    assert members.forgotten == {"gw-a"}
    assert members.absence("gw-a") == notice
    members.update(member("gw-a", version=2))
    assert members.forgotten == frozenset()
    assert members.absence("gw-a") is None
    members.is_forgotten(notice)
    members.is_said_absent(AbsenceNotice("gw-a", 1, 2))
    assert members.forgotten == frozenset(), "it was away again, and nobody has said more"


def test_who_changes_is_told_of_one_that_is_forgotten_and_a_bound_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hierarchy, "MAX_MEMBERS", 3)
    members, told = Membership(), list[int]()
    members.listen(lambda: told.append(len(members.forgotten)))
    for number in range(5):
        members.is_forgotten(AbsenceNotice(f"gw-{number}", 1, 1))
        members.is_forgotten(AbsenceNotice(f"gw-{number}", 1, 1))
    assert told == [1, 2, 3, 3, 3]
    assert members.forgotten == {"gw-2", "gw-3", "gw-4"}
