"""DISCONNECT and CONNACK with a reason string, within what their packets and clients take."""

from __future__ import annotations

import pytest

from gateway.broker.inbound.reasons import REASON_CHARACTERS_MAX, with_reason
from gateway.mqtt import ConnAck, Disconnect, PropertyId, ReasonCode, Version, encode


def disconnect(reason: int, why: str = "") -> bytes:
    properties = {PropertyId.REASON_STRING: why} if why else {}
    return encode(Disconnect(reason, properties), Version.V5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ReasonCode.SESSION_TAKEN_OVER, ReasonCode.SESSION_TAKEN_OVER),
        (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, ReasonCode.PROTOCOL_ERROR),  # of CONNACK alone
        (ReasonCode.PACKET_IDENTIFIER_NOT_FOUND, ReasonCode.PROTOCOL_ERROR),  # of PUBREL alone
    ],
)
def test_a_reason_that_a_disconnect_cannot_have_is_a_protocol_error(asked: int, said: int) -> None:
    """Section 3.14.2.1 has the codes."""
    assert with_reason(Disconnect(asked), "why", None) == disconnect(said, "why")


def test_a_connack_says_what_a_disconnect_cannot() -> None:
    refused = ConnAck(False, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
    expected = encode(ConnAck(False, refused.reason, {PropertyId.REASON_STRING: "why"}), Version.V5)
    assert with_reason(refused, "why", None) == expected


@pytest.mark.parametrize(("short", "is_said"), [(0, True), (1, False)])
def test_a_reason_string_is_left_out_where_the_client_takes_no_packet_so_large(
    short: int, *, is_said: bool
) -> None:
    """[MQTT-3.14.2-3]."""
    full = disconnect(ReasonCode.PROTOCOL_ERROR, "why")
    answer = with_reason(Disconnect(ReasonCode.PROTOCOL_ERROR), "why", len(full) - short)
    assert answer == (full if is_said else disconnect(ReasonCode.PROTOCOL_ERROR))


def test_a_reason_string_is_cut_and_none_is_sent_for_nothing() -> None:
    why = "w" * REASON_CHARACTERS_MAX
    expected = disconnect(ReasonCode.PROTOCOL_ERROR, why)
    assert with_reason(Disconnect(ReasonCode.PROTOCOL_ERROR), why + "x", None) == expected
    plain = disconnect(ReasonCode.PROTOCOL_ERROR)
    assert with_reason(Disconnect(ReasonCode.PROTOCOL_ERROR), "", None) == plain == b"\xe0\x01\x82"
