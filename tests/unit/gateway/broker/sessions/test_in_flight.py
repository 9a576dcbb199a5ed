"""Messages on their way to one client: what is sent again, in which order, within which bounds."""

from __future__ import annotations

from unittest.mock import ANY

import pytest

from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.in_flight import InFlight
from gateway.mqtt import PacketError, Publish, PubRel, Version, decode, packet_end
from gateway.mqtt.codec import Packet
from tree_handler.batch import Epoch, Ref

QOS_1, QOS_2 = 2, 4
V5, V311 = Version.V5, Version.V311


def opened(
    window: int = 65_535, version: Version = V5, packet_bytes_max: int | None = None, **limits: int
) -> InFlight:
    of = Limits(**limits)
    made = InFlight(version, of, Budget(of))
    assert made.begin(version, window, packet_bytes_max, 0.0) == []
    return made


def message(number: int, size: int = 0) -> Message:
    return Message("t", b"t", b"%d" % number + bytes(size), 2, False)


def submit(one: InFlight, number: int, flags: int = QOS_1, size: int = 0) -> list[bytes]:
    packet = one.submit(message(number, size), flags, (), 0.0)
    return [] if packet is None else [packet]


def read(packets: list[bytes], version: Version = V5) -> list[Packet]:
    found = []
    for packet in packets:
        bounds = packet_end(packet, 0, 1 << 24)
        assert bounds is not None
        found.append(decode(packet[0], packet[bounds[0] :], version))
    return found


def brief(packets: list[bytes]) -> list[tuple[int, bytes, bool]]:
    """Identifier, payload and DUP of each; PUBREL has no payload."""
    return [
        (one.packet_id or 0, one.payload, one.dup)
        if isinstance(one, Publish)
        else (one.packet_id, b"PUBREL", False)
        for one in read(packets)
        if isinstance(one, Publish | PubRel)
    ]


def test_as_many_are_on_their_way_as_the_client_takes_and_the_others_wait_in_order() -> None:
    one = opened(window=2)
    sent = [submit(one, number) for number in range(1, 5)]
    assert [brief(packets) for packets in sent] == [[(1, b"1", False)], [(2, b"2", False)], [], []]
    assert (one.is_busy, one.is_owed_any, one.backlog.count) == (True, True, 2)
    one.puback(2)
    assert brief(one.send_waiting(0.0)) == [(3, b"3", False)]
    one.puback(1)
    one.puback(3)
    assert brief(one.send_waiting(0.0)) == [(4, b"4", False)]
    one.puback(4)
    assert (one.is_busy, one.is_owed_any, one.inflight_bytes) == (False, False, 0)


def test_so_many_bytes_are_on_their_way_at_most_but_for_the_last() -> None:
    size = message(1, 99).size_bytes
    one = opened(inflight_bytes=2 * size)
    assert [len(submit(one, number, size=99)) for number in range(1, 5)] == [1, 1, 0, 0]
    assert one.inflight_bytes == 2 * size
    one.puback(1)
    assert [packet_id for packet_id, *_ in brief(one.send_waiting(0.0))] == [3]
    smaller = opened(inflight_bytes=2 * size + 1)
    assert [len(submit(smaller, number, size=99)) for number in range(1, 5)] == [1, 1, 1, 0]


def test_the_broker_bounds_what_a_client_takes_too() -> None:
    one = opened(inflight_messages=1)
    assert [len(submit(one, number)) for number in (1, 2)] == [1, 0]


def test_what_was_sent_is_sent_again_first_and_in_order_and_a_pubrel_stands_for_its_message() -> (
    None
):
    """[MQTT-4.4.0-1], and [MQTT-3.3.1-1] for DUP."""
    one = opened()
    for number, flags in ((1, QOS_1), (2, QOS_2), (3, QOS_2)):
        submit(one, number, flags)
    assert one.pubrec(2, failed=False)
    one.pause()
    assert submit(one, 4) == []
    assert brief(one.begin(V5, 10, None, 0.0)) == [
        (1, b"1", True),
        (2, b"PUBREL", False),
        (3, b"3", True),
        (4, b"4", False),
    ]


def test_what_is_acknowledged_before_it_is_sent_again_is_not() -> None:
    one = opened()
    for number in (1, 2, 3):
        submit(one, number)
    one.pause()
    assert brief(one.begin(V5, 1, None, 0.0)) == [(1, b"1", True)]
    one.puback(2)  # of the connection before, as a client may have it
    one.puback(1)
    assert brief(one.send_waiting(0.0)) == [(3, b"3", True)]
    one.puback(3)
    assert (one.send_waiting(0.0), one.is_busy, one.inflight) == ([], False, {})


def test_nothing_is_sent_to_a_client_that_is_away_or_does_not_read() -> None:
    one = opened()
    one.hold()
    assert submit(one, 1) == one.send_waiting(0.0) == []
    one.release()
    assert brief(one.send_waiting(0.0)) == [(1, b"1", False)]
    one.pause()
    assert submit(one, 2) == one.send_waiting(0.0) == []


@pytest.mark.parametrize("flags", [QOS_1, QOS_2])
def test_a_message_that_a_client_takes_no_longer_is_dropped_as_if_it_had_come(flags: int) -> None:
    """[MQTT-3.1.2-25], exactly beyond its Maximum Packet Size."""
    one = opened()
    [packet] = submit(one, 1, flags, size=50)
    for room in (len(packet), len(packet) - 1):
        one.pause()
        again = one.begin(V5, 9, room, 0.0)
        assert len(again) == (room == len(packet))
    assert (one.inflight, one.inflight_bytes, one.backlog.dropped) == ({}, 0, 1)
    assert submit(one, 2, flags, size=50) == []
    assert (one.backlog.dropped, one.backlog.count, one.last_packet_id) == (2, 0, 1)
    assert brief(submit(one, 3, flags, size=49)) == [(2, b"3" + bytes(49), False)]


def test_an_identifier_that_is_on_its_way_is_passed_over_and_behind_the_last_comes_the_first() -> (
    None
):
    one = opened()
    submit(one, 1)
    one.go_on_from(65_534)
    ids = [brief(submit(one, number))[0][0] for number in (2, 3)]
    assert ids == [65_535, 2]
    one.go_on_from(65_535)
    assert one.last_packet_id in (0, 65_535)
    assert brief(submit(one, 4))[0][0] == 3


WRONG = {
    "PUBACK of QoS 2": (QOS_2, lambda one, number: one.puback(number)),
    "PUBREC of QoS 1": (QOS_1, lambda one, number: one.pubrec(number, failed=False)),
    "PUBCOMP before PUBREC": (QOS_2, lambda one, number: one.pubcomp(number)),
    "PUBCOMP of QoS 1": (QOS_1, lambda one, number: one.pubcomp(number)),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_answer_that_is_not_the_next_one_is_a_protocol_error_and_changes_nothing(
    case: str,
) -> None:
    flags, answer = WRONG[case]
    one = opened()
    submit(one, 1, flags)
    name = case.split(maxsplit=1)[0]
    with pytest.raises(PacketError, match=f"^{name} is not the next answer"):
        answer(one, 1)
    with pytest.raises(PacketError, match=f"^{name} packet identifier"):
        answer(one, 0)
    assert list(one.inflight) == [1]


def test_an_answer_to_what_was_never_sent_does_no_harm() -> None:
    one = opened()
    submit(one, 1)
    one.puback(9)
    one.pubcomp(9)
    assert not one.pubrec(9, failed=False)
    assert not one.pubrec(9, failed=True)
    assert list(one.inflight) == [1]


def test_an_exchange_of_qos_2_gives_its_bytes_back_when_the_client_has_it_and_ends_later() -> None:
    one = opened(window=1)
    submit(one, 1, QOS_2)
    assert submit(one, 2, QOS_2) == []
    assert one.pubrec(1, failed=False)
    assert (one.inflight, one.inflight_bytes) == ({1: None}, 0)
    assert one.pubrec(1, failed=False), "a PUBREC that comes again is answered again"
    assert one.send_waiting(0.0) == [], "its place in the window is taken until PUBCOMP"
    one.pubcomp(1)
    assert brief(one.send_waiting(0.0)) == [(2, b"2", False)]
    assert one.pubrec(2, failed=True)
    assert (one.inflight, one.inflight_bytes) == ({}, 0)


def test_what_another_may_be_sent_in_place_of_a_client_that_is_gone_is_all_but_sent_qos_2() -> None:
    """[MQTT-4.8.2-5]."""
    one = opened(window=3)
    for number, flags in ((1, QOS_1), (2, QOS_2), (3, QOS_1), (4, QOS_2)):
        submit(one, number, flags)
    one.puback(3)
    left = [item[0].payload for item in one.left_behind() if isinstance(item, tuple)]
    assert left == [b"1", b"4"]
    one.end()
    assert (one.left_behind(), one.inflight_bytes, one.is_owed_any) == ([], 0, False)


def test_a_message_that_has_expired_while_it_waited_is_dropped_and_the_next_is_sent() -> None:
    one = opened(window=1)
    submit(one, 1)
    for number, expires_at_s in ((2, 5.0), (3, None)):
        waits = message(number)
        waits.expires_at_s = expires_at_s
        one.submit(waits, QOS_1, (), 0.0)
    one.puback(1)
    assert brief(one.send_waiting(5.0)) == [(2, b"3", False)]
    assert one.backlog.dropped == 1


class HasFirst:
    """A log that has the first message of a stream, and no other."""

    def messages(self, key: Epoch, first: int, last: int) -> tuple[dict[int, Message], int]:
        found = {1: message(1)} if first == 1 else {}
        return found, last

    def has(self, ref: Ref) -> bool:
        return ref[1] == 1


@pytest.mark.parametrize(
    ("waits", "number", "flags", "is_lost", "expected"),
    [
        (True, 1, QOS_1, False, (True, [7], 7)),
        (True, 1, QOS_2, False, (True, [7], 7)),
        (False, 1, QOS_1, False, (False, [], 0)),  # the log has it, and it never waited
        (False, 2, QOS_1, False, (True, [], 7)),  # the log has it no longer
        (False, 2, QOS_2, False, (True, [7], 7)),  # its exchange goes on with PUBREL
        (False, 1, QOS_1, True, (True, [], 7)),
        (False, 1, QOS_2, True, (True, [7], 7)),
    ],
)
def test_what_the_journal_says_was_sent_is_on_its_way_if_it_waited_or_may_have_been_had(
    waits: bool, number: int, flags: int, is_lost: bool, expected: tuple[bool, list[int], int]
) -> None:
    limits = Limits()
    one = InFlight(V5, limits, Budget(limits), HasFirst())
    ref = (("gw", 1), number)
    if waits:
        waiting = message(number)
        waiting.ref = ref
        one.backlog.restore((waiting, flags, ()))
    was_sent = one.was_sent(7, flags, ref, is_lost=is_lost)
    assert (was_sent, list(one.inflight), one.last_packet_id) == expected
    assert (one.inflight.get(7) is not None) == waits
    assert one.backlog.count == 0


def test_what_was_restored_without_limits_is_held_to_those_that_it_gets() -> None:
    limits = Limits(inflight_messages=1, queue_messages=9)
    one = InFlight(V5, limits, Budget(limits))
    for number in (1, 2, 3, 4):
        submit(one, number, size=100)
    two = Limits(inflight_messages=2, queue_messages=9)
    one.adopt(two, Budget(two))
    assert brief(one.begin(V5, 65_535, None, 0.0)) == [(1, ANY, False), (2, ANY, False)]
    one.pause()
    few = Limits(inflight_messages=9, inflight_bytes=1, queue_messages=9)
    one.adopt(few, Budget(few))
    again = brief(one.begin(V5, 65_535, None, 0.0))
    assert again == [(1, ANY, True), (2, ANY, True)], "no more than were on their way"
    for packet_id in (1, 2):
        one.puback(packet_id)
    assert brief(one.send_waiting(0.0)) == [(3, ANY, False)]
