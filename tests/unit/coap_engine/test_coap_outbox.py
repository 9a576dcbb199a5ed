"""Message ids are counted for each peer from a number that is drawn (RFC 7252, section 4.4)."""

from __future__ import annotations

import random

from coap_engine.message import CoapPeer
from coap_engine.outbox import DatagramOutbox


def peer(number: int) -> CoapPeer:
    return CoapPeer(("192.0.2.1", number), "192.0.2.1")


def test_ids_of_a_peer_follow_each_other_and_come_again_after_65536() -> None:
    drawn = [b"saltsalt", b"\xff\xfe", b"\x00\x10"]
    outbox = DatagramOutbox(lambda size: drawn.pop(0)[:size])
    ids = [outbox.next_message_id(peer(1)) for _ in range(65_536)]
    assert ids[:3] == [0xFFFF, 0, 1]
    assert len(set(ids)) == 65_536
    assert outbox.next_message_id(peer(1)) == ids[0]
    assert drawn == [b"\x00\x10"], "a number is drawn once"


def test_what_one_peer_gets_uses_up_no_ids_of_others() -> None:
    outbox = DatagramOutbox(random.Random(1).randbytes)
    first = {number: outbox.next_message_id(peer(number)) for number in range(16)}
    for _ in range(1_000):
        outbox.next_message_id(peer(0))
    second = {number: outbox.next_message_id(peer(number)) for number in range(1, 16)}
    follow = sum(second[number] == (first[number] + 1) & 0xFFFF for number in second)
    assert follow >= 13, "few share a counter"
    assert len(set(first.values())) > 13, "each begins elsewhere"


def test_datagrams_are_taken_once_in_the_order_in_which_they_were_put() -> None:
    outbox = DatagramOutbox(bytes)
    sent = [(b"1", peer(1)), (b"2", peer(2)), (b"3", peer(1))]
    for datagram, to in sent:
        outbox.put(datagram, to)
    assert outbox.take() == sent
    assert outbox.take() == []
