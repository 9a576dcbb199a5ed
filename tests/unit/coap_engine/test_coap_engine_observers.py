"""What an observer sees, notification by notification."""

from __future__ import annotations

from coap_engine import codes
from coap_engine.codec import ACK, CON, NON, RST, CoapMessage
from coap_engine.errors import UnknownExchangeError
from coap_engine.message import (
    CoapResponse,
    Ended,
)
from coap_engine.option_numbers import OBSERVE
from tests.unit.coap_engine.coap_world import (
    PUMP,
    STRANGER,
    WARM,
    World,
    get,
    observe,
)


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
