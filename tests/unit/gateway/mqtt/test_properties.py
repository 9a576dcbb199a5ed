"""Each property in each packet, and each reason code, by the tables of MQTT 5.0; and the limits."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.mqtt import (
    WILL,
    Auth,
    ConnAck,
    Disconnect,
    Packet,
    PacketError,
    PacketType,
    PubAck,
    PubComp,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    UnsubAck,
    Version,
    check_sent_by_client,
    decode,
    decode_properties,
    encode,
    encode_properties,
)
from gateway.mqtt.errors import first_of, shortened

T = PacketType
ACKNOWLEDGEMENTS = (T.PUBACK, T.PUBREC, T.PUBREL, T.PUBCOMP, T.SUBACK, T.UNSUBACK)
ANYWHERE = (
    *(T.CONNECT, T.CONNACK, T.PUBLISH, WILL, *ACKNOWLEDGEMENTS),
    *(T.SUBSCRIBE, T.UNSUBSCRIBE, T.DISCONNECT, T.AUTH),
)
PLACES = (*T, WILL)
BYTE, TWO, FOUR, LENGTH, STRING, BINARY, PAIR = "byte", "two", "four", "length", "s", "b", "pair"
TABLE: dict[int, tuple[str, tuple[int, ...]]] = {  # table 2-4
    0x01: (BYTE, (T.PUBLISH, WILL)),
    0x02: (FOUR, (T.PUBLISH, WILL)),
    0x03: (STRING, (T.PUBLISH, WILL)),
    0x08: (STRING, (T.PUBLISH, WILL)),
    0x09: (BINARY, (T.PUBLISH, WILL)),
    0x0B: (LENGTH, (T.PUBLISH, T.SUBSCRIBE)),
    0x11: (FOUR, (T.CONNECT, T.CONNACK, T.DISCONNECT)),
    0x12: (STRING, (T.CONNACK,)),
    0x13: (TWO, (T.CONNACK,)),
    0x15: (STRING, (T.CONNECT, T.CONNACK, T.AUTH)),
    0x16: (BINARY, (T.CONNECT, T.CONNACK, T.AUTH)),
    0x17: (BYTE, (T.CONNECT,)),
    0x18: (FOUR, (WILL,)),
    0x19: (BYTE, (T.CONNECT,)),
    0x1A: (STRING, (T.CONNACK,)),
    0x1C: (STRING, (T.CONNACK, T.DISCONNECT)),
    0x1F: (STRING, (T.CONNACK, *ACKNOWLEDGEMENTS, T.DISCONNECT, T.AUTH)),
    0x21: (TWO, (T.CONNECT, T.CONNACK)),
    0x22: (TWO, (T.CONNECT, T.CONNACK)),
    0x23: (TWO, (T.PUBLISH,)),
    0x24: (BYTE, (T.CONNACK,)),
    0x25: (BYTE, (T.CONNACK,)),
    0x26: (PAIR, ANYWHERE),
    0x27: (FOUR, (T.CONNECT, T.CONNACK)),
    0x28: (BYTE, (T.CONNACK,)),
    0x29: (BYTE, (T.CONNACK,)),
    0x2A: (BYTE, (T.CONNACK,)),
}
NOT_0 = (0x0B, 0x21, 0x23, 0x27)
"""Sections 3.8.2.1.2, 3.1.2.11.3, 3.3.2.3.4 and 3.1.2.11.4."""
FORMS: dict[str, tuple[Any, bytes]] = {
    BYTE: (1, b"\1"),
    TWO: (258, b"\1\2"),
    FOUR: (16_909_060, b"\1\2\3\4"),
    LENGTH: (128, b"\x80\1"),
    STRING: ("ab", b"\0\2ab"),
    BINARY: (b"\0\xff", b"\0\2\0\xff"),
    PAIR: (("k", "v"), b"\0\1k\0\1v"),
}
LARGEST = {BYTE: 1, TWO: 65_535, FOUR: 4_294_967_295, LENGTH: 268_435_455}
WIDTHS = {BYTE: 1, TWO: 2, FOUR: 4}


def listed(identifier: int, value: Any) -> dict[int, Any]:
    """The properties that have this one alone; two of them may stand more than once."""
    return {identifier: [value] if identifier in {0x0B, 0x26} else value}


@pytest.mark.parametrize("identifier", range(0x30))
def test_a_property_stands_where_table_2_4_has_it_and_nowhere_else(identifier: int) -> None:
    form, places = TABLE.get(identifier, (BYTE, ()))
    value, data = FORMS[form]
    written = bytes((len(data) + 1, identifier)) + data
    for place in PLACES:
        if place in places:
            expected = listed(identifier, value)
            assert encode_properties(expected, place) == written
            assert decode_properties(written, 0, len(written), place) == (expected, len(written))
            continue
        with pytest.raises(PacketError, match="property in ") as read:
            decode_properties(written, 0, len(written), place)
        assert (read.value.reason, read.value.value) == (ReasonCode.MALFORMED_PACKET, identifier)
        with pytest.raises(PacketError, match="property in "):
            encode_properties(listed(identifier, value), place)


@pytest.mark.parametrize("identifier", [one for one, (form, _) in TABLE.items() if form in LARGEST])
def test_a_number_is_taken_up_to_the_largest_and_0_where_it_may_be(identifier: int) -> None:
    form, (place, *_) = TABLE[identifier]
    least, most = int(identifier in NOT_0), LARGEST[form]
    refused = {least - 1, most + 1} if form == BYTE or least else {most + 1}
    for value in (least, most):
        written = encode_properties(listed(identifier, value), place)
        found, _ = decode_properties(written, 0, len(written), place)
        assert found == listed(identifier, value)
    for value in refused:
        with pytest.raises(PacketError) as caught:
            encode_properties(listed(identifier, value), place)
        alias = identifier == 0x23
        reason = ReasonCode.TOPIC_ALIAS_INVALID if alias else ReasonCode.PROTOCOL_ERROR
        assert caught.value.reason == reason
        if form in WIDTHS and 0 <= value < 1 << 8 * WIDTHS[form]:
            body = bytes((identifier,)) + value.to_bytes(WIDTHS[form], "big")
            with pytest.raises(PacketError) as caught:
                decode_properties(bytes((len(body),)) + body, 0, len(body) + 1, place)
            assert caught.value.reason == reason


@pytest.mark.parametrize("identifier", TABLE)
def test_a_property_stands_once_but_for_those_that_may_stand_more_often(identifier: int) -> None:
    """Sections 3.3.2.3.7 and 3.3.2.3.8; in SUBSCRIBE one identifier at most (3.8.2.1.2)."""
    form, places = TABLE[identifier]
    value, data = FORMS[form]
    twice = (bytes((identifier,)) + data) * 2
    for place in places:
        written = bytes((len(twice),)) + twice
        if identifier == 0x26 or (identifier == 0x0B and place == T.PUBLISH):
            found, _ = decode_properties(written, 0, len(written), place)
            assert found == {identifier: [value, value]}
            continue
        with pytest.raises(PacketError, match="stands twice") as caught:
            decode_properties(written, 0, len(written), place)
        assert caught.value.reason == ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize("place", [T.CONNECT, WILL, T.PUBLISH, T.SUBSCRIBE])
def test_who_is_not_known_yet_sends_64_properties_and_others_512(place: int) -> None:
    most = 64 if place in (T.CONNECT, WILL) else 512
    for count in (most, most + 1):
        properties = {0x26: [("", "")] * count}
        written = encode_properties(properties, place)
        if count == most:
            assert decode_properties(written, 0, len(written), place)[0] == properties
            continue
        with pytest.raises(PacketError, match=f"with more properties than: {most}$") as caught:
            decode_properties(written, 0, len(written), place)
        assert caught.value.reason == ReasonCode.QUOTA_EXCEEDED


@pytest.mark.parametrize("more", [0, 1])
def test_all_properties_of_a_packet_have_128_kib_at_most(more: int) -> None:
    pairs = [("", "x" * 65_000), ("", "x" * 65_000)]
    used = 2 * (1 + 4 + 65_000)
    properties = {0x26: [*pairs, ("", "x" * (131_072 - used - 5 + more))]}
    written = encode_properties(properties, T.PUBLISH)
    if not more:
        assert decode_properties(written, 0, len(written), T.PUBLISH)[0] == properties
        return
    with pytest.raises(PacketError, match="properties of bytes: 131073") as caught:
        decode_properties(written, 0, len(written), T.PUBLISH)
    assert caught.value.reason == ReasonCode.PACKET_TOO_LARGE


RECEIVED = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
BOTH = {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99}
OF_SERVER = {
    *(0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F),
    *(0xA0, 0xA1, 0xA2),
}
CODES: dict[str, tuple[Any, set[int]]] = {  # tables 3-1 to 3-8, and section 3.14.2.1
    "CONNACK": (
        lambda reason: ConnAck(False, reason),
        {
            *(0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C),
            *(0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F),
        },
    ),
    "PUBACK": (lambda reason: PubAck(1, reason), RECEIVED),
    "PUBREC": (lambda reason: PubRec(1, reason), RECEIVED),
    "PUBREL": (lambda reason: PubRel(1, reason), {0x00, 0x92}),
    "PUBCOMP": (lambda reason: PubComp(1, reason), {0x00, 0x92}),
    "SUBACK": (
        lambda reason: SubAck(1, [reason]),
        {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    ),
    "UNSUBACK": (
        lambda reason: UnsubAck(1, [reason]),
        {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    ),
    "DISCONNECT": (Disconnect, BOTH | OF_SERVER),
    "AUTH": (lambda reason: Auth(reason, {0x15: "M"}), {0x00, 0x18, 0x19}),
}


@pytest.mark.parametrize("kind", CODES)
def test_a_packet_has_the_reason_codes_of_its_table_and_no_others(kind: str) -> None:
    make, codes = CODES[kind]
    plain = encode(make(0x87 if 0x87 in codes else max(codes)), Version.V5)
    at = plain.index(0x87 if 0x87 in codes else max(codes), 2)
    for reason in range(256):
        packet: Packet = make(reason)
        body = bytearray(plain)
        body[at] = reason
        if reason in codes:
            written = encode(packet, Version.V5)
            assert decode(written[0], written[2:], Version.V5) == packet
            assert decode(body[0], bytes(body[2:]), Version.V5) == packet
            continue
        with pytest.raises(PacketError):
            encode(packet, Version.V5)
        with pytest.raises(PacketError):
            decode(body[0], bytes(body[2:]), Version.V5)


def test_a_client_disconnects_for_the_reasons_that_are_a_clients() -> None:
    """Section 3.14.2.1."""
    for reason in BOTH:
        check_sent_by_client(Disconnect(reason))
    for reason in OF_SERVER:
        with pytest.raises(PacketError, match="DISCONNECT reason code from a client") as caught:
            check_sent_by_client(Disconnect(reason))
        assert caught.value.statement == "MQTT-3.14.2-1"


RETURN_CODES = {0x00: 0, 0x84: 1, 0x85: 2, 0x88: 3, 0x86: 4, 0x87: 5}
"""Table 3.1 of MQTT 3.1.1."""


def test_a_return_code_of_3_1_1_is_the_reason_of_the_same_meaning_and_back() -> None:
    for reason, code in RETURN_CODES.items():
        written = b"\x20\x02\0" + bytes((code,))
        assert encode(ConnAck(False, reason), Version.V311) == written
        assert decode(0x20, written[2:], Version.V311) == ConnAck(False, reason)
    less_exactly = {0x89: 3, 0x97: 3, 0x9F: 3, 0x8A: 5}
    for reason, code in less_exactly.items():
        assert encode(ConnAck(False, reason), Version.V311)[3] == code
    for code in range(6, 256):
        with pytest.raises(PacketError, match="CONNACK return code"):
            decode(0x20, bytes((0, code)), Version.V311)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a" * 58, repr("a" * 58)),
        ("a" * 59, "'" + "a" * 56 + "... (59)"),
        ("a" * 60, "'" + "a" * 56 + "... (60)"),
        ("\0" * 14, repr("\0" * 14)),
        ("\0" * 15, repr("\0" * 15)[:57] + "... (15)"),
        (b"ab", "b'ab'"),
        (b"a" * 99, "b'" + "a" * 55 + "... (99)"),
    ],
)
def test_a_peers_value_is_shown_in_60_characters_and_its_length(
    value: str | bytes, shown: str
) -> None:
    assert shortened(value) == shown


def test_of_many_values_the_first_are_shown_and_the_others_counted() -> None:
    assert first_of(["a", "b"], 2, ", ") == "a, b"
    assert first_of(["a", "b", "c", "d"], 2, ", ") == "a, b and 2 more"
    assert first_of([], 2, ", ") == ""
