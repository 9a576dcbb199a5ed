"""Packets and their errors are one short line of a log, without secrets."""

from __future__ import annotations

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
    decode,
)

P = PropertyId

LINES: list[tuple[Packet, str]] = [
    (
        Connect(
            *(Version.V5, "c", True, 60, "me", b"hunter2", Will("gone", b"x", 1, True)),
            {P.SESSION_EXPIRY_INTERVAL: 9, P.AUTHENTICATION_METHOD: "M"},
            True,
        ),
        "CONNECT 'c' V5 bridge clean start, keep alive 60 s, user 'me', "
        "will 'gone' QoS 1 retain, 1 bytes, session expiry interval 9, authentication method 'M'",
    ),
    (Connect(Version.V311, "c", False), "CONNECT 'c' V311, keep alive 0 s"),
    (ConnAck(True), "CONNACK success session present"),
    (ConnAck(False, 0x87), "CONNACK not authorized"),
    (Publish("a", b"x", 1, True, True, 7), "PUBLISH 'a' QoS 1 id 7 retain dup, 1 bytes b'x'"),
    (
        Publish("a", b"", properties={P.USER_PROPERTY: [("k", "v")], P.CORRELATION_DATA: b"12"}),
        "PUBLISH 'a' QoS 0, 0 bytes b'', 1 user properties, correlation data of 2 bytes",
    ),
    (PubAck(7), "PUBACK id 7"),
    (PubRel(7, 0x92, {P.REASON_STRING: "?"}), "PUBREL id 7 packet identifier not found, "
     "reason string '?'"),
    (
        Subscribe(1, [SubscriptionRequest("a", 1, True, True, 2)] * 5),
        "SUBSCRIBE id 1 " + "; ".join(
            ["'a' QoS 1 no local retain as published retain handling 2"] * 3
        ) + " and 2 more",
    ),
    (SubAck(1, [1, 0x87]), "SUBACK id 1 QoS 1, not authorized"),
    (SubAck(1, [0] * 9), "SUBACK id 1 " + ", ".join(["QoS 0"] * 8) + " and 1 more"),
    (Unsubscribe(1, ["a"] * 4), "UNSUBSCRIBE id 1 'a'; 'a'; 'a' and 1 more"),
    (UnsubAck(1, [0, 0x11]), "UNSUBACK id 1 success, no subscription existed"),
    (PingReq(), "PINGREQ"),
    (PingResp(), "PINGRESP"),
    (Disconnect(), "DISCONNECT normal"),
    (Disconnect(0x8E), "DISCONNECT session taken over"),
    (Disconnect(0xFE), "DISCONNECT reason 0xfe"),
    (Auth(0x18, {P.AUTHENTICATION_DATA: b"hunter2"}), "AUTH continue authentication, "
     "authentication data of 7 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("packet", "line"), LINES)
def test_a_packet_is_a_line_for_a_log(packet: Packet, line: str) -> None:
    assert str(packet) == line


SECRET = b"hunter2"


@pytest.mark.parametrize(
    "packet",
    [
        Connect(Version.V311, "c", username="u", password=SECRET),
        Connect(Version.V5, "c", properties={P.AUTHENTICATION_DATA: SECRET}),
        ConnAck(False, 0, {P.AUTHENTICATION_DATA: SECRET}),
        Auth(0x18, {P.AUTHENTICATION_DATA: SECRET}),
    ],
    ids=str,
)
def test_a_secret_is_neither_in_the_line_nor_in_the_repr(packet: Packet) -> None:
    assert "hunter2" not in str(packet)
    assert "hunter2" not in repr(packet)


def test_a_long_or_strange_value_is_shortened_and_escaped() -> None:
    line = str(Publish("a\u2028" + "b" * 300, b"\xff" * 5000))
    assert len(line) < 250
    assert line.isprintable()
    assert "(302)" in line
    assert "5000 bytes" in line


def test_an_error_names_field_value_and_statement() -> None:
    with pytest.raises(PacketError) as caught:
        decode(0x30, b"\0\x05a/b/+", 4)
    error = caught.value
    assert str(error) == "topic name has a wildcard: 'a/b/+' [MQTT-4.7.0-1]"
    assert error.what == "topic name has a wildcard"
    assert error.value == "a/b/+"
    assert error.reason is ReasonCode.MALFORMED_PACKET


def test_an_error_about_a_long_value_is_short() -> None:
    with pytest.raises(PacketError) as caught:
        decode(0x30, b"\x20\0" + b"#" * 8192, 4)
    assert len(str(caught.value)) < 130


def test_a_password_cut_short_is_not_in_the_error() -> None:
    connect = b"\0\4MQTT\4\xc2\0\0\0\0\0\1u\0\x09hunter2"
    with pytest.raises(PacketError) as caught:
        decode(0x10, connect, 4)
    assert str(caught.value) == "CONNECT password cut short"
