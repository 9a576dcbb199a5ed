"""Limits of a packet's filters, levels and bytes, checked before all else (sections 3.8, 3.10)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.inbound.subscribe_requests import LEVELS_OF_A_FILTER, check_size
from gateway.broker.limits import Limits
from gateway.mqtt import (
    Disconnect,
    Packet,
    PacketError,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    Version,
    encode,
    packet_end,
)

LIMITS = Limits(subscriptions_per_session=2, request_bytes=1_024)
LEVELS = 2 * LEVELS_OF_A_FILTER
WITH_SLASHES: dict[int, Any] = {38: [("a/b", "/" * 100)]}
"""User properties, which no limit of filters counts."""


def check(packet: Packet, version: int) -> None:
    data = encode(packet, version)
    found = packet_end(data, 0, 1 << 24)
    assert found is not None
    check_size(data, found[0], version, LIMITS)


def asked(kind: type, filters: list[str], properties: dict[int, Any]) -> Packet:
    if kind is Subscribe:
        return Subscribe(1, [SubscriptionRequest(one, 1) for one in filters], properties)
    return Unsubscribe(1, filters, properties)


@pytest.mark.parametrize(
    ("version", "properties"),
    [(Version.V311, {}), (Version.V5, {}), (Version.V5, WITH_SLASHES)],
    ids=["3.1.1", "5.0", "5.0 with properties"],
)
@pytest.mark.parametrize("kind", [Subscribe, Unsubscribe])
@pytest.mark.parametrize(
    ("within", "beyond", "what"),
    [
        (["a", "b"], ["a", "b", "c"], "filters in a packet: 3"),
        (["/" * LEVELS], ["/" * (LEVELS + 1)], f"levels of all filters in a packet: {LEVELS + 1}"),
    ],
    ids=["filters", "levels"],
)
def test_so_many_filters_and_levels_may_be_in_a_packet_and_no_more(
    version: int,
    properties: dict[int, Any],
    kind: type,
    within: list[str],
    beyond: list[str],
    what: str,
) -> None:
    check(asked(kind, within, properties), version)
    with pytest.raises(PacketError, match=what) as refused:
        check(asked(kind, beyond, properties), version)
    assert refused.value.reason == ReasonCode.QUOTA_EXCEEDED


def test_another_packet_may_have_so_many_bytes_and_no_more() -> None:
    beside = 1 + 2 + 1 + 2  # reason code, length of properties, and of one its kind and length
    longest = "x" * (LIMITS.request_bytes - beside)
    check(Disconnect(0, {31: longest}), Version.V5)
    with pytest.raises(PacketError, match="packet of bytes") as refused:
        check(Disconnect(0, {31: longest + "x"}), Version.V5)
    assert refused.value.reason == ReasonCode.PACKET_TOO_LARGE
