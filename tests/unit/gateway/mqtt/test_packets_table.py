"""MQTT packets as bytes and as objects: one table, read both ways.

Each row is written out by hand from the specification, so that encoder and decoder can't share
a mistake. `raw` notation: hexadecimal digits and 'text'.
"""

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
    PingReq,
    PingResp,
    Properties,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    UnsubAck,
    Unsubscribe,
    Version,
    Will,
    asked_version,
    check_topic_filter,
    check_topic_name,
    decode,
    decode_properties,
    encode,
    encode_length,
    encode_properties,
    packet_end,
    refusal,
)

P = PropertyId
V311, V5 = Version.V311, Version.V5


def raw(text: str) -> bytes:
    parts = re.findall(r"'([^']*)'|([0-9a-fA-F]+)", text)
    return b"".join(quoted.encode() or bytes.fromhex(digits) for quoted, digits in parts)


CASES: list[tuple[str, int, str, Packet]] = [
    ("connect", 4, "10 0d 0004 'MQTT' 04 02 003c 0001 'c'", Connect(V311, "c", True, 60)),
    ("connect v5", 5, "10 0e 0004 'MQTT' 05 02 003c 00 0001 'c'", Connect(V5, "c", True, 60)),
    (
        "connect to go on with a session",
        *(4, "10 0d 0004 'MQTT' 04 00 0000 0001 'c'", Connect(V311, "c", False, 0)),
    ),
    (
        "connect without client identifier",
        *(4, "10 0c 0004 'MQTT' 04 02 ffff 0000", Connect(V311, "", True, 65535)),
    ),
    (
        "connect with the bridge bit",
        *(4, "10 0d 0004 'MQTT' 84 02 003c 0001 'c'", Connect(V311, "c", True, 60, bridge=True)),
    ),
    (
        "connect v5 with the bridge bit",
        *(5, "10 0e 0004 'MQTT' 85 02 003c 00 0001 'c'", Connect(V5, "c", True, 60, bridge=True)),
    ),
    (
        "connect with everything",
        4,
        "10 21 0004 'MQTT' 04 f6 000a 0001 'c' 0003 'a/b' 0004 'gone' 0002 'me' 0003 00ff01",
        Connect(V311, "c", True, 10, "me", b"\x00\xff\x01", Will("a/b", b"gone", 2, True)),
    ),
    (
        "connect v5 with everything",
        5,
        "10 3e 0004 'MQTT' 05 ce 000a 12 11 00000e10 21 0014 22 000a 27 00010000 17 00"
        "0001 'c' 0d 18 0000001e 01 01 03 0003 't/p' 0003 'a/b' 0000 0002 'me' 0003 'key'",
        Connect(
            *(V5, "c", True, 10, "me", b"key"),
            Will(
                *("a/b", b"", 1, False),
                {P.WILL_DELAY_INTERVAL: 30, P.PAYLOAD_FORMAT_INDICATOR: 1, P.CONTENT_TYPE: "t/p"},
            ),
            {
                P.SESSION_EXPIRY_INTERVAL: 3600,
                P.RECEIVE_MAXIMUM: 20,
                P.TOPIC_ALIAS_MAXIMUM: 10,
                P.MAXIMUM_PACKET_SIZE: 65536,
                P.REQUEST_PROBLEM_INFORMATION: 0,
            },
        ),
    ),
    (
        "connect v5 with a password alone",
        5,
        "10 11 0004 'MQTT' 05 40 0000 00 0000 0002 'pw'",
        Connect(V5, "", False, 0, None, b"pw"),
    ),
    (
        "connect v5 with extended authentication",
        5,
        "10 1c 0004 'MQTT' 05 02 0000 0f 15 0005 'SCRAM' 16 0004 00010203 0000",
        Connect(
            *(V5, "", True, 0, None, None, None),
            {P.AUTHENTICATION_METHOD: "SCRAM", P.AUTHENTICATION_DATA: b"\x00\x01\x02\x03"},
        ),
    ),
    ("connack", 4, "20 02 01 00", ConnAck(True)),
    ("connack v5", 5, "20 03 00 00 00", ConnAck(False)),
    ("connack refused", 4, "20 02 00 05", ConnAck(False, ReasonCode.NOT_AUTHORIZED)),
    ("connack v5 refused", 5, "20 03 00 87 00", ConnAck(False, ReasonCode.NOT_AUTHORIZED)),
    (
        "connack v5 with what the server can do",
        5,
        "20 1a 00 00 17 12 0004 'auto' 13 001e 24 01 25 00 28 01 29 00 2a 01 22 000a",
        ConnAck(
            False,
            0,
            {
                P.ASSIGNED_CLIENT_IDENTIFIER: "auto",
                P.SERVER_KEEP_ALIVE: 30,
                P.MAXIMUM_QOS: 1,
                P.RETAIN_AVAILABLE: 0,
                P.WILDCARD_SUBSCRIPTION_AVAILABLE: 1,
                P.SUBSCRIPTION_IDENTIFIER_AVAILABLE: 0,
                P.SHARED_SUBSCRIPTION_AVAILABLE: 1,
                P.TOPIC_ALIAS_MAXIMUM: 10,
            },
        ),
    ),
    ("publish QoS 0", 4, "30 08 0003 'a/b' 'xyz'", Publish("a/b", b"xyz")),
    ("publish v5 QoS 0", 5, "30 09 0003 'a/b' 00 'xyz'", Publish("a/b", b"xyz")),
    ("publish without payload", 4, "31 05 0003 'a/b'", Publish("a/b", b"", retain=True)),
    ("publish QoS 1", 4, "32 08 0003 'a/b' 0007 'x'", Publish("a/b", b"x", 1, packet_id=7)),
    (
        "publish QoS 2 again and retained",
        *(4, "3d 08 0003 'a/b' ffff 'x'", Publish("a/b", b"x", 2, True, True, 65535)),
    ),
    (
        "publish with a topic of four-byte characters (section 1.5.4)",
        *(4, "30 07 0005 41 f0aa9b94", Publish("A\U0002a6d4", b"")),
    ),
    (
        "publish with a byte order mark in its topic [MQTT-1.5.4-3]",
        *(4, "30 06 0004 efbbbf 'a'", Publish("\ufeffa", b"")),
    ),
    (
        "publish v5 by topic alias",
        *(5, "32 09 0000 0007 03 23 0003 'x'", Publish("", b"x", 1, False, False, 7, {35: 3})),
    ),
    (
        "publish v5 with every property",
        5,
        "34 3f 0001 'a' 0001 35 01 01 02 0000003c 03 0003 't/p' 08 0003 'r/s' 09 0002 00ff"
        "0b 01 0b ffffff7f 23 000a 26 0001 'k' 0001 '1' 26 0001 'k' 0000 26 0000 0001 'v' 'body'",
        Publish(
            *("a", b"body", 2, False, False, 1),
            {
                P.PAYLOAD_FORMAT_INDICATOR: 1,
                P.MESSAGE_EXPIRY_INTERVAL: 60,
                P.CONTENT_TYPE: "t/p",
                P.RESPONSE_TOPIC: "r/s",
                P.CORRELATION_DATA: b"\x00\xff",
                P.SUBSCRIPTION_IDENTIFIER: [1, 268_435_455],
                P.TOPIC_ALIAS: 10,
                P.USER_PROPERTY: [("k", "1"), ("k", ""), ("", "v")],
            },
        ),
    ),
    ("puback", 4, "40 02 1234", PubAck(0x1234)),
    ("puback v5", 5, "40 02 1234", PubAck(0x1234)),
    ("puback v5 with reason", 5, "40 03 1234 10", PubAck(0x1234, 0x10)),
    (
        "puback v5 with properties",
        *(5, "40 09 1234 97 05 1f 0002 'no'", PubAck(0x1234, 0x97, {P.REASON_STRING: "no"})),
    ),
    ("pubrec", 4, "50 02 0001", PubRec(1)),
    ("pubrec v5 refused", 5, "50 03 0001 87", PubRec(1, ReasonCode.NOT_AUTHORIZED)),
    ("pubrel", 4, "62 02 0001", PubRel(1)),
    ("pubrel v5 unknown", 5, "62 03 0001 92", PubRel(1, 0x92)),
    ("pubcomp", 4, "70 02 0001", PubComp(1)),
    (
        "pubcomp v5 with properties",
        5,
        "70 0b 0001 00 07 26 0001 'k' 0001 'v'",
        PubComp(1, 0, {P.USER_PROPERTY: [("k", "v")]}),
    ),
    (
        "subscribe",
        4,
        "82 0c 000a 0001 '#' 02 0003 '+/b' 00",
        Subscribe(10, [SubscriptionRequest("#", 2), SubscriptionRequest("+/b", 0)]),
    ),
    (
        "subscribe v5 with options and identifier",
        5,
        "82 17 000a 03 0b c801 0001 'a' 2e 000a '$share/g/a' 01",
        Subscribe(
            10,
            [SubscriptionRequest("a", 2, True, True, 2), SubscriptionRequest("$share/g/a", 1)],
            {P.SUBSCRIPTION_IDENTIFIER: [200]},
        ),
    ),
    ("suback", 4, "90 06 000a 00 01 02 80", SubAck(10, [0, 1, 2, 0x80])),
    ("suback v5", 5, "90 05 000a 00 01 a2", SubAck(10, [1, 0xA2])),
    ("unsubscribe", 4, "a2 08 000b 0001 'a' 0001 '#'", Unsubscribe(11, ["a", "#"])),
    ("unsubscribe v5", 5, "a2 06 000b 00 0001 'a'", Unsubscribe(11, ["a"])),
    ("unsuback", 4, "b0 02 000b", UnsubAck(11, [])),
    ("unsuback v5", 5, "b0 05 000b 00 00 11", UnsubAck(11, [0, 0x11])),
    ("pingreq", 4, "c0 00", PingReq()),
    ("pingresp", 5, "d0 00", PingResp()),
    ("disconnect", 4, "e0 00", Disconnect()),
    ("disconnect v5", 5, "e0 00", Disconnect()),
    ("disconnect v5 with will", 5, "e0 01 04", Disconnect(4)),
    (
        "disconnect v5 with session expiry",
        *(5, "e0 07 00 05 11 00000000", Disconnect(0, {P.SESSION_EXPIRY_INTERVAL: 0})),
    ),
    (
        "disconnect v5 to another server",
        *(5, "e0 0a 9c 08 1c 0005 'other'", Disconnect(0x9C, {P.SERVER_REFERENCE: "other"})),
    ),
    ("auth v5", 5, "f0 00", Auth()),
    (
        "auth v5 going on",
        5,
        "f0 0b 18 09 15 0001 'M' 16 0002 'no'",
        Auth(0x18, {P.AUTHENTICATION_METHOD: "M", P.AUTHENTICATION_DATA: b"no"}),
    ),
]

each_case = pytest.mark.parametrize(
    ("version", "data", "packet"),
    [pytest.param(version, raw(data), packet, id=name) for name, version, data, packet in CASES],
)


@each_case
def test_a_packet_is_written_as_the_specification_says(
    version: int, data: bytes, packet: Packet
) -> None:
    assert encode(packet, version).hex(" ") == data.hex(" ")


@each_case
def test_a_packet_is_read_as_the_specification_says(
    version: int, data: bytes, packet: Packet
) -> None:
    assert packet_end(data, 0, 100) == (2, len(data))
    assert decode(data[0], data[2:], version) == packet


@each_case
def test_a_packet_cut_anywhere_waits_for_the_rest(
    version: int, data: bytes, packet: Packet
) -> None:
    for cut in range(len(data)):
        assert packet_end(data[:cut], 0, 100) is None


@each_case
def test_a_body_cut_short_is_never_taken_for_the_whole(
    version: int, data: bytes, packet: Packet
) -> None:
    for cut in range(2, len(data)):
        try:
            shorter = decode(data[0], data[2:cut], version)
        except PacketError:
            continue
        assert shorter != packet


def test_packets_one_after_the_other_are_found_whatever_the_reads() -> None:
    stream = b"".join(raw(data) for _, version, data, _ in CASES if version == 5)
    packets = [packet for _, version, _, packet in CASES if version == 5]
    for size in (1, 2, 3, 7, 64, len(stream)):
        buffer, found = b"", []
        for start in range(0, len(stream), size):
            buffer += stream[start : start + size]
            at = 0
            while (ends := packet_end(buffer, at, 1000)) is not None:
                found.append(decode(buffer[at], buffer[ends[0] : ends[1]], 5))
                at = ends[1]
            buffer = buffer[at:]
        assert found == packets
        assert not buffer


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2_097_151, "ffff7f"),
        (2_097_152, "80808001"),
        (268_435_455, "ffffff7f"),
    ],
)
def test_lengths_are_those_of_table_1_1(value: int, data: str) -> None:
    assert encode_length(value).hex() == data
    header = b"\x30" + bytes.fromhex(data)
    if value:
        assert packet_end(header, 0, 1 << 29) is None
    else:
        assert packet_end(header, 0, 1 << 29) == (2, 2)


def test_a_length_beyond_four_bytes_is_refused_both_ways() -> None:
    for wrong in (-1, 268_435_456):
        with pytest.raises(PacketError):
            encode_length(wrong)
    with pytest.raises(PacketError, match="remaining length"):
        packet_end(b"\x30\xff\xff\xff\xff", 0, 1 << 30)


def test_a_packet_over_the_limit_is_refused_as_soon_as_its_length_is_there() -> None:
    assert packet_end(b"\x30\x62", 0, 100) is None
    with pytest.raises(PacketError, match="101") as caught:
        packet_end(b"\x30\x63", 0, 100)
    assert caught.value.reason is ReasonCode.PACKET_TOO_LARGE
    with pytest.raises(PacketError):
        packet_end(b"xx\x30\x80\x01", 2, 100)


def test_a_length_in_more_bytes_than_needed_is_taken() -> None:
    assert packet_end(b"\xc0\x80\x80\x00", 0, 100) == (4, 4)


def test_acknowledgements_with_all_their_bytes_mean_the_same_as_short_ones() -> None:
    assert decode(0x40, raw("0001 00 00"), 5) == PubAck(1)
    assert decode(0xE0, raw("00 00"), 5) == Disconnect()


def test_what_mqtt_3_1_1_does_not_have_is_left_out() -> None:
    properties: Properties = {P.USER_PROPERTY: [("a", "b")]}
    assert encode(Publish("a", b"x", properties=properties), 4) == raw("30 04 0001 'a' 'x'")
    assert encode(PubAck(1, 0x87, properties), 4) == raw("40 02 0001")
    assert encode(ConnAck(False, ReasonCode.BANNED, properties), 4) == raw("20 02 00 05")
    assert encode(SubAck(1, [0x97, 2], properties), 4) == raw("90 04 0001 80 02")
    assert encode(UnsubAck(1, [0x11], properties), 4) == raw("b0 02 0001")


def test_a_refusal_is_what_the_version_can_say() -> None:
    assert refusal(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, 4) == raw("20 02 00 02")
    assert refusal(ReasonCode.SERVER_BUSY, 4) == raw("20 02 00 03")
    assert refusal(ReasonCode.MALFORMED_PACKET, 4) == b""
    assert refusal(ReasonCode.MALFORMED_PACKET, 5) == raw("20 03 00 81 00")
    assert refusal(ReasonCode.SESSION_TAKEN_OVER, 5) == b""


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ("0004 'MQTT' 85 ff", 5),
        ("0004 'MQTT' 05", 5),
        ("0004 'MQTT'", 4),
        ("0004 'MQTT' 04", 4),
        ("0006 'MQIsdp' 03", 4),
        ("0006 'MQIsdp' 05", 5),
        ("ffff 'MQTT' 05", 4),
        ("", 4),
    ],
)
def test_the_version_that_a_malformed_connect_asks_for_is_known(body: str, version: int) -> None:
    assert asked_version(raw(body)) == version


def test_properties_are_read_and_written_by_themselves() -> None:
    assert encode_properties({}) == b"\0"
    encoded = encode_properties({P.TOPIC_ALIAS: 3})
    assert encoded == raw("03 23 0003")
    assert decode_properties(b"--" + encoded + b"rest", 2, 10, 3) == ({P.TOPIC_ALIAS: 3}, 6)


def test_topics_of_every_allowed_shape_are_taken() -> None:
    for name in ("a", "/", "a//b", "$SYS/x", "ä/日本", "a b", "x" * 65_535):
        assert check_topic_name(name.encode()) == name
        assert check_topic_filter(name.encode()) == name
    for pattern in ("#", "+", "a/#", "+/+/#", "/+", "+/", "$share/g/#", "$share/g//a", "$share"):
        assert check_topic_filter(pattern) == pattern
