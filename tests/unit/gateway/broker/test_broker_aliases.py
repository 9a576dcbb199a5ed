"""Topic aliases in both directions, and a message's packets for each version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.inbound.aliases import IncomingAliases
from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.outbound.message import Message
from gateway.mqtt import PacketError, PropertyId, Publish, ReasonCode, decode, packet_end
from tree_handler.batch import Entry


def read(packet: bytes, version: int = 5) -> Publish:
    found = packet_end(packet, 0, 1 << 20)
    assert found is not None
    assert found[1] == len(packet)
    publish = decode(packet[0], packet[found[0] : found[1]], version)
    assert isinstance(publish, Publish)
    return publish


def test_an_alias_stands_for_the_topic_that_it_was_last_sent_with() -> None:
    aliases = IncomingAliases(2)
    assert aliases.topic(1, b"a") == b"a"
    assert aliases.topic(1, b"") == b"a"
    aliases.topic(1, b"b")
    assert aliases.topic(1, b"") == b"b"


@pytest.mark.parametrize(
    ("alias", "reason"),
    [
        (0, ReasonCode.TOPIC_ALIAS_INVALID),
        (3, ReasonCode.TOPIC_ALIAS_INVALID),
        (2, ReasonCode.PROTOCOL_ERROR),
    ],
)
def test_an_alias_that_is_out_of_range_or_was_never_set_is_refused(
    alias: int, reason: ReasonCode
) -> None:
    with pytest.raises(PacketError) as caught:
        IncomingAliases(2).topic(alias, b"")
    assert caught.value.reason is reason


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b/c", "d" * 200]), st.integers(0, 2), st.booleans()))
)
def test_a_client_that_resolves_aliases_reads_what_was_published(
    messages: list[tuple[str, int, bool]],
) -> None:
    outgoing, incoming = OutgoingAliases(2), IncomingAliases(2)
    for topic, qos, has_properties in messages:
        properties = {int(PropertyId.CONTENT_TYPE): "x" * 130} if has_properties else {}
        message = Message(topic, topic.encode(), b"payload", qos, False, properties)
        publish = read(outgoing.shorten(message.packet(5, qos << 1, 7, (), 0.0)))
        alias = publish.properties.pop(PropertyId.TOPIC_ALIAS, None)
        name = publish.topic.encode()
        assert (name if alias is None else incoming.topic(alias, name)).decode() == topic
        assert (publish.payload, publish.qos, publish.properties) == (b"payload", qos, properties)


@given(
    st.integers(0, 2),
    st.booleans(),
    st.binary(max_size=300),
    st.lists(st.integers(1, 300), max_size=3),
)
def test_a_messages_packet_says_what_was_delivered(
    qos: int, retain: bool, payload: bytes, identifiers: list[int]
) -> None:
    properties = {int(PropertyId.USER_PROPERTY): [("k", "v")], int(PropertyId.RESPONSE_TOPIC): "r"}
    message = Message("t/ü", "t/ü".encode(), payload, qos, retain, properties)
    flags = qos << 1 | retain
    old = read(message.packet(4, flags, 9, (), 0.0), 4)
    new = read(message.packet(5, flags, 9, tuple(identifiers), 0.0), 5)
    for publish in (old, new):
        assert (publish.topic, publish.payload) == ("t/ü", payload)
        assert (publish.qos, publish.retain) == (qos, retain)
        assert publish.packet_id == (9 if qos else None)
    known = {int(PropertyId.SUBSCRIPTION_IDENTIFIER): identifiers} if identifiers else {}
    assert new.properties == properties | known


def test_properties_survive_the_way_through_the_log() -> None:
    entry = Entry("t", b"x", 1, False, {38: (("k", "v"), ("k", "w")), 2: 10})
    message = Message.of(entry, 100.0)
    assert read(message.packet(5, 2, 1, (), 104.0)).properties == {
        PropertyId.USER_PROPERTY: [("k", "v"), ("k", "w")],
        PropertyId.MESSAGE_EXPIRY_INTERVAL: 6,
    }
    assert not message.expired(109.9)
    assert message.expired(110.0)
