"""An application message as another gateway gets it, and as a packet shows it."""

from __future__ import annotations

import pytest

from gateway.broker.outbound.message import EXPIRY, Message
from gateway.mqtt import PropertyId, Publish, Version, decode, packet_end
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
