"""The rate of a gateway's messages is that of the last minute, and costs little room."""

from __future__ import annotations

from cloud_ingest.evidence.facts import Activity
from cloud_ingest.fleet.gateway_state import GatewayState

S_US = 1_000_000


def active(gateway: GatewayState, at_s: int | None, messages: int) -> None:
    said = Activity("gw-a", messages, 0, 0, None, None, 1)
    gateway.act(said, None if at_s is None else at_s * S_US)


def test_messages_count_for_a_minute_and_then_no_longer() -> None:
    gateway = GatewayState("gw-a", 0, 0)
    for at_s, messages in ((1_000, 60), (1_004, 60), (1_005, 6), (None, 600)):
        active(gateway, at_s, messages)
    rates = [gateway.rate_per_s(at_s * S_US) for at_s in (1_005, 1_059, 1_060, 1_064, 1_065)]
    assert rates == [2.1, 2.1, 0.1, 0.1, 0.0]
    assert gateway.messages == 726


def test_a_gateway_that_says_something_for_days_is_remembered_for_a_minute() -> None:
    gateway = GatewayState("gw-a", 0, 0)
    for at_s in range(0, 10_000, 5):
        active(gateway, at_s, 5)
        assert len(gateway.slots) <= 13
    assert gateway.rate_per_s(9_995 * S_US) == 1.0
    active(gateway, 9_995, 0)
    active(gateway, 0, 5)  # as old as this it is forgotten at once
    assert 0 not in gateway.slots


def test_a_gap_in_time_leaves_nothing_of_before() -> None:
    gateway = GatewayState("gw-a", 0, 0)
    for at_s in (*range(0, 60, 5), 1_000, 1_055):
        active(gateway, at_s, 1)
    assert sorted(gateway.slots) == [1_000 // 5, 1_055 // 5]
