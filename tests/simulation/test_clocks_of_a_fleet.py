"""A message's wait is counted in a fleet whose clocks differ, links fail, and one gateway lies."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from tree_handler.batch import Epoch
from tree_handler.clock_readings import DRIFT_BITS
from tree_handler.origin_clocks import NEWS_US, STAMP_US, OriginClocks, stamp
from tree_handler.routing.locator import GatewayLocation

SECOND = 1_000_000
LIE_US = 10**9 * SECOND


@dataclass
class Machine:
    """A gateway with a clock that runs a little too fast or too slow."""

    number: int
    rate: int
    clock_us: int
    epoch: int = 1
    clocks: OriginClocks = field(init=False)
    links: dict[int, int] = field(default_factory=dict)
    """The neighbours, by link."""
    heard: dict[int, set[Epoch]] = field(default_factory=dict)
    """The lives that each neighbour told last that it knows of more than hearsay, by link."""
    told_on_the_way: set[Epoch] = field(default_factory=set)
    """The lives that a neighbour told so while the way to their gateway led through it."""

    @property
    def own(self) -> Epoch:
        return f"gw-{self.number}", self.epoch


@dataclass
class Message:
    stream: Epoch
    stamp_us: int
    accepted_us: int
    """In truth."""


class Fleet:
    """Gateways in a random tree, the last of which, a leaf, may lie."""

    def __init__(self, seed: int, *, lies: bool) -> None:
        self.rng = rng = random.Random(seed)
        count = rng.randrange(3, 7)
        self.liar = count - 1 if lies else -1
        self.now_us = 0
        self.machines = [
            Machine(n, rng.randrange(-240, 241), rng.randrange(10**15)) for n in range(count)
        ]
        inner = count - 1
        self.edges = [(rng.randrange(n), n) for n in range(1, inner)]
        self.edges.append((rng.randrange(inner), inner))
        self.up: dict[tuple[int, int], int] = {}
        self.next_link = 1
        self.messages: list[Message] = []
        for one in self.machines:
            self._start(one)
        for edge in self.edges:
            self.heal(edge)

    # -- what happens ----------------------------------------------------------------------------

    def step(self) -> None:
        rng = self.rng
        draw = rng.random()
        if draw < 0.4:
            self.pass_us(rng.choice((1, 10, 1_000, 100_000)) * rng.randrange(SECOND))
        elif draw < 0.6:
            self.accept(rng.choice(self.machines))
        elif draw < 0.9:
            edge = rng.choice(self.edges)
            self.cut(edge) if edge in self.up else self.heal(edge)
        else:
            self.restart(rng.choice(self.machines))
        self.look()

    def pass_us(self, passed_us: int, but: Machine | None = None) -> None:
        self.now_us += passed_us
        for one in self.machines:
            if one is not but:
                one.clock_us += passed_us + passed_us * one.rate // 1_000_000

    def accept(self, one: Machine) -> None:
        if one.number != self.liar:
            self.messages.append(Message(one.own, stamp(one.clock_us), self.now_us))
            del self.messages[:-30]

    def heal(self, edge: tuple[int, int]) -> None:
        link = self.up[edge] = self.next_link
        self.next_link += 1
        for at, other in (edge, edge[::-1]):
            self.machines[at].links[link] = other
            self.machines[at].heard[link] = set()
            self.machines[at].clocks.link_up(link, self.machines[other].own)
        for at in edge:
            self.tell(self.machines[at], [link])

    def cut(self, edge: tuple[int, int]) -> None:
        link = self.up.pop(edge)
        for at in edge:
            del self.machines[at].links[link], self.machines[at].heard[link]
            self.machines[at].clocks.link_down(link)

    def restart(self, one: Machine) -> None:
        """Its process ends, or its machine is off, or its disk is lost."""
        before = [edge for edge in self.up if one.number in edge]
        for edge in before:
            self.cut(edge)
        known = one.clocks.save(one.clock_us)
        how = self.rng.randrange(3)
        self.pass_us(self.rng.randrange(100 * SECOND), None if how == 0 else one)
        one.epoch += 1
        if how == 2:
            one.clock_us = self.rng.randrange(10**15)
            known = []
        self._start(one)
        one.clocks.load(known)
        for edge in before:
            self.heal(edge)

    def _start(self, one: Machine) -> None:
        one.clocks = OriginClocks(one.own)
        one.told_on_the_way.clear()
        one.clocks.go_by(lambda gateway_id: self.way(one, gateway_id))

    def look(self) -> None:
        """Do what each gateway does now and then."""
        for one in self.machines:
            one.clocks.moved(one.clock_us)
            self._note_who_told(one)
        for one in self.machines:
            self.tell(one, list(one.links))

    def tell(self, one: Machine, links: list[int], of: list[Epoch] | None = None) -> None:
        for link in links:
            told = one.clocks.news(link, one.clock_us, of)
            if one.number == self.liar:
                told = [(name, epoch, clock_us + LIE_US, True) for name, epoch, clock_us, _ in told]
            other = self.machines[one.links[link]]
            for name, epoch, _, is_sure in told:
                (other.heard[link].add if is_sure else other.heard[link].discard)((name, epoch))
            self._note_who_told(other)
            if told and (heard := other.clocks.heard(link, told, other.clock_us)):
                self.tell(other, [each for each in other.links if each != link], heard)

    def _note_who_told(self, one: Machine) -> None:
        for link, lives in one.heard.items():
            for stream in lives - one.told_on_the_way - {one.own}:
                way = self.way(one, stream[0])
                if way is not None and way.link == link:
                    one.told_on_the_way.add(stream)

    # -- what is so --------------------------------------------------------------------------------

    def way(self, one: Machine, gateway_id: str) -> GatewayLocation | None:
        """As the locator knows it."""
        wanted = int(gateway_id.removeprefix("gw-"))
        seen = {one.number}
        queue = deque((link, other) for link, other in one.links.items())
        while queue:
            link, at = queue.popleft()
            if at == wanted:
                return GatewayLocation(link, self.machines[at].epoch)
            seen.add(at)
            queue += [(link, n) for n in self.machines[at].links.values() if n not in seen]
        return None

    def check(self) -> None:
        for one in self.machines:
            if one.number == self.liar:
                continue
            for message in self.messages:
                self._check(one, message)

    def _check(self, one: Machine, message: Message) -> None:
        waited_us = one.clocks.waited_us(message.stream, message.stamp_us, one.clock_us)
        age_us = self.now_us - message.accepted_us
        way = self.way(one, message.stream[0])
        is_told = way is not None and way.epoch == message.stream[1]
        if self.liar >= 0 and not is_told and message.stream not in one.told_on_the_way:
            return  # nobody may be there who knows
        assert waited_us <= age_us
        if is_told:
            late_us = len(self.machines) * NEWS_US + STAMP_US + 3 * (age_us >> DRIFT_BITS)
            assert waited_us >= age_us - late_us


@pytest.mark.parametrize("lies", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_nothing_expires_early_and_what_is_in_reach_not_much_too_late(
    seed: int, lies: bool
) -> None:
    fleet = Fleet(seed, lies=lies)
    for _ in range(60):
        fleet.step()
        fleet.check()
