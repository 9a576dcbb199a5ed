"""Many connections of one user take turns with those of other users."""

from __future__ import annotations

import asyncio

from gateway.trust.shares.user_turns import LITTLE_BYTES, PART_S, SMALL_PART_S, UserTurns
from tests.held_objects import held_objects

MUCH = LITTLE_BYTES + 1


async def a_round() -> None:
    await asyncio.sleep(0)


async def test_who_has_had_its_part_waits_for_the_next_round_and_others_do_not() -> None:
    turns = UserTurns()
    assert not turns.heard("greedy", MUCH, 0.0)
    turns.took("greedy", PART_S)
    assert turns.heard("greedy", MUCH, 0.0)
    assert not turns.heard("greedy", LITTLE_BYTES, 0.0)
    assert not turns.heard("modest", MUCH, 0.0)
    await a_round()
    assert not turns.heard("greedy", MUCH, 0.0)


async def test_parts_are_small_while_several_users_are_there_and_for_a_moment_after() -> None:
    turns = UserTurns()
    turns.heard("one", MUCH, 0.0)
    assert turns.part_s == PART_S
    turns.heard("two", MUCH, 0.1)
    assert turns.part_s == SMALL_PART_S
    turns.heard("two", MUCH, 1.0)
    assert turns.part_s == SMALL_PART_S
    turns.heard("two", MUCH, 1.2)
    assert turns.part_s == PART_S


async def test_one_of_each_user_goes_on_in_a_round_in_the_order_in_which_they_came() -> None:
    turns = UserTurns()
    held = held_objects(turns)
    greedy = [turns.turn("greedy") for _ in range(3)]
    modest = turns.turn("modest")
    greedy[0].cancel()
    await a_round()
    assert [turn.done() for turn in greedy] == [True, True, False]
    assert modest.done()
    await a_round()
    assert all(turn.done() for turn in greedy)
    assert held_objects(turns) == held
