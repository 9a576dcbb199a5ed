"""A session's exchange for QoS 1 and 2, its queue and its limits, without a connection."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.in_flight import InFlight
from gateway.broker.sessions.session import Session
from gateway.mqtt import (
    PacketError,
    PropertyId,
    Publish,
    PubRel,
    ReasonCode,
    decode,
    packet_end,
)

QOS_1, QOS_2 = 2, 4
LIMITS = Limits(inflight_messages=3, queue_messages=5)


def message(text: str, expiry_s: int | None = None) -> Message:
    properties = {} if expiry_s is None else {int(PropertyId.MESSAGE_EXPIRY_INTERVAL): expiry_s}
    return Message("t", b"t", text.encode(), 2, False, properties, 0.0)


def session(limits: Limits = LIMITS, version: int = 4) -> InFlight:
    made = InFlight(version, limits, Budget(limits))
    made.begin(version, 65_535, None, 0.0)
    return made


def read(packet: bytes, version: int = 4) -> Publish | PubRel:
    found = packet_end(packet, 0, 1 << 20)
    assert found is not None
    decoded = decode(packet[0], packet[found[0] : found[1]], version)
    assert isinstance(decoded, Publish | PubRel)
    return decoded


def sent(packet: bytes | None) -> Publish:
    assert packet is not None
    decoded = read(packet)
    assert isinstance(decoded, Publish)
    return decoded


def test_messages_over_the_window_wait_until_one_is_acknowledged() -> None:
    one = session()
    ids = [sent(one.submit(message(str(i)), QOS_1, (), 0.0)).packet_id for i in range(3)]
    assert one.submit(message("3"), QOS_1, (), 0.0) is None
    assert one.send_waiting(0.0) == []
    one.puback(ids[0] or 0)
    [packet] = one.send_waiting(0.0)
    assert sent(packet).payload == b"3"


def test_a_message_never_overtakes_one_that_waits() -> None:
    one = session()
    one.hold()
    assert one.submit(message("first"), QOS_1, (), 0.0) is None
    one.release()
    assert one.submit(message("second"), QOS_1, (), 0.0) is None
    assert [sent(p).payload for p in one.send_waiting(0.0)] == [b"first", b"second"]


def test_after_a_reconnect_what_was_not_acknowledged_is_sent_again_first_in_order() -> None:
    one = session()
    for text in ("a", "b"):
        one.submit(message(text), QOS_2, (), 0.0)
    one.pubrec(1, failed=False)
    one.pause()
    one.submit(message("c"), QOS_1, (), 1.0)
    released, again, fresh = [read(p) for p in one.begin(4, 10, None, 2.0)]
    assert isinstance(released, PubRel)
    assert released.packet_id == 1
    assert isinstance(again, Publish)
    assert (again.payload, again.dup, again.packet_id) == (b"b", True, 2)
    assert isinstance(fresh, Publish)
    assert (fresh.payload, fresh.dup) == (b"c", False)


def test_a_reconnect_with_a_smaller_receive_maximum_keeps_within_it() -> None:
    one = session()
    for text in ("a", "b", "c"):
        one.submit(message(text), QOS_1, (), 0.0)
    one.pause()
    [first] = one.begin(4, 1, None, 2.0)
    assert sent(first).payload == b"a"
    one.puback(1)
    [second] = one.send_waiting(2.0)
    assert sent(second).payload == b"b"


SENT_1, SENT_2, RELEASED = "QoS 1 sent", "QoS 2 sent", "released"
WRONG_KIND = [
    (SENT_1, "PUBREC"),
    (SENT_1, "PUBREC of failure"),
    (SENT_1, "PUBCOMP"),
    (SENT_2, "PUBACK"),
    (SENT_2, "PUBCOMP"),
    (RELEASED, "PUBACK"),
]


def in_state(state: str) -> InFlight:
    """An exchange of identifier 1 that has come so far."""
    one = session()
    one.submit(message("a"), QOS_1 if state == SENT_1 else QOS_2, (), 0.0)
    if state == RELEASED:
        assert one.pubrec(1, failed=False)
    return one


def answer(one: InFlight, kind: str, packet_id: int = 1) -> None:
    match kind:
        case "PUBACK":
            one.puback(packet_id)
        case "PUBCOMP":
            one.pubcomp(packet_id)
        case _:
            one.pubrec(packet_id, failed=kind != "PUBREC")


@pytest.mark.parametrize(("state", "kind"), WRONG_KIND)
def test_an_answer_of_the_wrong_kind_is_an_error_and_the_exchange_stays_as_it_was(
    state: str, kind: str
) -> None:
    one = in_state(state)
    before = dict(one.inflight)
    with pytest.raises(PacketError) as raised:
        answer(one, kind)
    assert raised.value.reason == ReasonCode.PROTOCOL_ERROR
    assert kind.split(maxsplit=1)[0] in str(raised.value)
    assert one.inflight == before


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        (SENT_1, ["PUBACK"]),
        (SENT_2, ["PUBREC", "PUBREC", "PUBCOMP"]),
        (SENT_2, ["PUBREC of failure"]),
        (RELEASED, ["PUBREC of failure"]),
    ],
)
def test_answers_of_the_right_kind_give_the_identifier_back(state: str, kinds: list[str]) -> None:
    one = in_state(state)
    for kind in kinds:
        answer(one, kind)
    assert (len(one.inflight), one.inflight_bytes) == (0, 0)


def test_a_pubrec_that_says_failure_frees_the_identifier() -> None:
    one = session()
    one.submit(message("a"), QOS_2, (), 0.0)
    assert one.pubrec(1, failed=True)
    assert len(one.inflight) == 0
    assert not one.pubrec(1, failed=False)


def test_the_newest_message_is_dropped_and_counted_when_the_queue_is_full() -> None:
    one = session()
    one.pause()
    for i in range(7):
        one.submit(message(str(i)), QOS_1, (), 0.0)
    assert (one.backlog.count, one.backlog.dropped) == (5, 2)


def test_all_queues_share_a_budget_which_an_ended_session_gives_back() -> None:
    size = message("x").size_bytes
    budget = Budget(dataclasses.replace(LIMITS, all_queues_bytes=size))
    first, second = (InFlight(4, LIMITS, budget) for _ in range(2))
    first.submit(message("x"), QOS_1, (), 0.0)
    second.submit(message("x"), QOS_1, (), 0.0)
    assert (second.backlog.count, second.backlog.dropped) == (0, 1)
    first.end()
    second.submit(message("x"), QOS_1, (), 0.0)
    assert (second.backlog.count, budget.used_bytes) == (1, size)


def test_an_ended_session_has_nothing_that_waits_for_room() -> None:
    one = session()
    for number in range(4):
        one.submit(message(str(number)), QOS_1, (), 0.0)
    one.pause()
    one.begin(4, 1, None, 0.0)  # two that were sent before wait for the third's room
    assert one.is_busy
    one.end()
    assert not one.is_busy
    assert one.send_waiting(0.0) == []


def test_the_bytes_in_flight_are_limited() -> None:
    one = session(dataclasses.replace(LIMITS, inflight_bytes=1))
    assert one.submit(message("a"), QOS_1, (), 0.0) is not None
    assert one.submit(message("b"), QOS_1, (), 0.0) is None
    one.puback(1)
    assert len(one.send_waiting(0.0)) == 1


def test_a_message_that_expired_while_it_waited_is_not_sent() -> None:
    one = session(version=5)
    one.hold()
    one.submit(message("old", expiry_s=10), QOS_1, (), 0.0)
    one.submit(message("new", expiry_s=100), QOS_1, (), 0.0)
    one.release()
    [packet] = one.send_waiting(20.0)
    found = read(packet, 5)
    assert isinstance(found, Publish)
    assert (found.payload, found.properties) == (b"new", {2: 80})


def test_a_message_over_the_clients_maximum_packet_size_counts_as_sent() -> None:
    one = session(version=5)
    one.begin(4, 10, 20, 0.0)
    assert one.submit(message("x" * 30), QOS_1, (), 0.0) is None
    assert (len(one.inflight), one.backlog.dropped) == (0, 1)


def test_a_session_without_expiry_ends_with_its_connection_and_one_that_never_expires_stays() -> (
    None
):
    one = Session(Client("c", None, "::1", 4), LIMITS, Budget(LIMITS))
    one.expiry_s = 0
    one.detach(5.0)
    assert one.ends_at_s == 5.0
    one.expiry_s = 0xFFFF_FFFF
    one.detach(5.0)
    assert one.ends_at_s == float("inf")


@given(st.lists(st.sampled_from(["deliver1", "deliver2", "ack", "lose", "hold", "release"])))
def test_every_message_arrives_in_order_whatever_happens_to_the_connection(
    steps: list[str],
) -> None:
    limits = Limits(inflight_messages=3)
    one = session(limits)
    arrived: list[int] = []
    pending: dict[int, int] = {}
    """Packet identifiers that the client has to answer, with their QoS, or 0 for a PUBREL."""

    def receive(packets: list[bytes]) -> None:
        for packet in packets:
            found = read(packet)
            if isinstance(found, PubRel):
                pending[found.packet_id] = 0
                continue
            number, packet_id = int(found.payload), found.packet_id or 0
            assert found.dup or packet_id not in pending
            pending[packet_id] = found.qos
            if number not in arrived:
                arrived.append(number)
        assert len(pending) <= limits.inflight_messages

    def answer() -> None:
        packet_id, qos = next(iter(pending.items()))
        del pending[packet_id]
        if qos == 1:
            one.puback(packet_id)
        elif qos == 2:
            assert one.pubrec(packet_id, failed=False)
            pending[packet_id] = 0
        else:
            one.pubcomp(packet_id)
        receive(one.send_waiting(0.0))

    count = 0
    for step in steps:
        if step.startswith("deliver"):
            flags = QOS_1 if step.endswith("1") else QOS_2
            packet = one.submit(message(str(count)), flags, (), 0.0)
            count += 1
            receive([] if packet is None else [packet])
        elif step == "ack" and pending:
            answer()
        elif step == "lose":
            one.pause()
            pending.clear()
            receive(one.begin(4, 65_535, None, 0.0))
        elif step == "hold":
            one.hold()
        elif step == "release":
            one.release()
            receive(one.send_waiting(0.0))
    one.release()
    receive(one.send_waiting(0.0))
    while pending:
        answer()
    assert arrived == list(range(count))
    assert len(one.inflight) == one.backlog.count == 0


@pytest.mark.parametrize("packet_id", [1, 65_535])
def test_answers_to_what_was_never_sent_change_nothing(packet_id: int) -> None:
    one = session()
    one.puback(packet_id)
    one.pubcomp(packet_id)
    assert not one.pubrec(packet_id, failed=False)
    assert len(one.inflight) == 0


def test_an_answer_without_packet_identifier_is_refused() -> None:
    one = session()
    for answer in (one.puback, one.pubcomp, lambda zero: one.pubrec(zero, failed=False)):
        with pytest.raises(PacketError, match=r"packet identifier: 0 \[MQTT-2\.2\.1-3\]"):
            answer(0)


def test_packet_identifiers_go_round_and_skip_those_in_use() -> None:
    one = session(Limits(inflight_messages=10))
    one.submit(message("stays"), QOS_1, (), 0.0)
    seen = set()
    for _ in range(65_535):
        packet_id = sent(one.submit(message("x"), QOS_1, (), 0.0)).packet_id
        assert packet_id is not None
        seen.add(packet_id)
        one.puback(packet_id)
    assert seen == set(range(2, 65_536))
