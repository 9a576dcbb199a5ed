"""Observation (RFC 7641) as an observer sees it, notification by notification."""

from __future__ import annotations

import pytest

from coap_engine import codes
from coap_engine.blocks import Block
from coap_engine.codec import ACK, CON, NON, RST, CoapMessage
from coap_engine.errors import UnknownExchangeError
from coap_engine.message import (
    CoapResponse,
    ExchangeEnded,
    Option,
)
from coap_engine.option_numbers import BLOCK2, ETAG, OBSERVE
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
    assert world.engine.events() == [ExchangeEnded(asked.exchange, "reset by the observer")]
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
    assert [type(event) for event in world.engine.events()] == [ExchangeEnded]
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
    assert [type(event) for event in world.engine.events()] == [ExchangeEnded] * 3


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
    assert ExchangeEnded(first.exchange, "observed anew") in events
    assert world.engine.open_exchanges == 1


def part(number: int) -> Option:
    return BLOCK2, Block(number, False, 6).encode()


def rest_of(world: World, first: CoapMessage, message_id: int) -> list[CoapMessage]:
    """Get the blocks after the first one, which came in a notification or as an answer."""
    got = [first]
    while Block.decode(dict(got[-1].options)[BLOCK2]).more:
        assert not world.receive(get(message_id + len(got), bytes([len(got)]), part(len(got))))
        got += world.sent()
    return got


@pytest.mark.parametrize("left_out", [0, 1])
def test_rfc_7959_section_2_6_further_blocks_are_of_the_body_that_was_notified_last(
    left_out: int,
) -> None:
    world = World()
    asked = world.ask(observe())
    bodies = [bytes([number]) * 3_000 for number in range(6)]
    world.respond(asked, CoapResponse(codes.CONTENT, (), bodies[0]))
    world.sent()
    for number in range(left_out):  # the transfer of the first body is left unfinished
        world.receive(get(20 + number, b"\x77", part(1)))
        world.sent()
    for number, body in enumerate(bodies[1:], 1):
        world.respond(asked, CoapResponse(codes.CONTENT, (), body))
        (notified,) = world.sent()
        got = rest_of(world, notified, 100 * number)
        assert b"".join(one.payload for one in got) == body
        assert len({dict(one.options)[ETAG] for one in got}) == 1


def test_a_body_that_is_notified_in_the_middle_of_a_transfer_is_got_whole() -> None:
    world = World()
    asked = world.ask(observe())
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"a" * 3_000))
    world.receive(get(20, b"\x01", part(1)))
    world.sent()
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"b" * 3_000))
    (notified,) = world.sent()
    got = rest_of(world, notified, 30)
    assert b"".join(one.payload for one in got) == b"b" * 3_000


def test_a_notification_of_one_block_leaves_no_older_body_behind() -> None:
    world = World()
    asked = world.ask(observe())
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"a" * 3_000))
    world.respond(asked, CoapResponse(codes.CONTENT, (), b"short"))
    world.sent()
    # The resource is asked, as no body is kept for the rest of which this could be.
    again = world.ask(get(20, b"\x01", part(1)))
    world.respond(again, CoapResponse(codes.CONTENT, (), b"short"))
    assert world.sent()[-1].code == codes.BAD_REQUEST


def test_an_observer_that_has_to_show_an_echo_first_does_not_observe_and_leaves_nothing() -> None:
    world = World()
    asked = world.ask(observe(), STRANGER)
    world.respond(asked, CoapResponse(codes.CONTENT, (), bytes(500)))
    assert [m.code for m in world.sent()] == [codes.UNAUTHORIZED]
    assert world.engine.events() == [ExchangeEnded(asked.exchange, "an Echo was asked for")]
    assert world.engine.open_exchanges == 0
    with pytest.raises(UnknownExchangeError):
        world.respond(asked)
    world.respond(world.ask(get(2), STRANGER), CoapResponse(codes.CONTENT, (), bytes(500)))
    assert world.engine.events() == [], "who observes nothing is not told of an end"


def test_a_reset_of_what_took_the_place_of_a_repeated_notification_ends_the_observation() -> None:
    world = World()
    asked = world.ask(observe(), STRANGER)
    for payload in (b"0", b"1", b"2"):
        world.respond(asked, CoapResponse(codes.CONTENT, (), payload))
    _, older = world.sent()
    world.wait(3.5)
    (newest,) = world.sent()
    world.receive(CoapMessage(RST, 0, older.message_id), STRANGER)
    assert world.engine.open_exchanges == 1
    assert world.engine.counters.ignored == 1
    world.engine.receive_datagram(
        CoapMessage(RST, 0, newest.message_id).encode(), STRANGER, world.now
    )
    assert world.engine.events() == [ExchangeEnded(asked.exchange, "reset by the observer")]
    assert world.engine.open_exchanges == 0
    world.wait(300.0)
    assert world.sent() == []
