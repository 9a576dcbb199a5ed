"""An application message as another gateway gets it, and as a packet shows it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.outbound.message import (
    EXPIRY,
    IN_PACKET,
    OVERHEAD_BYTES,
    PROPERTY_BYTES,
    Message,
    share_mark,
)
from gateway.mqtt import PacketError, PropertyId, Publish, Version, decode, packet_end
from tree_handler.batch import Entry
from tree_handler.retained.message import VERSION

NOW_S = 1_000.0
TYPE = int(PropertyId.CONTENT_TYPE)
VERSIONED = {VERSION: (1_790_000_000_000_000, 0), TYPE: "text/plain", EXPIRY: 60}


def message() -> Message:
    return Message("a/b", b"a/b", b"21.5", 1, retain=True, properties=dict(VERSIONED), now_s=NOW_S)


def test_what_is_handed_on_is_retained_no_more_and_keeps_its_properties_but_for_the_version() -> (
    None
):
    entry = message().entry(NOW_S)
    assert (entry.topic, entry.payload, entry.qos, entry.retain) == ("a/b", b"21.5", 1, False)
    assert entry.properties == {TYPE: "text/plain", EXPIRY: 60}


def test_what_it_has_waited_is_taken_off_and_never_more_than_there_is() -> None:
    assert message().entry(NOW_S + 12.5).properties[EXPIRY] == 47
    assert message().entry(NOW_S + 60).properties[EXPIRY] == 0
    assert message().entry(NOW_S + 61).properties[EXPIRY] == 0


def test_a_message_expires_in_the_second_that_its_publisher_named() -> None:
    assert not message().expired(NOW_S + 59.9)
    assert message().expired(NOW_S + 60)
    assert not Message("a", b"a", b"", 0, retain=False, now_s=NOW_S).expired(NOW_S + 1e9)


@pytest.mark.parametrize("identifiers", [(), (7,)])
def test_no_packet_shows_the_version_of_a_retained_message(identifiers: tuple[int, ...]) -> None:
    data = message().packet(Version.V5, 0b10, 9, identifiers, NOW_S + 1)
    found = packet_end(data, 0, 1 << 20)
    assert found is not None
    packet = decode(data[0], data[found[0] :], Version.V5)
    assert isinstance(packet, Publish)
    shown = {TYPE: "text/plain", EXPIRY: 59}
    if identifiers:
        shown[int(PropertyId.SUBSCRIPTION_IDENTIFIER)] = [*identifiers]
    assert packet.properties == shown


@pytest.mark.parametrize(
    ("properties", "more"),
    [
        (None, 0),
        ({}, 0),
        ({EXPIRY: 60}, PROPERTY_BYTES),
        ({TYPE: "text"}, PROPERTY_BYTES + 4),
        ({9: b"12345"}, PROPERTY_BYTES + 5),
        ({VERSION: (5, 0)}, 0),
        ({VERSION: (5, 0), TYPE: "text"}, PROPERTY_BYTES + 4),
        ({38: [("k", "value"), ("", "")]}, 3 * PROPERTY_BYTES + 6),
    ],
)
def test_a_message_counts_its_topic_twice_its_payload_and_each_property(
    properties: dict[int, Any] | None, more: int
) -> None:
    """But not its version: where it is accepted it gets that later."""
    one = Message("é/b", "é/b".encode(), b"12345", 1, retain=True, properties=properties)
    assert one.size_bytes == 2 * 4 + 5 + OVERHEAD_BYTES + more
    assert (OVERHEAD_BYTES, PROPERTY_BYTES) == (200, 150)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_the_log_has_a_message_as_it_was_published(qos: int, *, retain: bool) -> None:
    plain = Message("a", b"a", b"x", qos, retain)
    kind = qos + (4 if retain else 0)
    assert plain.row() == ("a", kind, b"x")
    with_type = Message("a", b"a", b"x", qos, retain, {TYPE: "text"})
    assert with_type.row() == ("a", kind, b"x", {TYPE: "text"})
    for one in (plain, with_type):
        again = Message.of(Entry.of(one.row()), NOW_S)
        assert (again.row(), again.size_bytes) == (one.row(), one.size_bytes)


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
@pytest.mark.parametrize("flags", [0, 1, 2, 3, 4, 5, 10, 12])
@pytest.mark.parametrize("identifiers", [(), (7, 300)])
def test_a_packet_is_that_of_its_receiver_however_many_were_made_before(
    version: Version, flags: int, identifiers: tuple[int, ...]
) -> None:
    """The mark of a shared subscription, above the flags of a packet, is in none."""
    one = Message("a/b", b"a/b", b"x", 2, False, {TYPE: "text", EXPIRY: 60}, NOW_S)
    shown: dict[int, Any] = {}
    if version == Version.V5:
        shown = {TYPE: "text", EXPIRY: 50} | ({11: [*identifiers]} if identifiers else {})
    qos, packet_id = flags >> 1 & 3, 513 if flags & 6 else None
    expected = Publish("a/b", b"x", qos, bool(flags & 1), bool(flags & 8), packet_id, shown)
    for other in (0, 2, flags):  # whatever is kept of those is of their kind
        one.packet(Version.V311, other, 1, (), NOW_S)
        one.packet(Version.V5, other, 1, (), NOW_S)
        marked = flags | share_mark(("g", "a/b"))
        data = one.packet(version, marked, 513, identifiers, NOW_S + 10.9)
        found = packet_end(data, 0, 1 << 20)
        assert found is not None
        assert decode(data[0], data[found[0] :], version) == expected


@pytest.mark.parametrize(
    "properties",
    [
        {"text": 1},
        {TYPE: 5},
        {38: 5},
        {38: [("k",)]},
        {EXPIRY: -1},
        {99: 1},
        {VERSION: "now"},
        {VERSION: (1,)},
    ],
    ids=str,
)
def test_properties_that_no_packet_can_carry_are_refused(properties: dict[Any, Any]) -> None:
    with pytest.raises(PacketError, match="property"):
        Message.of(Entry("a", b"x", 1, properties=properties), NOW_S)


def test_the_mark_of_a_shared_subscription_stands_above_the_flags_and_is_its_own() -> None:
    groups = [("g", "a/b"), ("g", "a/#"), ("h", "a/b")]
    marks = [share_mark(group) for group in groups]
    assert len(set(marks)) == 3
    assert all(mark & IN_PACKET == 0 < mark < 1 << 45 for mark in marks)
    assert [share_mark(group) for group in groups] == marks
