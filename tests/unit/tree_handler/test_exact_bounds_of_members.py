"""Each bound of what gateways tell of themselves at its exact value: so much, and not one more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.discovery import Announcement, AnnouncementError
from tree_handler.errors import ProtocolError
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import check_address, check_name, is_host_name
from tree_handler.members.suspicion import Question
from tree_handler.overlays import wire as overlay_wire
from tree_handler.overlays.plan import ID_BYTES
from tree_handler.overlays.wire import Item
from tree_handler.routing.direct import DirectMessage
from tree_handler.routing.interest import Interest

KEY = bytes(32)
NAME_63, NAME_64 = "a" * 63, "a" * 64
HOST_253 = ".".join(("a" * 63, "b" * 63, "c" * 63, "d" * 61))
MEMBER = MemberRecord("gw-a", 1, 0, "campus", "north", "10.0.0.1", 1883)
ANNOUNCEMENT = Announcement("tree", "gw-a", 1, "10.0.0.1", 1883)
INTEREST = Interest("gw-a", 1, 0)
EVERY_LEVEL = frozenset(("/" * 8_191, "x/" * 8_191))
"""Of all levels that the filters of a record may have."""


def names(count: int) -> frozenset[str]:
    return frozenset(map(str, range(count)))


def test_a_name_has_at_most_63_characters_and_a_host_name_253() -> None:
    assert check_name("x", NAME_63) == NAME_63
    with pytest.raises(ProtocolError):
        check_name("x", NAME_64)
    assert len(HOST_253) == 253
    assert is_host_name(HOST_253)
    assert not is_host_name(f"{HOST_253}d")
    assert not is_host_name(f"{'a' * 64}.example")
    assert not is_host_name("gw.example.7")


def test_an_interface_behind_an_address_has_at_most_15_characters() -> None:
    assert check_address("x", f"fe80::1%{'e' * 15}", may_have_zone=True)
    for address, may in ((f"fe80::1%{'e' * 16}", True), ("fe80::1%", True), ("fe80::1%e", False)):
        with pytest.raises(ProtocolError):
            check_address("x", address, may_have_zone=may)


@pytest.mark.parametrize(
    ("field", "last", "over"),
    [
        ("epoch", 1, 0),
        ("epoch", MAX_BOOT_EPOCH, MAX_BOOT_EPOCH + 1),
        ("version", 0, -1),
        ("version", 2**63 - 1, 2**63),
        *((port, 65_535, 65_536) for port in ("mqtt_port", "coap_port", "coaps_port", "link_port")),
        *((port, 0, -1) for port in ("mqtt_port", "coap_port", "coaps_port", "link_port")),
        ("capability", 0.0, -0.1),
        ("capability", 1e308, float("inf")),
        ("offers", bytes(512), bytes(513)),
    ],
)
def test_a_field_of_a_members_record_is_taken_up_to_its_bound(
    field: str, last: Any, over: Any
) -> None:
    taken = replace(MEMBER, **{field: last})
    assert MemberRecord.decode(taken.encode()) == taken
    with pytest.raises(ProtocolError, match=f"member {field}"):
        replace(MEMBER, **{field: over})


def test_256_gateways_are_asked_for_at_once() -> None:
    ids = tuple(f"{number}-{'a' * 59}" for number in range(100, 356))
    assert Question.decode(Question(ids).encode()).ids == ids
    with pytest.raises(ProtocolError):
        Question.decode(Question((*ids, "a")).encode())


@pytest.mark.parametrize(
    ("field", "last", "over"),
    [
        ("tree", "t" * 64, "t" * 65),
        ("tree", "t", ""),
        ("boot_epoch", 1, 0),
        ("boot_epoch", MAX_BOOT_EPOCH, MAX_BOOT_EPOCH + 1),
        ("mqtt_port", 65_535, 65_536),
        ("mqtt_port", 0, -1),
    ],
)
def test_a_field_of_an_announcement_is_taken_up_to_its_bound(
    field: str, last: Any, over: Any
) -> None:
    taken = replace(ANNOUNCEMENT, **{field: last})
    assert Announcement.decode(taken.encode(KEY), taken.tree, KEY) == taken
    with pytest.raises(AnnouncementError):
        replace(ANNOUNCEMENT, **{field: over})


def test_the_longest_announcement_that_there_may_be_fits_into_its_datagram() -> None:
    longest = Announcement("t" * 64, NAME_63, MAX_BOOT_EPOCH, HOST_253, 65_535)
    assert Announcement.decode(longest.encode(KEY), longest.tree, KEY) == longest
    with pytest.raises(AnnouncementError, match="length, bytes: 513"):
        Announcement.decode(bytes(513), "tree", KEY)
    with pytest.raises(AnnouncementError, match="magic"):
        Announcement.decode(bytes(512), "tree", KEY)


@pytest.mark.parametrize(
    ("field", "last", "over"),
    [
        ("epoch", 1, 0),
        ("epoch", 2**63 - 1, 2**63),
        ("version", 0, -1),
        ("clients", 2**63 - 1, 2**63),
        ("rooted", 0, -1),
        ("subscribes", names(512), names(513)),
        ("publishes", names(512), names(513)),
        ("subscribes", frozenset(("x" * 65_535,)), frozenset(("x" * 65_536,))),
        ("subscribes", frozenset(("x",)), frozenset(("",))),
        ("subscribes", frozenset(("/" * 16_383,)), frozenset(("/" * 16_384,))),
        ("publishes", EVERY_LEVEL, EVERY_LEVEL | {"x"}),
        ("neighbours", names(1_000), names(1_001)),
    ],
)
def test_a_field_of_a_record_of_interest_is_read_up_to_its_bound(
    field: str, last: Any, over: Any
) -> None:
    fields: dict[str, Any] = {field: last}
    read = replace(INTEREST, **fields)
    assert Interest.decode(read.encode()) == read
    with pytest.raises(ProtocolError):
        Interest.decode(replace(INTEREST, **{field: over}).encode())


def test_a_message_for_one_gateway_goes_over_64_links_and_its_topic_has_128_characters() -> None:
    message = DirectMessage("gw-b", 64, "x" * 128, b"")
    assert DirectMessage.decode(message.encode()) == message
    assert (
        DirectMessage.decode(replace(message, hops=0, topic="x").encode()).gateways_on_the_way == 64
    )
    for over in ({"hops": 65}, {"hops": -1}, {"topic": ""}, {"topic": "x" * 129}):
        with pytest.raises(ProtocolError):
            DirectMessage.decode(replace(message, **over).encode())


def test_an_item_about_an_overlay_has_at_most_64_bpdus() -> None:
    item = Item(bytes(ID_BYTES), 0, 2**63 - 1, [b"x"] * 64)
    (message,) = overlay_wire.encode([item])
    assert overlay_wire.decode(message) == [item]
    fields = [item.overlay, item.own, item.peer, item.bpdus]
    for at, over in ((0, bytes(ID_BYTES + 1)), (1, -1), (2, 2**63), (3, [b"x"] * 65), (3, ["x"])):
        wrong = [*fields[:at], over, *fields[at + 1 :]]
        with pytest.raises(ProtocolError):
            overlay_wire.decode(msgpack.packb([1, *wrong]))


def test_a_message_about_overlays_of_another_version_is_refused() -> None:
    item = [bytes(ID_BYTES), 0, 0, []]
    assert overlay_wire.decode(msgpack.packb([1, *item]))
    for version in (0, 2, True, 1.0, None):
        with pytest.raises(ProtocolError, match="version"):
            overlay_wire.decode(msgpack.packb([version, *item]))
    for fields in ([], [1, *item[:3]], [1, *item, b""]):
        with pytest.raises(ProtocolError):
            overlay_wire.decode(msgpack.packb(fields))


def test_items_about_overlays_go_in_messages_of_at_most_64_kib_and_each_stays_whole() -> None:
    items = [Item(bytes([n]) * ID_BYTES, 1, 1, [bytes(640)] * 20) for n in range(8)]
    messages = list(overlay_wire.encode(items))
    assert len(messages) > 1
    assert all(len(message) <= 65_536 for message in messages)
    assert [item for message in messages for item in overlay_wire.decode(message)] == items
    assert list(overlay_wire.encode([])) == []
