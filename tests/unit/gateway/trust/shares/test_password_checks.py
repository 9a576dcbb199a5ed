"""Goal: however many wrong passwords come, a right one is checked soon."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.trust.shares.fair_turns import FairTurns
from gateway.trust.shares.password_checks import PasswordChecks


class Checks:
    """Checks that end when they are told to, and note in which order they began."""

    def __init__(self, at_once: int = 1) -> None:
        self.checks = PasswordChecks(at_once, proved_max=2)
        self.begun: list[str] = []
        self.most = self._running = 0
        self._end = threading.Semaphore(0)

    def client(self, address: str, user: str, *, is_right: bool = False) -> asyncio.Task[object]:
        def check() -> bool:
            self.begun.append(f"{user} at {address}")
            self._running += 1
            self.most = max(self.most, self._running)
            self._end.acquire()
            self._running -= 1
            return is_right

        return asyncio.ensure_future(self.checks.run(address, user, check, lambda: True))

    def end(self, checks: int = 1) -> None:
        self._end.release(checks)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_right_password_is_checked_next_though_a_host_sends_four_hundred_wrong_ones() -> (
    None
):
    made = Checks()
    wrong = [made.client("192.0.2.1", f"guess {number}") for number in range(400)]
    await asyncio.sleep(0)
    right = made.client("192.0.2.2", "alice", is_right=True)
    await until(lambda: made.checks.waiting == 400)
    made.end(3)
    assert await right
    assert made.begun.index("alice at 192.0.2.2") <= 2
    made.end(400)
    assert await asyncio.gather(*wrong) == [False] * 400


async def test_who_has_proved_a_password_of_late_has_its_turn_before_any_number_of_hosts() -> None:
    made = Checks()
    made.end()
    assert await made.client("192.0.2.2", "alice", is_right=True)
    wrong = [made.client(f"198.51.100.{host}", "alice") for host in range(200)]
    await asyncio.sleep(0)
    right = made.client("192.0.2.2", "alice", is_right=True)
    await until(lambda: made.checks.waiting == 200)
    made.end(2)
    assert await right
    assert made.begun.index("alice at 192.0.2.2", 1) == 2
    made.end(200)
    await asyncio.gather(*wrong)


async def test_only_so_many_are_remembered_as_proved() -> None:
    made = Checks()
    made.end(3)
    for user in ("alice", "bob", "carol"):
        assert await made.client("192.0.2.2", user, is_right=True)
    first = made.client("192.0.2.9", "mallory")
    await until(lambda: len(made.begun) == 4)
    waiting = [made.client(f"192.0.2.{host}", "eve") for host in (7, 8)]
    await asyncio.sleep(0)
    again = [made.client("192.0.2.2", user) for user in ("alice", "bob")]
    await until(lambda: made.checks.waiting == 4)
    made.end(5)
    await asyncio.gather(first, *waiting, *again)
    order = [name.partition(" ")[0] for name in made.begun[4:]]
    assert order == ["bob", "eve", "eve", "alice"]


async def test_clients_that_go_away_take_no_turn_and_no_more_checks_run_at_once() -> None:
    made = Checks(at_once=2)
    running = [made.client("192.0.2.1", "mallory") for _ in range(2)]
    await until(lambda: len(made.begun) == 2)
    for _ in range(50):
        gone = made.client("192.0.2.1", "mallory")
        await asyncio.sleep(0)
        gone.cancel()
    for one in running:  # their checks go on
        one.cancel()
    right = made.client("192.0.2.2", "alice", is_right=True)
    await asyncio.sleep(0.01)
    assert len(made.begun) == 2
    made.end(3)
    assert await right
    await until(lambda: made.checks.waiting == 0)
    assert (made.begun[2:], made.most) == (["alice at 192.0.2.2"], 2)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_each_has_its_turn_once_and_nobody_two_before_another_that_waits(
    waiters: list[tuple[str, bool]],
) -> None:
    turns = FairTurns[tuple[str, bool, int]]()
    for number, (whose, has_claim) in enumerate(waiters):
        turns.put(whose, (whose, has_claim, number), has_claim=has_claim)
    assert len(turns) == len(waiters)
    taken = [turns.take() for _ in waiters]
    assert turns.take() is None
    found = [one for one in taken if one is not None]
    assert sorted(found) == sorted((w, c, n) for n, (w, c) in enumerate(waiters))
    for has_claim in (True, False):
        part = [one for one in found if one[1] == has_claim]
        for whose in "abc":
            own = [one[2] for one in part if one[0] == whose]
            assert own == sorted(own)
            at = [place for place, one in enumerate(part) if one[0] == whose]
            for first, second in itertools.pairwise(at):
                behind = {one[0] for one in part[second:]} - {whose}
                assert behind <= {one[0] for one in part[first + 1 : second]}
    claims = [one[1] for one in found]
    assert claims == sorted(claims, reverse=True)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
async def test_passwords_are_checked_at_a_lower_priority_than_all_else() -> None:
    found: list[int] = []

    def check() -> bool:
        found.append(os.getpriority(os.PRIO_PROCESS, 0))
        return True

    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert await PasswordChecks().run("192.0.2.1", "alice", check, lambda: True)
    assert found[0] > own or own == 19
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


async def test_passwords_are_checked_where_no_priority_may_be_lowered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "nice", refuse)
    checks = PasswordChecks()
    assert await checks.run("192.0.2.1", "alice", lambda: True, lambda: True)
    assert not await checks.run("192.0.2.1", "alice", lambda: False, lambda: True)


async def test_a_turn_whose_client_goes_as_it_comes_is_the_next_ones() -> None:
    made = Checks()

    async def gives_way() -> None:
        await made.checks.run("192.0.2.2", "b", lambda: True, lambda: False)
        third.cancel()  # its turn has just come

    first = made.client("192.0.2.1", "a")
    await until(lambda: made.begun == ["a at 192.0.2.1"])
    second = asyncio.ensure_future(gives_way())
    await asyncio.sleep(0)
    third, fourth = made.client("192.0.2.3", "c"), made.client("192.0.2.4", "d")
    await until(lambda: made.checks.waiting == 3)
    made.end(2)
    await asyncio.gather(first, second)
    assert await fourth is False
    assert third.cancelled()
    assert made.begun == ["a at 192.0.2.1", "d at 192.0.2.4"]


async def test_who_may_not_begin_when_its_turn_comes_lets_the_next_one_begin() -> None:
    checks = PasswordChecks(1, proved_max=2)
    assert await checks.run("192.0.2.1", "a", lambda: True, lambda: False) is None
    assert await checks.run("192.0.2.1", "a", lambda: True, lambda: True) is True
