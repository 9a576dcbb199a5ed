"""A member's name, place and address count as such to all readers, or to none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.member_place import MemberError, read_place
from record_formats.status_record import StatusError
from record_formats.status_record import decode as decode_status
from tree_handler.discovery import Announcement
from tree_handler.errors import ProtocolError
from tree_handler.members.listed import ListedMember
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import check_address

RECORD = MemberRecord("gw-a", 1, 1, "campus", "north", "10.0.0.1", 1883)
LISTED = ListedMember("gw-a", "campus", "north", "10.0.0.1", is_present=True)
KEY = bytes(32)

ADDRESSES = [
    *(
        "10.0.0.1",
        "::1",
        "2001:db8::17",
        "::ffff:10.0.0.1",
        "gw-a",
        "gw-a.lan",
        "GW-A.Example.org.",
    ),
    *("a" * 63, ".".join(["a" * 63] * 3 + ["b" * 61]), "1password.com"),
]
NO_ADDRESSES = [
    *("", " ", "10.0.0.1 ", "10.0.0", "10.0.0.256", "1", "fe80::1%eth0", "10.0.0.1:1883", "[::1]"),
    *("-oProxyCommand=id", "-a", "a-", "a..b", ".a", "a" * 64, ".".join(["a" * 63] * 4), "a_b"),
    *("{{lookup('pipe','id')}}", "{% raw %}", "$(id)", "`id`", "a;b", "a b", "a'b", 'a"b', "a\nb"),
    *("a/b", "../..", "<b>", "a\x00", "\x1b[2J", "\N{SNOWMAN}", "\uff47", None, 7, b"gw", ["a"]),
]
NO_NAMES = [
    *(
        "x" * 300,
        "X",
        "-a",
        "a_b",
        "a b",
        "a/b",
        "..",
        "+",
        "#",
        "?",
        "{{1}}",
        "it's",
        "a\n",
        "\u0661",
    ),
    *(7, None, True, ["a"], b"a"),
]


@pytest.mark.parametrize("address", ADDRESSES, ids=ascii)
def test_an_ip_address_or_a_host_name_is_an_address_to_all(address: str) -> None:
    assert MemberRecord.decode(dataclasses.replace(RECORD, address=address).encode()).address
    assert ListedMember.of(LISTED.as_json() | {"address": address}).address == address
    announced = Announcement("tree", "gw-a", 1, address, 1883)
    assert Announcement.decode(announced.encode(KEY), "tree", KEY).address == address


@pytest.mark.parametrize("address", NO_ADDRESSES, ids=ascii)
def test_anything_else_is_refused_by_all(address: Any) -> None:
    fields = msgpack.unpackb(RECORD.encode()) | {"address": address}
    with pytest.raises(ProtocolError, match="member address"):
        MemberRecord.decode(msgpack.packb(fields))
    with pytest.raises(MemberError, match="member address"):
        read_place(msgpack.packb(fields), "gw-a")
    with pytest.raises(ProtocolError, match="member address"):
        ListedMember.of(LISTED.as_json() | {"address": address})
    if address != "fe80::1%eth0":  # on this machine that means something
        with pytest.raises(ProtocolError, match="announcement address"):
            Announcement("tree", "gw-a", 1, address, 1883)


@pytest.mark.parametrize("zone", ["", "%", "a b", "{{1}}", "x" * 16, "eth0%1"])
def test_what_stands_behind_an_address_is_an_interface(zone: str) -> None:
    with pytest.raises(ProtocolError):
        check_address("address", f"fe80::1%{zone}", may_have_zone=True)
    with pytest.raises(ProtocolError):
        check_address("address", "10.0.0.1%eth0", may_have_zone=True)


@pytest.mark.parametrize("field", ["id", "domain", "group"])
@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_a_label_that_is_none_is_refused_by_all(field: str, name: Any) -> None:
    fields = msgpack.unpackb(RECORD.encode()) | {field: name}
    with pytest.raises(ProtocolError):
        MemberRecord.decode(msgpack.packb(fields))
    with pytest.raises(MemberError):
        read_place(msgpack.packb(fields), "gw-a")
    with pytest.raises(ProtocolError):
        ListedMember.of(LISTED.as_json() | {field: name})
    keys = {"id": "rt", "domain": "d", "group": "g"}
    with pytest.raises(StatusError):
        decode_status(msgpack.packb({"r": 1, "e": 10.0, "d": "campus", keys[field]: name}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_member_or_is_refused(told: object) -> None:
    for read in (ListedMember.of, with_fields(told)):
        try:
            read(told)
        except ProtocolError:
            continue


def with_fields(told: object) -> Callable[[object], object]:
    """Reads a member of which one field is what was told."""

    def read(_: object) -> None:
        for name in LISTED.as_json():
            try:
                ListedMember.of(LISTED.as_json() | {name: told})
            except ProtocolError:
                continue

    return read


def test_what_a_later_version_adds_is_ignored_and_an_earlier_one_may_lack() -> None:
    told = LISTED.as_json() | {"later": 1}
    del told["is_draining"]
    assert ListedMember.of(told) == LISTED
    for name in ("id", "domain", "group", "address", "is_present"):
        lacking = {key: value for key, value in LISTED.as_json().items() if key != name}
        with pytest.raises(ProtocolError, match=f"without {name}"):
            ListedMember.of(lacking)
