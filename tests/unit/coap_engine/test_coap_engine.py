"""What a peer of the engine sees, message by message."""

from __future__ import annotations

import dataclasses
import itertools
import tracemalloc
from collections.abc import Callable

import pytest

from coap_engine import codes
from coap_engine.codec import ACK, CON, NON, RST, CoapMessage, decode
from coap_engine.engine import Engine
from coap_engine.errors import UnknownExchangeError
from coap_engine.limits import EngineLimits
from coap_engine.message import (
    Asked,
    CoapPeer,
    CoapRequest,
    CoapResponse,
    Ended,
    Option,
    Responded,
    Unanswered,
)
from coap_engine.option_numbers import ECHO, OBSERVE, URI_PATH
from coap_engine.rates import Rates
from coap_engine.recent_requests import RecentLimits
from coap_engine.shares import Quota, ShareLimits

PUMP = CoapPeer(("session", 1), "pump", "pump", is_address_proven=True)
STRANGER = CoapPeer(("192.0.2.1", 5683), "192.0.2.1")
TEMPERATURE: tuple[Option, ...] = ((URI_PATH, b"temperature"),)
WARM = CoapResponse(codes.CONTENT, (), b"22.3 C")


def drawn() -> Callable[[int], bytes]:
    """Bytes that differ from call to call and are the same in each run."""
    numbers = itertools.count(1)
    return lambda size: next(numbers).to_bytes(size, "big") if size > 1 else b"\0"


class World:
    """An engine, its time, and what it sends."""

    def __init__(self, limits: EngineLimits | None = None) -> None:
        self.engine = Engine(drawn(), limits or EngineLimits())
        self.now = 100.0

    def receive(self, message: CoapMessage | bytes, peer: CoapPeer = PUMP) -> list[Asked]:
        datagram = message if isinstance(message, bytes) else message.encode()
        self.engine.receive_datagram(datagram, peer, self.now)
        return [event for event in self.engine.events() if isinstance(event, Asked)]

    def ask(self, message: CoapMessage, peer: CoapPeer = PUMP) -> Asked:
        (asked,) = self.receive(message, peer)
        return asked

    def respond(self, asked: Asked, response: CoapResponse = WARM) -> None:
        self.engine.respond(asked.exchange, response, self.now)

    def sent(self) -> list[CoapMessage]:
        return [decode(datagram) for datagram, _ in self.engine.datagrams_to_send()]

    def wait(self, seconds: float) -> None:
        """Let time pass, with the engine's timers at their times."""
        until = self.now + seconds
        while (due := self.engine.next_timer()) is not None and due <= until:
            self.now = max(self.now, due)
            self.engine.handle_timer(self.now)
        self.now = until


def get(message_id: int = 0x7D34, token: bytes = b"\x20", *options: Option) -> CoapMessage:
    return CoapMessage(CON, codes.GET, message_id, token, tuple(sorted((*TEMPERATURE, *options))))


def seen(messages: list[CoapMessage]) -> list[tuple[int, int, int, bytes, bytes]]:
    return [(m.type, m.code, m.message_id, m.token, m.payload) for m in messages]


def test_rfc_7252_figure_17_an_answer_at_hand_is_piggybacked() -> None:
    world = World()
    asked = world.ask(get())
    assert asked.request == CoapRequest(codes.GET, TEMPERATURE, is_fresh=True)
    world.respond(asked)
    assert seen(world.sent()) == [(ACK, codes.CONTENT, 0x7D34, b"\x20", b"22.3 C")]
    assert world.engine.open_exchanges == 0


def test_rfc_7252_figure_19_a_repeated_request_gets_the_same_answer_and_is_not_carried_out() -> (
    None
):
    world = World()
    world.respond(world.ask(get()))
    (first,) = world.engine.datagrams_to_send()
    assert world.receive(get()) == []
    assert world.engine.datagrams_to_send() == [first]
    assert world.engine.counters.repeated == 1


def test_rfc_7252_figure_20_an_answer_that_takes_longer_comes_by_itself() -> None:
    world = World()
    asked = world.ask(get())
    world.wait(0.2)
    assert seen(world.sent()) == [(ACK, 0, 0x7D34, b"", b"")]
    assert world.receive(get()) == []  # repeated meanwhile
    assert seen(world.sent()) == [(ACK, 0, 0x7D34, b"", b"")]
    world.respond(asked)
    (separate,) = world.sent()
    assert (separate.type, separate.token, separate.payload) == (CON, b"\x20", b"22.3 C")
    world.wait(3.0)
    assert seen(world.sent()) == seen([separate])
    world.receive(CoapMessage(ACK, 0, separate.message_id))
    world.wait(300.0)
    assert world.sent() == []


def test_rfc_7252_figure_22_a_non_confirmable_request_gets_such_an_answer() -> None:
    world = World()
    world.respond(world.ask(CoapMessage(NON, codes.GET, 0x7D40, b"\x75", TEMPERATURE)))
    (answer,) = world.sent()
    assert (answer.type, answer.token, answer.payload) == (NON, b"\x75", b"22.3 C")


def test_a_separate_answer_that_nobody_acknowledges_is_given_up_after_four_repetitions() -> None:
    world = World()
    asked = world.ask(get())
    world.wait(0.2)
    world.respond(asked)
    world.sent()
    world.wait(300.0)
    assert len(world.sent()) == 4
    assert world.engine.counters.unacknowledged == 1


def test_a_ping_is_answered_with_a_reset() -> None:
    world = World()
    world.receive(CoapMessage(CON, 0, 9))
    assert seen(world.sent()) == [(RST, 0, 9, b"", b"")]


@pytest.mark.parametrize("message_type", [ACK, RST])
def test_a_request_in_an_ack_or_reset_is_ignored(message_type: int) -> None:
    world = World()
    assert world.receive(CoapMessage(message_type, codes.GET, 9, b"", TEMPERATURE)) == []
    assert world.sent() == []


def test_a_response_to_nothing_is_reset_if_it_is_confirmable() -> None:
    world = World()
    world.receive(CoapMessage(CON, codes.CONTENT, 9, b"\x01"))
    world.receive(CoapMessage(NON, codes.CONTENT, 10, b"\x01"))
    assert seen(world.sent()) == [(RST, 0, 9, b"", b"")]


def test_rfc_7252_section_5_4_1_a_critical_option_that_is_not_known_is_refused() -> None:
    world = World()
    assert world.receive(get(1, b"", (9_999, b""))) == []
    assert [m.code for m in world.sent()] == [codes.BAD_OPTION]
    assert world.receive(CoapMessage(NON, codes.GET, 2, b"", ((9_999, b""),))) == []
    assert world.sent() == []


def test_rfc_7252_section_5_4_1_an_elective_option_that_is_not_known_is_ignored() -> None:
    assert World().ask(get(1, b"", (9_998, b""))).request.options == TEMPERATURE


def test_rfc_7252_section_5_4_5_a_critical_option_that_stands_too_often_is_refused() -> None:
    world = World()
    assert world.receive(get(1, b"", (17, b""), (17, b"\x32"))) == []
    assert [m.code for m in world.sent()] == [codes.BAD_OPTION]


def test_rfc_7252_section_5_7_2_nobody_is_asked_for_another() -> None:
    world = World()
    assert world.receive(get(1, b"", (35, b"coap://example.net/x"))) == []
    assert [m.code for m in world.sent()] == [codes.PROXYING_NOT_SUPPORTED]


@pytest.mark.parametrize(("mask", "is_sent"), [(0, True), (2, False), (8, True), (26, False)])
def test_rfc_7967_answers_of_a_class_that_is_not_wanted_are_not_sent(
    mask: int, is_sent: bool
) -> None:
    world = World()
    put = CoapMessage(NON, codes.PUT, 1, b"", (*TEMPERATURE, (258, bytes([mask]))), b"1")
    world.respond(world.ask(put), CoapResponse(codes.CHANGED))
    assert bool(world.sent()) is is_sent
    put.type, put.message_id = CON, 2
    world.respond(world.ask(put), CoapResponse(codes.CHANGED))
    assert [m.code for m in world.sent()] == [codes.CHANGED if is_sent else 0]


def test_rfc_8768_a_hop_limit_of_zero_is_a_bad_request() -> None:
    world = World()
    assert world.receive(get(1, b"", (16, b"\0"))) == []
    assert [m.code for m in world.sent()] == [codes.BAD_REQUEST]
    assert world.ask(get(2, b"", (16, b"\x05"))).request.options == TEMPERATURE


def test_an_answer_to_what_is_over_is_refused() -> None:
    world = World()
    asked = world.ask(get())
    world.respond(asked)
    with pytest.raises(UnknownExchangeError):
        world.respond(asked)


def test_a_body_in_blocks_comes_whole_and_its_answer_names_the_last_block() -> None:
    world = World()
    first, last = b"a" * 16, b"b" * 3
    put = CoapMessage(CON, codes.PUT, 1, b"", ((URI_PATH, b"x"), (27, b"\x08")), first)
    assert world.receive(put) == []
    assert [m.code for m in world.sent()] == [codes.CONTINUE]
    put = CoapMessage(CON, codes.PUT, 2, b"", ((URI_PATH, b"x"), (27, b"\x10")), last)
    asked = world.ask(put)
    assert asked.request == CoapRequest(codes.PUT, ((URI_PATH, b"x"),), first + last, False, True)
    world.respond(asked, CoapResponse(codes.CHANGED))
    assert [(m.code, m.options) for m in world.sent()] == [(codes.CHANGED, ((27, b"\x10"),))]


def test_a_long_answer_goes_in_blocks_and_the_resource_is_asked_once() -> None:
    world = World()
    body = bytes(range(256)) * 10
    world.respond(world.ask(get(1)), CoapResponse(codes.CONTENT, (), body))
    got = world.sent()[0].payload
    for number in (1, 2):
        block = (23, (number << 4 | 6).to_bytes(1, "big"))
        assert world.receive(get(1 + number, b"\x20", block)) == []
        got += world.sent()[0].payload
    assert got == body


def observe(message_id: int = 1, token: bytes = b"\x4a") -> CoapMessage:
    return get(message_id, token, (OBSERVE, b""))


def test_rfc_7641_an_observer_is_told_of_each_change_until_it_says_reset() -> None:
    world = World()
    asked = world.ask(observe())
    assert asked.request.observe
    world.respond(asked)
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"22.8 C"))
    first, second = world.sent()
    assert (first.type, second.type) == (ACK, NON)
    assert second.token == b"\x4a"
    numbers = [dict(m.options)[OBSERVE] for m in (first, second)]
    assert int.from_bytes(numbers[0], "big") < int.from_bytes(numbers[1], "big")
    world.engine.receive_datagram(CoapMessage(RST, 0, second.message_id).encode(), PUMP, world.now)
    assert world.engine.events() == [Ended(asked.exchange, "reset by the observer")]
    assert world.engine.open_exchanges == 0


def test_a_resource_that_can_not_be_observed_answers_once() -> None:
    world = World()
    asked = world.ask(observe())
    world.engine.respond(asked.exchange, WARM, world.now, is_last=True)
    assert [m.options for m in world.sent()] == [()]
    assert world.engine.open_exchanges == 0


def test_a_last_notification_says_so_by_having_no_observe() -> None:
    world = World()
    asked = world.ask(observe())
    world.respond(asked)
    world.sent()
    world.engine.respond(asked.exchange, WARM, world.now, is_last=True)
    (last,) = world.sent()
    assert (last.type, last.options) == (CON, ())
    assert [type(event) for event in world.engine.events()] == [Ended]
    assert world.engine.open_exchanges == 0


def test_an_observer_that_never_answers_is_dropped() -> None:
    world = World()
    asked = world.ask(observe(), STRANGER)
    world.engine.respond(asked.exchange, CoapResponse(codes.CONTENT, (), b"1"), world.now)
    for value in range(100):
        try:
            world.respond(asked, CoapResponse(codes.CONTENT, (), b"%d" % value))
        except UnknownExchangeError:
            break
        world.wait(10.0)
    assert world.engine.open_exchanges == 0
    assert len(world.sent()) < 12  # of a hundred


def test_when_an_observer_is_silent_all_that_its_address_observes_ends() -> None:
    world = World()
    asked = [world.ask(observe(n, bytes([n])), STRANGER) for n in (1, 2, 3)]
    for each in asked:
        world.respond(each, CoapResponse(codes.CONTENT, (), b"1"))
    world.respond(asked[0], CoapResponse(codes.CONTENT, (), b"2"))
    world.wait(300.0)
    assert world.engine.open_exchanges == 0
    assert [type(event) for event in world.engine.events()] == [Ended] * 3


def test_an_echo_is_never_asked_for_in_a_message_that_would_be_repeated() -> None:
    world = World()
    asked = world.ask(get(), STRANGER)
    world.wait(0.2)
    world.sent()
    world.respond(asked, CoapResponse(codes.CONTENT, (), bytes(500)))
    (challenge,) = world.sent()
    assert (challenge.type, challenge.code) == (NON, codes.UNAUTHORIZED)


def test_a_confirmable_notification_is_repeated_with_what_is_newest() -> None:
    world = World()
    asked = world.ask(observe(), STRANGER)
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"0"))
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"1"))
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"2"))
    assert [m.payload for m in world.sent()] == [b"0", b"1"]
    world.wait(3.5)
    (newest,) = world.sent()
    assert (newest.type, newest.payload) == (CON, b"2")
    world.receive(CoapMessage(ACK, 0, newest.message_id), STRANGER)
    world.wait(100.0)
    assert world.sent() == []


def test_observing_again_with_the_same_token_takes_the_place_of_the_first() -> None:
    world = World()
    first = world.ask(observe(1))
    world.respond(first)
    world.engine.receive_datagram(observe(2).encode(), PUMP, world.now)
    events = world.engine.events()
    assert Ended(first.exchange, "observed anew") in events
    assert world.engine.open_exchanges == 1


def test_rfc_9175_a_long_answer_to_a_stranger_waits_for_an_echo() -> None:
    world = World()
    asked = world.ask(get(), STRANGER)
    world.respond(asked, CoapResponse(codes.CONTENT, (), bytes(200)))
    (challenge,) = world.sent()
    assert (challenge.code, challenge.payload) == (codes.UNAUTHORIZED, b"")
    echo = dict(challenge.options)[ECHO]
    world.respond(
        world.ask(get(2, b"", (ECHO, echo)), STRANGER), CoapResponse(codes.CONTENT, (), bytes(200))
    )
    assert [m.code for m in world.sent()] == [codes.CONTENT]


def test_rfc_9175_a_write_of_a_stranger_waits_for_an_echo() -> None:
    world = World()
    put = CoapMessage(CON, codes.PUT, 1, b"", TEMPERATURE, b"1")
    assert world.receive(put, STRANGER) == []
    (challenge,) = world.sent()
    put.message_id, put.options = 2, (*TEMPERATURE, (ECHO, dict(challenge.options)[ECHO]))
    assert world.ask(put, STRANGER).request.is_fresh


def test_of_a_peer_that_is_gone_nothing_is_left() -> None:
    world = World()
    world.respond(world.ask(observe()))
    world.ask(get(2))
    number = world.engine.request(PUMP, CoapRequest(codes.GET), world.now)
    world.engine.forget_peer(PUMP)
    assert sorted(type(event).__name__ for event in world.engine.events()) == [
        *("Ended", "Ended", "Unanswered")
    ]
    assert world.engine.open_exchanges == 0
    assert number not in (1, 2)
    world.sent()
    world.wait(500.0)
    assert world.sent() == []


def test_a_request_of_our_own_gets_all_blocks_of_its_answer() -> None:
    world = World()
    world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    for number, (part, more) in enumerate([(b"a" * 1_024, 1), (b"b" * 10, 0)]):
        (asked,) = world.sent()
        assert asked.type == CON
        block = (number << 4 | more << 3 | 6).to_bytes(1, "big")
        answer = CoapMessage(
            ACK, codes.CONTENT, asked.message_id, asked.token, ((23, block),), part
        )
        world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    (responded,) = world.engine.events()
    assert isinstance(responded, Responded)
    assert responded.response.payload == b"a" * 1_024 + b"b" * 10


def test_a_separate_answer_to_a_request_of_ours_is_acknowledged() -> None:
    world = World()
    world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    world.receive(CoapMessage(ACK, 0, asked.message_id))
    world.engine.receive_datagram(
        CoapMessage(CON, codes.CONTENT, 77, asked.token, (), b"x").encode(), PUMP, world.now
    )
    assert [type(event) for event in world.engine.events()] == [Responded]
    assert seen(world.sent()) == [(ACK, 0, 77, b"", b"")]


@pytest.mark.parametrize("answer", [None, RST, ACK])
def test_a_request_of_ours_without_answer_fails(answer: int | None) -> None:
    world = World()
    number = world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    if answer is not None:
        world.engine.receive_datagram(
            CoapMessage(answer, 0, asked.message_id).encode(), PUMP, world.now
        )
    world.wait(200.0)
    (failed,) = world.engine.events()
    assert isinstance(failed, Unanswered)
    assert failed.exchange == number


def test_a_stranger_that_asks_too_much_is_told_so_and_others_are_served() -> None:
    requests = Quota(host=2, strangers=3, principal=9, everybody=9, retry_s=5)
    world = World(EngineLimits(shares=dataclasses.replace(ShareLimits(), requests=requests)))
    other = CoapPeer(("192.0.2.2", 5683), "192.0.2.2")
    for message_id in (1, 2):
        world.ask(get(message_id), STRANGER)
    assert world.receive(get(3), STRANGER) == []
    world.ask(get(4), other)
    assert world.receive(get(5), other) == []
    assert [m.code for m in world.sent()] == [
        codes.TOO_MANY_REQUESTS,
        codes.SERVICE_UNAVAILABLE,
    ]
    world.ask(get(6))


def test_a_host_that_floods_is_told_once_a_second_and_not_read_any_more() -> None:
    datagrams = Rates(host=10, strangers=100)
    world = World(EngineLimits(shares=dataclasses.replace(ShareLimits(), datagrams=datagrams)))
    asked = [a for i in range(200) for a in world.receive(get(i), STRANGER)]
    assert len(asked) == 10
    assert [m.code for m in world.sent()] == [codes.TOO_MANY_REQUESTS]
    assert len(world.receive(get(200))) == 1


def test_no_flood_of_strangers_makes_a_request_be_carried_out_twice() -> None:
    recent = RecentLimits(of_peer=4, of_strangers=8, of_principals=8)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    for number in range(100):
        stranger = CoapPeer((f"192.0.2.{number}", 1), f"192.0.2.{number}")
        world.receive(get(number), stranger)
    assert world.receive(get(1)) == []


def test_no_flood_of_one_peer_makes_a_request_of_another_be_carried_out_twice() -> None:
    recent = RecentLimits(of_peer=4, of_strangers=8, of_principals=8)
    valve = CoapPeer(("session", 2), "valve", "valve", is_address_proven=True)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    for number in range(100):
        world.respond(world.ask(get(number), valve))
    assert world.receive(get(1)) == []
    assert world.engine.remembered_requests == 5


def test_what_is_forgotten_of_a_flood_takes_no_memory_behind_what_is_remembered() -> None:
    recent = RecentLimits(of_peer=4, of_strangers=8, of_principals=8)
    valve = CoapPeer(("session", 2), "valve", "valve", is_address_proven=True)
    world = World(EngineLimits(recent=recent))
    world.respond(world.ask(get(1)))
    world.sent()
    tracemalloc.start()
    try:
        for number in range(4_000):
            world.respond(world.ask(get(number), valve))
            world.sent()
            world.wait(0.0)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 100_000


def test_rfc_7252_section_4_7_a_peer_is_asked_one_thing_after_another() -> None:
    world = World()
    for _ in range(3):
        world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (first,) = world.sent()
    answer = CoapMessage(ACK, codes.CONTENT, first.message_id, first.token, (), b"1")
    world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    (second,) = world.sent()
    world.receive(CoapMessage(ACK, 0, second.message_id))
    (third,) = world.sent()
    world.receive(CoapMessage(RST, 0, third.message_id))
    world.wait(200.0)
    assert world.engine.open_exchanges == 0
    assert len({m.token for m in (first, second, third)}) == 3


def test_what_waits_to_be_asked_is_given_up_like_what_was_asked() -> None:
    world = World()
    numbers = [world.engine.request(PUMP, CoapRequest(codes.GET), world.now) for _ in range(3)]
    world.wait(200.0)
    assert [e.exchange for e in world.engine.events() if isinstance(e, Unanswered)] == numbers
    numbers = [world.engine.request(PUMP, CoapRequest(codes.GET), world.now) for _ in range(3)]
    world.sent()
    world.engine.forget_peer(PUMP)
    assert [e.exchange for e in world.engine.events() if isinstance(e, Unanswered)] == numbers
    assert world.sent() == []
    assert world.engine.open_exchanges == world.engine.shares.own_requests.held == 0


def test_a_stranger_that_is_asked_and_never_answers_does_not_keep_others_from_being_asked() -> None:
    own = Quota(host=2, strangers=3, principal=4, everybody=6, retry_s=93)
    world = World(EngineLimits(shares=dataclasses.replace(ShareLimits(), own_requests=own)))
    other = CoapPeer(("192.0.2.2", 5683), "192.0.2.2")
    for peer in (STRANGER, STRANGER, STRANGER, other, other, PUMP):
        world.engine.request(peer, CoapRequest(codes.GET), world.now)
    assert [e.exchange for e in world.engine.events() if isinstance(e, Unanswered)] == [3, 5]
    assert len(world.sent()) == 3


@pytest.mark.parametrize("message_type", [ACK, CON, NON])
def test_rfc_7252_section_5_4_1_a_response_with_a_critical_option_not_known_is_rejected(
    message_type: int,
) -> None:
    world = World()
    number = world.engine.request(PUMP, CoapRequest(codes.GET, TEMPERATURE), world.now)
    (asked,) = world.sent()
    message_id = asked.message_id if message_type == ACK else 77
    answer = CoapMessage(
        message_type, codes.CONTENT, message_id, asked.token, ((2_053, b""),), b"x"
    )
    world.engine.receive_datagram(answer.encode(), PUMP, world.now)
    (failed,) = world.engine.events()
    assert isinstance(failed, Unanswered)
    assert failed.exchange == number
    assert seen(world.sent()) == ([(RST, 0, 77, b"", b"")] if message_type == CON else [])
