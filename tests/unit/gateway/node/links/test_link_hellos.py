"""Round trips of hellos: those on an idle link are told to the tree."""

from __future__ import annotations

import asyncio

import pytest

from gateway.node.links import wire
from gateway.node.links.hellos import MAX_BEHIND_DATA, MAX_PINGS, Hellos
from tests.held_objects import held_objects


class HelloLink:
    """A link as `Hellos` needs it; it keeps the packets that are sent."""

    number = 1

    def __init__(self) -> None:
        self.is_behind_data = False
        self.sent: list[wire.LinkPacket] = []

    def send(self, data: bytes) -> None:
        reader = wire.LinkReader()
        reader.feed(data)
        packet = reader.next()
        assert packet is not None
        self.sent.append(packet)


@pytest.fixture
def hellos() -> Hellos:
    made = Hellos()
    made.link_up(1)
    return made


def echoed(
    hellos: Hellos, line: HelloLink, rtt_s: float, *, here: bool, there: bool
) -> float | None:
    """Send a hello and have it echoed; what is told of it."""
    line.is_behind_data = here
    hellos.send(line, b"bpdu", 10.0)
    number, _ = wire.split_ping(line.sent[-1].body)
    reader = wire.LinkReader()
    reader.feed(wire.pong(number, behind_data=there))
    echo = reader.next()
    assert echo is not None
    return hellos.rtt_ms(1, echo.body, 10.0 + rtt_s)


def test_a_round_trip_on_an_idle_link_is_told(hellos: Hellos) -> None:
    assert echoed(hellos, HelloLink(), 0.02, here=False, there=False) == pytest.approx(20)


@pytest.mark.parametrize(("here", "there"), [(True, False), (False, True), (True, True)])
def test_one_behind_data_here_or_there_is_not(hellos: Hellos, here: bool, there: bool) -> None:
    line = HelloLink()
    assert echoed(hellos, line, 0.02, here=False, there=False) is not None
    for _ in range(3 * MAX_BEHIND_DATA):
        assert echoed(hellos, line, 0.5, here=here, there=there) is None


def test_a_link_that_is_busy_from_its_start_is_measured_by_the_shortest(hellos: Hellos) -> None:
    line = HelloLink()
    told = [
        echoed(hellos, line, 0.5 - 0.01 * n, here=True, there=False) for n in range(MAX_BEHIND_DATA)
    ]
    assert told[:-1] == [None] * (MAX_BEHIND_DATA - 1)
    assert told[-1] == pytest.approx(500 - 10 * (MAX_BEHIND_DATA - 1))


def test_an_echo_counts_once_and_only_of_a_hello_that_was_sent(hellos: Hellos) -> None:
    line = HelloLink()
    assert echoed(hellos, line, 0.02, here=False, there=False) is not None
    number, _ = wire.split_ping(line.sent[-1].body)
    assert hellos.rtt_ms(1, number.to_bytes(4, "big"), 11.0) is None
    assert hellos.rtt_ms(1, (number + 1).to_bytes(4, "big"), 11.0) is None


def test_a_neighbour_that_never_echoes_costs_a_bounded_memory(hellos: Hellos) -> None:
    line = HelloLink()
    for _ in range(MAX_PINGS):
        hellos.send(line, b"bpdu", 10.0)
    held = held_objects(hellos)
    for _ in range(2 * MAX_PINGS):
        hellos.send(line, b"bpdu", 10.0)
    assert held_objects(hellos) < 1.5 * held


async def test_an_echo_says_if_it_waits_for_data(hellos: Hellos) -> None:
    await asyncio.sleep(0)
    line = HelloLink()
    line.is_behind_data = True
    with pytest.raises(ValueError, match="BPDU"):
        hellos.answer(line, wire.split_ping(b"\0\0\0\x07x")[0].to_bytes(4, "big"))
    assert wire.split_ping(line.sent[-1].body) == (7, b"\x01")
