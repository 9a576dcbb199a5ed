"""Goal: whoever asks and observes a fleet that is disturbed is told nothing wrong, and soon again.

Method: at every gateway somebody reads, writes and observes every gateway, and reads all at once.
Meanwhile gateways are killed, cut off and moved, the head of all first. Each answer names its
gateway; each write has a value of its own, and actuators note them in files, which outlive kills.
A write that was not answered is asked again under its name, at one gateway after the other.
What is measured is the time from the fault (for who asks or is asked there: from its end) to the
next good answer of each pair.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from asked_fleet import AskedFleet, AskedGateway
from chain import CONVERGE_S
from watchers import Account, Pair, Watchers, percentiles, unkept

from tree_handler.members.place import Place

PLACES = [
    *(Place("", ""), Place("north", ""), Place("north", "a")),
    *(Place("south", ""), Place("south", "b"), Place("south", "b")),
]
COUNT, SOAK_COUNT = 4, 6
DOWN_S = 2.0
HELLO_S = 0.2
"""A neighbour that is cut off is dead long before that ends."""
FAULTS = ("kill", "cut", "move")
SOAK_FAULTS = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that one gateway was given.

    Attributes:
        kind: one of `FAULTS`.
        victim: its name.
        began: when, by the monotonic clock.
        ended: likewise.

    """

    kind: str
    victim: str
    began: float
    ended: float

    def since(self, pair: Pair) -> float:
        """Return the time from which on a pair should be answered again."""
        return self.ended if self.victim in pair or "*" in pair else self.began


async def disturb(fleet: AskedFleet, kind: str, victim: AskedGateway, place: Place) -> Fault:
    """Kill or cut off one gateway and take that back, or move it to a place."""
    began = time.monotonic()
    if kind == "kill":
        victim.kill()
        await victim.ended()
        await asyncio.sleep(DOWN_S)
        await victim.start()
    elif kind == "cut":
        fleet.cut_off(victim)
        await asyncio.sleep(DOWN_S)
        fleet.heal()
    else:
        victim.move(place)
    return Fault(kind, victim.name, began, time.monotonic())


async def all_answered(fleet: AskedFleet, account: Account, fault: Fault) -> dict[Pair, float]:
    """Return how long each pair waited, once all have good answers."""
    names = [one.name for one in fleet.gateways]
    pairs = [(entry, one) for entry in names for one in (*names, "*")]
    waited: dict[Pair, float] = {}
    async with asyncio.timeout(CONVERGE_S):
        while len(waited) < len(pairs):
            await asyncio.sleep(0.05)
            for pair in pairs:
                since = fault.since(pair)
                came = account.first_good(pair, since)
                if pair not in waited and came is not None:
                    waited[pair] = came - since
    return waited


@pytest.fixture
async def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AskedFleet]:
    count = SOAK_COUNT if request.config.getoption("--soak") else COUNT
    async with AskedFleet(tmp_path, PLACES[:count], HELLO_S) as made:
        yield made


async def test_no_answer_is_of_a_wrong_gateway_and_no_write_is_carried_out_twice(
    fleet: AskedFleet, request: pytest.FixtureRequest
) -> None:
    config = request.config
    drawn = random.Random(config.getoption("--seed"))
    faults = [*zip(FAULTS, fleet.gateways, strict=False)]
    if config.getoption("--soak"):
        faults += [(drawn.choice(FAULTS), drawn.choice(fleet.gateways)) for _ in range(SOAK_FAULTS)]
    watchers, times = Watchers(fleet), dict[tuple[str, str], list[float]]()
    async with watchers.watching() as account:
        begun = time.monotonic()
        await all_answered(fleet, account, Fault("start", "", begun, begun))
        for kind, victim in faults:
            place = drawn.choice([place for place in PLACES if place != victim.place])
            fault = await disturb(fleet, kind, victim, place)
            for pair, waited_s in (await all_answered(fleet, account, fault)).items():
                who = "all" if "*" in pair else "there" if victim.name in pair else "others"
                times.setdefault((kind, who), []).append(waited_s)
        await watchers.stop_writing()
        await all_told(fleet, account)
    for (kind, who), found in sorted(times.items()):
        print(f"{kind:5} {who:7} {percentiles(found)}")  # noqa: T201
    print(f"{len(account.written)} writes, answers: {sorted(account.codes.items())}")  # noqa: T201
    print(f"{account.done_when_asked_again} of them done when asked again")  # noqa: T201
    assert not unkept(account, fleet)
    assert all(one.effects for one in fleet.gateways)


async def all_told(fleet: AskedFleet, account: Account) -> None:
    """Wait until each observer was told the value that stands."""
    last = {one.name: float(list(one.effects)[-1]) for one in fleet.gateways}

    def behind() -> list[str]:
        return [
            f"{pair} told {told[-1]}, {last[pair[1]]} stands"
            for pair, told in account.told.items()
            if told[-1] != last[pair[1]]
        ]

    deadline = time.monotonic() + CONVERGE_S
    while behind() and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    assert not behind()
    assert len(account.told) == len(fleet.gateways) ** 2
