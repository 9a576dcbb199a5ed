"""A malformed or forbidden packet is refused by the statement of the specification it breaks."""

from __future__ import annotations

import re

import pytest

from gateway.mqtt import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PacketError,
    PingResp,
    PropertyId,
    PubAck,
    Publish,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    UnsubAck,
    Unsubscribe,
    Version,
    Will,
    check_sent_by_client,
    check_topic_filter,
    check_topic_name,
    decode,
    encode,
    encode_properties,
)

P = PropertyId
MALFORMED, ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
UNSUPPORTED = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION


def raw(text: str) -> bytes:
    parts = re.findall(r"'([^']*)'|([0-9a-fA-F]+)", text)
    return b"".join(quoted.encode() or bytes.fromhex(digits) for quoted, digits in parts)


# (what is wrong, version, first byte and body without the length between them, reason, statement)
MALFORMED_PACKETS: list[tuple[str, int, str, ReasonCode, str]] = [
    ("type 0", 4, "00", MALFORMED, ""),
    ("AUTH in 3.1.1", 4, "f0", MALFORMED, ""),
    ("flags of CONNECT", 4, "11 0004 'MQTT' 04 02 0000 0000", MALFORMED, "MQTT-2.1.3-1"),
    ("flags of PUBREL", 4, "60 0001", MALFORMED, "MQTT-3.6.1-1"),
    ("flags of SUBSCRIBE", 4, "80 0001 0001 'a' 00", MALFORMED, "MQTT-3.8.1-1"),
    ("flags of UNSUBSCRIBE", 5, "a0 0001 00 0001 'a'", MALFORMED, "MQTT-3.10.1-1"),
    ("flags of DISCONNECT", 5, "e1 00", MALFORMED, "MQTT-3.14.1-1"),
    ("flags of AUTH", 5, "f2", MALFORMED, "MQTT-3.15.1-1"),
    ("body of PINGREQ", 4, "c0 00", MALFORMED, ""),
    # CONNECT
    ("no body", 4, "10", MALFORMED, ""),
    ("protocol name", 4, "10 0004 'MQTX' 04 02 0000 0000", UNSUPPORTED, "MQTT-3.1.2-1"),
    ("name of 3.1", 4, "10 0006 'MQIsdp' 03 02 0000 0000", UNSUPPORTED, "MQTT-3.1.2-1"),
    ("version 3", 4, "10 0004 'MQTT' 03 02 0000 0000", UNSUPPORTED, "MQTT-3.1.2-2"),
    ("version 6", 4, "10 0004 'MQTT' 06 02 0000 0000", UNSUPPORTED, "MQTT-3.1.2-2"),
    ("reserved flag", 4, "10 0004 'MQTT' 04 03 0000 0000", MALFORMED, "MQTT-3.1.2-3"),
    ("will QoS without will", 4, "10 0004 'MQTT' 04 0a 0000 0000", MALFORMED, "MQTT-3.1.2-11"),
    ("will retain without", 5, "10 0004 'MQTT' 05 22 0000 00 0000", MALFORMED, "MQTT-3.1.2-13"),
    (
        "will QoS 3",
        *(4, "10 0004 'MQTT' 04 1e 0000 0000 0001 'a' 0000", MALFORMED, "MQTT-3.1.2-12"),
    ),
    (
        "password without user name in 3.1.1",
        *(4, "10 0004 'MQTT' 04 42 0000 0000 0001 'p'", MALFORMED, "MQTT-3.1.2-22 (3.1.1)"),
    ),
    (
        "no client identifier for a session to keep in 3.1.1",
        *(4, "10 0004 'MQTT' 04 00 0000 0000", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
        "MQTT-3.1.3-8 (3.1.1)",
    ),
    ("will without fields", 4, "10 0004 'MQTT' 04 06 0000 0001 'c'", MALFORMED, ""),
    ("user without field", 4, "10 0004 'MQTT' 04 82 0000 0001 'c'", MALFORMED, ""),
    ("password without field", 4, "10 0004 'MQTT' 04 c2 0000 0000 0001 'u'", MALFORMED, ""),
    ("bytes left over", 4, "10 0004 'MQTT' 04 02 0000 0000 00", MALFORMED, "MQTT-3.1.3-1"),
    ("client id not UTF-8", 4, "10 0004 'MQTT' 04 02 0000 0001 ff", MALFORMED, "MQTT-1.5.4-1"),
    ("null in client id", 4, "10 0004 'MQTT' 04 02 0000 0001 00", MALFORMED, "MQTT-1.5.4-2"),
    (
        "null in will topic",
        *(4, "10 0004 'MQTT' 04 06 0000 0000 0001 00 0000", MALFORMED, "MQTT-4.7.3-2"),
    ),
    (
        "wildcard in will topic",
        *(4, "10 0004 'MQTT' 04 06 0000 0000 0003 'a/#' 0000", MALFORMED, "MQTT-4.7.0-1"),
    ),
    (
        "empty will topic",
        *(4, "10 0004 'MQTT' 04 06 0000 0000 0000 0000", MALFORMED, "MQTT-4.7.3-1"),
    ),
    (
        "surrogate in user name",
        *(4, "10 0004 'MQTT' 04 82 0000 0000 0003 eda080", MALFORMED, "MQTT-1.5.4-1"),
    ),
    (
        "overlong user name",
        *(4, "10 0004 'MQTT' 04 82 0000 0000 0002 c080", MALFORMED, "MQTT-1.5.4-1"),
    ),
    (
        "authentication data without method",
        *(5, "10 0004 'MQTT' 05 02 0000 04 16 0001 00 0000", ERROR, ""),
    ),
    ("receive maximum 0", 5, "10 0004 'MQTT' 05 02 0000 03 21 0000 0000", ERROR, ""),
    ("packet size 0", 5, "10 0004 'MQTT' 05 02 0000 05 27 00000000 0000", ERROR, ""),
    ("request problem 2", 5, "10 0004 'MQTT' 05 02 0000 02 17 02 0000", ERROR, ""),
    (
        "will delay among the properties of CONNECT",
        *(5, "10 0004 'MQTT' 05 02 0000 05 18 00000000 0000", MALFORMED, ""),
    ),
    # CONNACK
    ("cut short", 4, "20 00", MALFORMED, ""),
    ("bytes left over", 4, "20 00 00 00", MALFORMED, ""),
    ("bytes left over", 5, "20 00 00 00 00", MALFORMED, ""),
    ("reserved flags", 4, "20 02 00", MALFORMED, "MQTT-3.2.2-1"),
    ("session present and refused", 5, "20 01 87 00", ERROR, "MQTT-3.2.2-6"),
    ("return code 6", 4, "20 00 06", MALFORMED, ""),
    ("reason of DISCONNECT", 5, "20 00 8e 00", ERROR, "MQTT-3.2.2-8"),
    ("maximum QoS 2", 5, "20 00 00 02 24 02", ERROR, ""),
    # PUBLISH
    ("QoS 3", 4, "36 0001 'a' 0001", MALFORMED, "MQTT-3.3.1-4"),
    ("DUP with QoS 0", 4, "38 0001 'a'", MALFORMED, "MQTT-3.3.1-2"),
    ("topic cut short", 4, "30 0002 'a'", MALFORMED, ""),
    ("packet identifier cut short", 4, "32 0001 'a' 00", MALFORMED, ""),
    ("packet identifier 0", 4, "32 0001 'a' 0000", ERROR, "MQTT-2.2.1-3"),
    ("empty topic in 3.1.1", 4, "30 0000", MALFORMED, "MQTT-4.7.3-1"),
    ("empty topic without alias", 5, "30 0000 00", ERROR, ""),
    ("topic alias 0", 5, "30 0000 03 23 0000", ReasonCode.TOPIC_ALIAS_INVALID, "MQTT-3.3.2-8"),
    ("+ in topic", 4, "30 0002 'a+'", MALFORMED, "MQTT-4.7.0-1"),
    ("# in topic", 5, "30 0001 '#' 00", MALFORMED, "MQTT-4.7.0-1"),
    ("null in topic", 4, "30 0003 'a' 00 'b'", MALFORMED, "MQTT-4.7.3-2"),
    ("surrogate in topic", 4, "30 0003 eda080", MALFORMED, "MQTT-1.5.4-1"),
    ("control character in topic", 4, "30 0003 'a' 0a 'b'", MALFORMED, ""),
    ("C1 control character in topic", 4, "30 0003 'a' c29f", MALFORMED, ""),
    ("no property length", 5, "30 0001 'a'", MALFORMED, ""),
    ("property length too long", 5, "30 0001 'a' 01", MALFORMED, ""),
    ("long property length", 5, "30 0001 'a' 8000", MALFORMED, "MQTT-1.5.5-1"),
    ("property length in five bytes", 5, "30 0001 'a' 8080808001", MALFORMED, ""),
    ("unknown property", 5, "30 0001 'a' 02 05 00", MALFORMED, ""),
    ("property of two bytes", 5, "30 0001 'a' 03 8101 00", MALFORMED, ""),
    ("property of CONNECT", 5, "30 0001 'a' 03 21 0001", MALFORMED, ""),
    ("property cut short", 5, "30 0001 'a' 03 02 0000 0000", MALFORMED, ""),
    ("string property cut short", 5, "30 0001 'a' 04 03 0002 'x' 'y'", MALFORMED, ""),
    ("user property without value", 5, "30 0001 'a' 04 26 0001 'k'", MALFORMED, ""),
    ("payload format 2", 5, "30 0001 'a' 02 01 02", ERROR, ""),
    ("property twice", 5, "30 0001 'a' 04 01 01 01 01", ERROR, ""),
    ("subscription identifier 0", 5, "30 0001 'a' 02 0b 00", ERROR, ""),
    ("subscription id too long", 5, "30 0001 'a' 03 0b 8000", MALFORMED, "MQTT-1.5.5-1"),
    ("wildcard in response topic", 5, "30 0001 'a' 04 08 0001 '#'", MALFORMED, "MQTT-3.3.2-14"),
    ("content type not UTF-8", 5, "30 0001 'a' 04 03 0001 ff", MALFORMED, "MQTT-1.5.4-1"),
    ("null in user property", 5, "30 0001 'a' 06 26 0001 00 0000", MALFORMED, "MQTT-1.5.4-2"),
    # acknowledgements
    ("cut short", 4, "40 00", MALFORMED, ""),
    ("packet identifier 0", 4, "40 0000", ERROR, "MQTT-2.2.1-3"),
    ("reason in 3.1.1", 4, "40 0001 00", MALFORMED, ""),
    ("reason of PUBREL", 5, "40 0001 92", ERROR, "MQTT-3.4.2-1"),
    ("reason of SUBACK", 5, "50 0001 01", ERROR, "MQTT-3.5.2-1"),
    ("reason of PUBACK", 5, "62 0001 10", ERROR, "MQTT-3.6.2-1"),
    ("reason of PUBREC", 5, "70 0001 87", ERROR, "MQTT-3.7.2-1"),
    ("bytes left over", 5, "40 0001 00 00 00", MALFORMED, ""),
    # SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK
    ("nothing asked for", 4, "82 0001", ERROR, "MQTT-3.8.3-2"),
    ("nothing asked for", 5, "82 0001 00", ERROR, "MQTT-3.8.3-2"),
    ("packet identifier 0", 4, "82 0000 0001 'a' 00", ERROR, "MQTT-2.2.1-3"),
    ("no options", 4, "82 0001 0001 'a'", MALFORMED, ""),
    ("QoS 3 in 3.1.1", 4, "82 0001 0001 'a' 03", MALFORMED, "MQTT-3-8.3-4 (3.1.1)"),
    ("options of 5.0 in 3.1.1", 4, "82 0001 0001 'a' 04", MALFORMED, "MQTT-3-8.3-4 (3.1.1)"),
    ("QoS 3", 5, "82 0001 00 0001 'a' 03", ERROR, ""),
    ("retain handling 3", 5, "82 0001 00 0001 'a' 30", ERROR, ""),
    ("reserved options", 5, "82 0001 00 0001 'a' 40", MALFORMED, "MQTT-3.8.3-5"),
    ("no local, shared", 5, "82 0001 00 000a '$share/g/a' 04", ERROR, "MQTT-3.8.3-4"),
    ("empty filter", 4, "82 0001 0000 00", MALFORMED, "MQTT-4.7.3-1"),
    ("two identifiers", 5, "82 0001 04 0b 01 0b 02 0001 'a' 00", ERROR, ""),
    ("no code", 4, "90 0001", MALFORMED, ""),
    ("code of 5.0 in 3.1.1", 4, "90 0001 87", MALFORMED, "MQTT-3.9.3-2 (3.1.1)"),
    ("code of no packet", 5, "90 0001 00 03", ERROR, "MQTT-3.9.3-2"),
    ("nothing given up", 4, "a2 0001", ERROR, "MQTT-3.10.3-2"),
    ("filter not UTF-8", 4, "a2 0001 0001 80", MALFORMED, "MQTT-1.5.4-1"),
    ("reason in 3.1.1", 4, "b0 0001 00", MALFORMED, ""),
    ("no reason", 5, "b0 0001 00", MALFORMED, ""),
    ("reason of SUBACK", 5, "b0 0001 00 01", ERROR, "MQTT-3.11.3-2"),
    # DISCONNECT, AUTH
    ("reason in 3.1.1", 4, "e0 00", MALFORMED, ""),
    ("reason of CONNACK", 5, "e0 84", ERROR, "MQTT-3.14.2-1"),
    ("bytes left over", 5, "e0 00 00 00", MALFORMED, ""),
    ("reason of DISCONNECT", 5, "f0 04", ERROR, "MQTT-3.15.2-1"),
    ("no method", 5, "f0 18 00", ERROR, ""),
]


@pytest.mark.parametrize(
    ("version", "text", "reason", "statement"),
    [pytest.param(*row[1:], id=f"{row[2][:2]} v{row[1]} {row[0]}") for row in MALFORMED_PACKETS],
)
def test_a_malformed_packet_is_refused_with_the_statement_it_breaks(
    version: int, text: str, reason: ReasonCode, statement: str
) -> None:
    data = raw(text)
    with pytest.raises(PacketError) as caught:
        decode(data[0], data[1:], version)
    assert (caught.value.reason, caught.value.statement) == (reason, statement)
    assert statement in str(caught.value)


REFUSED_FILTERS = [
    ("", "MQTT-4.7.3-1"),
    ("a\0", "MQTT-4.7.3-2"),
    ("a\n", ""),
    ("\ud800", "MQTT-1.5.4-1"),
    ("x" * 65_536, "MQTT-4.7.3-3"),
    ("ä" * 32_768, "MQTT-4.7.3-3"),
    ("a#", "MQTT-4.7.1-1"),
    ("#/a", "MQTT-4.7.1-1"),
    ("a/#/b", "MQTT-4.7.1-1"),
    ("a+/b", "MQTT-4.7.1-2"),
    ("a/+b", "MQTT-4.7.1-2"),
    ("$share/", "MQTT-4.8.2-1"),
    ("$share//a", "MQTT-4.8.2-1"),
    ("$share/g", "MQTT-4.8.2-2"),
    ("$share/g/", "MQTT-4.8.2-2"),
    ("$share/g+/a", "MQTT-4.8.2-2"),
    ("$share/#/a", "MQTT-4.8.2-2"),
    ("$share/g/a#", "MQTT-4.7.1-1"),
]


@pytest.mark.parametrize(("topic_filter", "statement"), REFUSED_FILTERS)
def test_a_filter_that_is_none_is_refused(topic_filter: str, statement: str) -> None:
    with pytest.raises(PacketError) as caught:
        check_topic_filter(topic_filter)
    assert caught.value.statement == statement


def test_a_name_that_is_too_long_is_refused() -> None:
    for name in (b"x" * 65_536, "x" * 65_536, "ä" * 32_768):
        with pytest.raises(PacketError, match=r"MQTT-4\.7\.3-3"):
            check_topic_name(name)


REFUSED_OBJECTS: list[tuple[int, Packet, str]] = [
    (4, Connect(Version.V311, "", clean_start=False), "MQTT-3.1.3-8 (3.1.1)"),
    (4, Connect(Version.V311, "c", password=b"p"), "MQTT-3.1.2-22 (3.1.1)"),
    (4, Connect(Version.V311, "c", keep_alive_s=65_536), ""),
    (4, Connect(Version.V311, "c", will=Will("a", b"", 3)), "MQTT-3.1.2-12"),
    (4, Connect(Version.V311, "c", will=Will("a", b"", 4)), "MQTT-3.1.2-12"),
    (4, Connect(Version.V311, "c", will=Will("a/+", b"")), "MQTT-4.7.0-1"),
    (4, Connect(Version.V311, "c", will=Will("a", bytes(65_536))), ""),
    (4, Connect(Version.V311, "x" * 65_536), ""),
    (4, Connect(Version.V311, "\ud800"), "MQTT-1.5.4-1"),
    (5, Connect(Version.V5, "a\0"), "MQTT-1.5.4-2"),
    (5, Connect(Version.V5, "c", properties={P.AUTHENTICATION_DATA: b""}), ""),
    (5, Connect(Version.V5, "c", properties={P.RECEIVE_MAXIMUM: 0}), ""),
    (4, ConnAck(False, ReasonCode.MALFORMED_PACKET), "MQTT-3.2.2-6 (3.1.1)"),
    (5, ConnAck(True, ReasonCode.NOT_AUTHORIZED), "MQTT-3.2.2-6"),
    (4, Publish("a", b"", 3, packet_id=1), "MQTT-3.3.1-4"),
    (4, Publish("a", b"", 0, dup=True), "MQTT-3.3.1-2"),
    (4, Publish("a", b"", 0, packet_id=1), "MQTT-2.2.1-2"),
    (4, Publish("a", b"", 1), "MQTT-2.2.1-3"),
    (4, Publish("a", b"", 1, packet_id=65_536), "MQTT-2.2.1-3"),
    (4, Publish("", b"", properties={P.TOPIC_ALIAS: 1}), "MQTT-4.7.3-1"),
    (5, Publish("", b""), ""),
    (5, Publish("a/#", b""), "MQTT-4.7.0-1"),
    (5, Publish("a", b"", properties={P.REASON_STRING: "no"}), ""),
    (5, Publish("a", b"", properties={P.CONTENT_TYPE: 1}), ""),
    (5, Publish("a", b"", properties={P.CONTENT_TYPE: b"t"}), ""),
    (5, Publish("a", b"", properties={P.MESSAGE_EXPIRY_INTERVAL: "1"}), ""),
    (5, Publish("a", b"", properties={P.SUBSCRIPTION_IDENTIFIER: 1}), ""),
    (5, Publish("a", b"", properties={P.USER_PROPERTY: ("a", "b")}), ""),
    (5, Publish("a", b"", properties={P.USER_PROPERTY: [("a", 1)]}), ""),
    (5, Publish("a", b"", properties={P.MESSAGE_EXPIRY_INTERVAL: 1 << 32}), ""),
    (5, Publish("a", b"", properties={99: 1}), ""),
    (4, PubAck(0), "MQTT-2.2.1-3"),
    (5, PubRel(1, ReasonCode.NOT_AUTHORIZED), "MQTT-3.6.2-1"),
    (4, Subscribe(1, []), "MQTT-3.8.3-2"),
    (4, Subscribe(1, [SubscriptionRequest("a", 0, no_local=True)]), "MQTT-3-8.3-4 (3.1.1)"),
    (5, Subscribe(1, [SubscriptionRequest("a", 3)]), ""),
    (5, Subscribe(1, [SubscriptionRequest("$share/g/a", 0, True)]), "MQTT-3.8.3-4"),
    (4, SubAck(1, []), ""),
    (5, SubAck(1, [3]), "MQTT-3.9.3-2"),
    (5, Unsubscribe(1, []), "MQTT-3.10.3-2"),
    (5, UnsubAck(1, []), ""),
    (4, Disconnect(ReasonCode.SERVER_BUSY), ""),
    (5, Disconnect(ReasonCode.BANNED), "MQTT-3.14.2-1"),
    (4, Auth(), ""),
    (5, Auth(ReasonCode.CONTINUE_AUTHENTICATION), ""),
]


@pytest.mark.parametrize(("version", "packet", "statement"), REFUSED_OBJECTS)
def test_a_packet_that_may_not_be_sent_is_not_written(
    version: int, packet: Packet, statement: str
) -> None:
    with pytest.raises(PacketError) as caught:
        encode(packet, version)
    assert caught.value.statement == statement


def test_a_property_is_checked_by_itself_too() -> None:
    with pytest.raises(PacketError, match="any packet"):
        encode_properties({99: 1})


FROM_SERVER: list[Packet] = [
    ConnAck(False),
    SubAck(1, [0]),
    UnsubAck(1, [0]),
    PingResp(),
    Publish("a", b"", properties={P.SUBSCRIPTION_IDENTIFIER: [1]}),
    Disconnect(ReasonCode.SERVER_SHUTTING_DOWN),
    Disconnect(0, {P.SERVER_REFERENCE: "x"}),
    Auth(),
]


@pytest.mark.parametrize("packet", FROM_SERVER, ids=str)
def test_what_only_a_server_may_send_is_refused_from_a_client(packet: Packet) -> None:
    with pytest.raises(PacketError) as caught:
        check_sent_by_client(packet)
    assert caught.value.reason is ERROR


def test_what_a_client_may_send_is_taken_from_it() -> None:
    check_sent_by_client(Publish("a", b"", properties={P.TOPIC_ALIAS: 1}))
    check_sent_by_client(Disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE))
    check_sent_by_client(Auth(ReasonCode.RE_AUTHENTICATE, {P.AUTHENTICATION_METHOD: "M"}))
    check_sent_by_client(PubAck(1))
