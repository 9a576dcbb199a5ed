"""Confirmable messages are sent again in time, and so often (RFC 7252, section 4.2)."""

from __future__ import annotations

import pytest

from coap_engine.message import CoapPeer
from coap_engine.retransmission import (
    NOTIFICATION,
    RESPONSE,
    Confirmable,
    Retransmissions,
    TransmissionRules,
)

NEAR, FAR = CoapPeer("near", "near"), CoapPeer("far", "far")


def message(message_id: int, peer: CoapPeer = NEAR) -> Confirmable:
    return Confirmable(peer, message_id, b"m%d" % message_id, RESPONSE, 7)


def under_way(spread: int = 0, rules: TransmissionRules | None = None) -> Retransmissions:
    return Retransmissions(lambda size: bytes([spread]) * size, rules or TransmissionRules())


@pytest.mark.parametrize(("spread", "first_s"), [(0, 2.0), (255, 3.0), (51, 2.2)])
def test_the_time_between_repetitions_is_drawn_once_and_doubles(
    spread: int, first_s: float
) -> None:
    sent = under_way(spread)
    assert (sent.transmissions, sent.next_timer(), sent.due(1e9)) == (5, None, None)
    one, now = message(1), 100.0
    sent.add(one, now)
    for number in range(4):
        wait_s = first_s * 2**number
        assert sent.next_timer() == pytest.approx(now + wait_s)
        assert sent.due(now + wait_s - 0.001) is None
        now = one.due
        assert sent.due(now) is one
        assert (one.repetitions, sent.is_exhausted(one)) == (number, False)
        sent.repeat(one, 1, b"again", now)
        assert one.datagram == b"again"
    assert sent.is_exhausted(one)
    assert sent.due(one.due) is one
    assert sent.end(NEAR, 1) is one
    assert sent.next_timer() is None


def test_what_is_acknowledged_is_over_and_only_by_who_had_it() -> None:
    sent = under_way()
    mine, others = message(1), message(1, FAR)
    for one in (mine, others):
        sent.add(one, 0.0)
    assert sent.end(NEAR, 2) is None
    assert sent.end(FAR, 1) is others
    assert (others.is_over, others.datagram) == (True, b"")
    assert sent.end(FAR, 1) is None
    assert (mine.is_over, mine.datagram) == (False, b"m1")
    assert sent.due(2.0) is mine
    assert sent.due(2.0) is None


def test_to_a_peer_that_is_forgotten_nothing_is_repeated_and_to_others_all_is() -> None:
    sent = under_way()
    gone, there = [message(1), message(2)], [message(1, FAR), message(3, FAR)]
    for one in (*gone, *there):
        sent.add(one, 0.0)
    sent.forget_peer(NEAR)
    assert [one.is_over for one in (*gone, *there)] == [True, True, False, False]
    assert [sent.due(2.0), sent.due(2.0), sent.due(2.0)] == [*there, None]


def test_what_is_due_comes_in_the_order_of_its_time_and_then_of_its_sending() -> None:
    sent = under_way()
    late, first, second = message(1), message(2), message(3)
    sent.add(late, 1.0)
    sent.add(first, 0.0)
    sent.add(second, 0.0)
    assert [sent.due(3.0) for _ in range(4)] == [first, second, late, None]


def test_another_message_in_the_place_of_one_is_acknowledged_by_its_own_number_alone() -> None:
    sent = under_way(rules=TransmissionRules(max_retransmit=1))
    one = Confirmable(NEAR, 1, b"21", NOTIFICATION, 7)
    sent.add(one, 0.0)
    assert sent.transmissions == 2
    assert sent.due(2.0) is one
    sent.repeat(one, 2, b"22", 2.0)
    assert (one.message_id, one.datagram, one.due, one.repetitions) == (2, b"22", 6.0, 1)
    assert sent.is_exhausted(one)
    assert sent.end(NEAR, 1) is None
    assert sent.end(NEAR, 2) is one
    assert sent.due(6.0) is None
