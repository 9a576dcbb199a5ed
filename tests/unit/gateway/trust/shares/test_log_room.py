"""Senders wait while too much of their data waits for the log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gateway.trust.shares.log_room import SHARED_BYTES, LogRoom
from gateway.trust.shares.user_turns import LITTLE_BYTES, UserTurns
from tests.held_objects import held_objects

LIMIT_BYTES = 8 * SHARED_BYTES
MUCH = LITTLE_BYTES + 1


class Socket:
    is_read = True

    def stall(self) -> None:
        self.is_read = False

    def resume(self) -> None:
        self.is_read = True


@dataclass(frozen=True)
class Sender:
    owner: str
    channel: Socket = field(default_factory=Socket)


async def rounds() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


class Queue:
    """Counts what waits for the log, as who commits does."""

    def __init__(self, turns: UserTurns) -> None:
        self.room = LogRoom(LIMIT_BYTES, turns)
        self.waiting_bytes = 0

    def took(self, size_bytes: int, sender: Sender) -> None:
        self.waiting_bytes += size_bytes
        if self.waiting_bytes > self.room.free_bytes:
            self.room.hold(self.waiting_bytes, [sender])

    def gave(self, size_bytes: int) -> None:
        self.waiting_bytes -= size_bytes
        assert self.room.is_holding
        self.room.let_go(self.waiting_bytes)


def shared_turns() -> UserTurns:
    turns = UserTurns()
    for user in ("modest", "greedy"):
        turns.heard(user, MUCH, 0.0)
    return turns


async def test_a_busy_user_goes_on_when_the_log_has_most_of_what_it_brought() -> None:
    turns = shared_turns()
    queue = Queue(turns)
    queue.took(SHARED_BYTES + 1, Sender("greedy"))
    greedy, modest = turns.turn("greedy"), turns.turn("modest")
    await rounds()
    assert (greedy.done(), modest.done()) == (False, True)
    assert turns.heard("greedy", MUCH, 0.0)
    assert not turns.heard("greedy", LITTLE_BYTES, 0.0)
    assert not turns.heard("modest", MUCH, 0.0)
    queue.gave(SHARED_BYTES // 4)
    await rounds()
    assert not greedy.done()
    queue.gave(SHARED_BYTES // 2)
    await rounds()
    assert greedy.done()
    assert not turns.heard("greedy", MUCH, 0.0)


async def test_a_user_who_is_alone_waits_for_the_log_at_its_limit_only() -> None:
    turns = UserTurns()
    turns.heard("alone", MUCH, 0.0)
    queue, sender = Queue(turns), Sender("alone")
    queue.took(LIMIT_BYTES, sender)
    turn = turns.turn("alone")
    await rounds()
    assert turn.done()
    assert sender.channel.is_read
    queue.took(1, sender)
    assert not sender.channel.is_read
    queue.gave(LIMIT_BYTES // 2)
    assert not sender.channel.is_read
    queue.gave(1)
    assert sender.channel.is_read


async def test_a_row_whose_connections_are_gone_is_forgotten_when_the_log_goes_on() -> None:
    turns = shared_turns()
    held = held_objects(turns)
    queue = Queue(turns)
    queue.took(SHARED_BYTES + 1, Sender("greedy"))
    turns.turn("greedy").cancel()
    await rounds()
    queue.gave(SHARED_BYTES + 1)
    await rounds()
    assert not queue.room.is_holding
    assert held_objects(turns) == held


async def test_so_much_may_wait_of_several_users_and_half_of_it_lets_them_go() -> None:
    turns = shared_turns()
    room, one, other = LogRoom(LIMIT_BYTES, turns), Sender("greedy"), Sender("modest")
    room.hold(SHARED_BYTES, [one])
    assert (room.is_holding, turns.held) == (False, set())
    room.hold(SHARED_BYTES + 1, [one])
    assert (room.is_holding, turns.held) == (True, {"greedy"})
    room.let_go(SHARED_BYTES // 2 + 1)
    assert (room.is_holding, turns.held) == (True, {"greedy"})
    room.hold(LIMIT_BYTES + 1, [one, other])
    assert (one.channel.is_read, other.channel.is_read) == (False, False)
    room.let_go(LIMIT_BYTES // 2)
    assert (one.channel.is_read, other.channel.is_read) == (True, True)
    assert (room.is_holding, turns.held) == (True, {"greedy", "modest"})
    room.let_go(SHARED_BYTES // 2)
    assert (room.is_holding, turns.held) == (False, set())


async def test_a_room_that_is_smaller_than_what_users_share_holds_at_its_own_limit() -> None:
    room, sender = LogRoom(100, UserTurns()), Sender("alone")
    assert room.free_bytes == 100
    assert LogRoom(LIMIT_BYTES, UserTurns()).free_bytes == SHARED_BYTES
    room.hold(101, [sender])
    assert not sender.channel.is_read
    sender.channel.resume()
    room.hold(102, [sender])
    assert sender.channel.is_read  # it is stalled once
    room.let_go(50)
    assert not room.is_holding
