"""Thousands of observers are told of a change, and nobody waits for the last of them."""

from __future__ import annotations

import asyncio

from coap_engine import codes
from coap_engine.message import CoapResponse
from gateway.coap.told_in_turns import TOLD_AT_ONCE, ToldInTurns

MANY = 10 * TOLD_AT_ONCE


def said(text: str) -> CoapResponse:
    return CoapResponse(codes.CONTENT, (), text.encode())


class World:
    """Observers, and what they were told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, bytes, bool]] = []
        self.failed: list[int] = []
        self.in_turns = ToldInTurns(lambda _error, exchange: self.failed.append(exchange))

    def respond(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        if exchange == 3:
            raise ValueError("bad observer")
        self.told.append((exchange, response.payload, is_last))

    def tell_all(self, text: str, *, is_last: bool = False) -> None:
        for exchange in range(MANY):
            self.in_turns.add(exchange, self.respond, said(text), is_last=is_last)
        self.in_turns.go_on()

    async def all_told(self) -> None:
        async with asyncio.timeout(30):
            while len(self.in_turns):
                before = len(self.told)
                await asyncio.sleep(0)
                assert len(self.told) - before <= TOLD_AT_ONCE


async def test_so_many_are_told_in_a_turn_and_one_that_fails_costs_no_other() -> None:
    world = World()
    world.tell_all("1")
    assert len(world.told) == TOLD_AT_ONCE - 1
    await world.all_told()
    assert [exchange for exchange, _, _ in world.told] == [n for n in range(MANY) if n != 3]
    assert world.failed == [3]


async def test_who_waits_is_told_the_newest_alone_and_who_has_gone_nothing() -> None:
    world = World()
    world.tell_all("1")
    first = len(world.told)
    world.in_turns.forget(MANY - 1)
    world.tell_all("2", is_last=True)
    world.in_turns.forget(MANY - 2)
    assert len(world.told) == first, "what is under way goes on in its own turns"
    await world.all_told()
    later = world.told[first:]
    assert all(told == (b"2", True) for _, *rest in later for told in [tuple(rest)])
    assert sorted(one for one, _, _ in later) == [
        *(n for n in range(MANY - 2) if n != 3), MANY - 1,
    ]  # fmt: skip


async def test_whom_the_telling_of_another_has_ended_is_told_nothing() -> None:
    told: list[int] = []

    def respond(exchange: int, _response: CoapResponse, _is_last: bool) -> None:
        told.append(exchange)
        in_turns.forget(exchange + 1)

    in_turns = ToldInTurns(lambda *_: None)
    for exchange in range(5):
        in_turns.add(exchange, respond, said("1"), is_last=False)
    in_turns.go_on()
    assert told == [0, 2, 4]
    assert len(in_turns) == 0
