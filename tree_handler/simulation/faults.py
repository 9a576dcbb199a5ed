"""Faults of a simulated network, and when they are put right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Self

from light_dataclasses import dataclass
from tree_handler.simulation.gateway import Gateway
from tree_handler.simulation.network import FIRST, SECOND, Clock, Edge, Network
from tree_handler.simulation.traffic import SimulatedTraffic

DAMAGES: Final = 0.25
"""In so many of the drawn runs disks lose some of their log, or are older ones for a while."""


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """The rates and weights of faults. Weights are relative; 0 switches a fault off.

    Attributes:
        rate_per_s: faults per second of virtual time, in the mean.
        stability_s: least time between two faults.
        outage_s: mean time until a fault is put right.
        behead: the root that most gateways follow is killed.
        kill: a process is killed; its neighbours get socket errors.
        power_cut: a gateway stops without a word.
        cut: an edge is cut with a socket error at both ends.
        one_way: an edge goes silent in one direction.
        silent: an edge goes silent in both directions.
        reset: one connection is reset.
        pause: a process stands still.
        lose_disk: a gateway stops without a word and comes back with an empty disk.
        full_disk: nothing can be appended for a while.
        lossy: an edge loses packets, which TCP sends again.
        slow: an edge carries so little that the links over it are full.
        stall: an edge goes silent, and its connections end in a reset.
        second_link: a gateway dials a neighbour though it has a link to it.
        dial_self: a gateway dials its own address.
        lose_tail: a gateway stops without a word, and its log has lost its last batches.
        lose_page: likewise, some batches in the middle.
        swap_card: likewise, and an older copy of its disk takes the place of the one that is there,
            which comes back the next time.
        rot: some batches of a gateway that runs can't be read any more, which it finds.
        lasting: probability that what is broken at the end stays so.

    """

    rate_per_s: float = 1.0
    stability_s: float = 0.0
    outage_s: float = 1.0
    behead: float = 2.0
    kill: float = 2.0
    power_cut: float = 1.0
    cut: float = 2.0
    one_way: float = 1.0
    silent: float = 1.0
    reset: float = 2.0
    pause: float = 1.0
    lose_disk: float = 0.5
    full_disk: float = 0.5
    lossy: float = 1.0
    slow: float = 1.0
    stall: float = 0.5
    second_link: float = 0.5
    dial_self: float = 0.2
    lose_tail: float = 0.0
    lose_page: float = 0.0
    swap_card: float = 0.0
    rot: float = 0.0
    lasting: float = 0.3

    @classmethod
    def drawn(cls, chance: random.Random, disks: random.Random | None) -> Self:
        """Return the options of a seed.

        Args:
            chance: for all but what happens to disks.
            disks: for that, so that all else is as it was drawn without; None if disks stay whole.

        """
        damage = 1.0 if disks is not None and disks.random() < DAMAGES else 0.0
        return cls(
            rate_per_s=chance.choice((0.5, 2.0, 8.0)),
            outage_s=chance.choice((0.1, 0.7, 2.0)),
            lasting=chance.choice((0.0, 0.3)),
            lose_tail=damage,
            lose_page=damage,
            swap_card=damage,
            rot=damage,
        )

    def with_damaged_disks(self, disks: random.Random) -> Self:
        """Return these, and in some runs disks that lose some of their log, or are older ones for a
        while."""
        if disks.random() >= DAMAGES:
            return self
        return replace(self, lose_tail=1.0, lose_page=1.0, swap_card=1.0, rot=1.0)


class Faults:
    """Breaks things and puts them right.

    Args:
        options: how often what.
        clock: virtual time.
        network: whose edges are broken.
        gateways: the present lives, by id; a gateway that is down is not in it.
        start: starts the next life of a gateway.
        traffic: whose disks fill and are lost.
        random_: the only source of chance.

    """

    def __init__(
        self,
        options: FaultOptions,
        clock: Clock,
        network: Network,
        gateways: dict[str, Gateway],
        *,
        start: Callable[[str], None],
        traffic: SimulatedTraffic,
        random_: random.Random,
    ) -> None:
        self.kinds: Counter[str] = Counter()
        """The number of faults, by kind."""
        self.last_s = 0.0
        """The time when something last broke or was put right."""
        self._options = options
        self._clock = clock
        self._network = network
        self._gateways = gateways
        self._start = start
        self._traffic = traffic
        self._random = random_
        self._down: set[str] = set()
        self._over = False
        self._until_s = 0.0
        self._kinds: dict[str, Callable[[], None]] = {
            "behead": self._behead,
            "kill": lambda: self._stop(silently=False),
            "power_cut": lambda: self._stop(silently=True),
            "cut": lambda: self._break(self._network.cut),
            "one_way": lambda: self._break(self._silence_one_way),
            "silent": lambda: self._break(self._silence),
            "reset": self._reset,
            "pause": self._pause,
            "lose_disk": lambda: self._damage(self._traffic.lose_disk),
            "full_disk": self._fill_disk,
            "lossy": lambda: self._break(self._lossy),
            "slow": lambda: self._break(self._slow),
            "stall": self._stall,
            "second_link": self._second_link,
            "dial_self": self._dial_self,
            "lose_tail": lambda: self._damage(self._traffic.lose_tail),
            "lose_page": lambda: self._damage(self._traffic.lose_page),
            "swap_card": lambda: self._damage(self._traffic.swap_card),
            "rot": self._rot,
        }
        self._weights = [getattr(options, kind) for kind in self._kinds]

    def begin(self, until_s: float) -> None:
        """Let the first fault come; no gateway stands still for longer than until ``until_s``."""
        self._until_s = until_s
        if self._options.rate_per_s > 0 and sum(self._weights) > 0:
            self._clock.at(self._clock.now + self._wait_s(), self._strike)

    def end(self) -> None:
        """Break nothing more; most of what is broken is put right now, some of it stays."""
        self._over = True
        self.last_s = self._clock.now
        for edge in self._network.edges:
            lossy = edge.loss or edge.message_s
            if lossy or (not edge.usable and not self._lasts()):
                self._network.heal(edge)
        for gateway_id in sorted(self._down):
            if not self._lasts():
                self._restart(gateway_id)

    def _lasts(self) -> bool:
        return self._random.random() < self._options.lasting

    def _wait_s(self) -> float:
        return self._options.stability_s + self._random.expovariate(self._options.rate_per_s)

    def _strike(self) -> None:
        if self._over:
            return
        self.last_s = self._clock.now
        kind = self._random.choices(list(self._kinds), self._weights)[0]
        self.kinds[kind] += 1
        self._kinds[kind]()
        self._clock.at(self._clock.now + self._wait_s(), self._strike)

    def _after_outage(self, repair: Callable[[], None]) -> None:
        def put_right() -> None:
            if not self._over:
                self.last_s = self._clock.now
                repair()

        outage_s = self._random.expovariate(1 / self._options.outage_s)
        self._clock.at(self._clock.now + outage_s, put_right)

    def _behead(self) -> None:
        followed = Counter(gateway.tree.root_id for gateway in self._gateways.values())
        for root_id, _ in followed.most_common(1):
            if root_id in self._gateways:
                self._end_life(root_id, silently=False)

    def _stop(self, *, silently: bool) -> None:
        if self._gateways:
            self._end_life(self._random.choice(sorted(self._gateways)), silently=silently)

    def _end_life(self, gateway_id: str, *, silently: bool) -> None:
        self._gateways.pop(gateway_id).stop(silently=silently)
        self._down.add(gateway_id)
        self._after_outage(lambda: self._restart(gateway_id))

    def _restart(self, gateway_id: str) -> None:
        if gateway_id in self._down:
            self._down.discard(gateway_id)
            self._start(gateway_id)

    def _break(self, how: Callable[[Edge], None]) -> None:
        edge = self._random.choice(self._network.edges)
        how(edge)
        self._after_outage(lambda: self._network.heal(edge))

    def _silence_one_way(self, edge: Edge) -> None:
        self._network.silence(edge, self._random.choice((FIRST, SECOND)))

    def _silence(self, edge: Edge) -> None:
        self._network.silence(edge, FIRST)
        self._network.silence(edge, SECOND)

    def _reset(self) -> None:
        if self._network.connections:
            self._network.reset(self._random.choice(self._network.connections))

    def _pause(self) -> None:
        if self._gateways:
            gateway = self._gateways[self._random.choice(sorted(self._gateways))]
            until_s = self._clock.now + self._random.expovariate(1 / self._options.outage_s)
            gateway.paused_until_s = max(gateway.paused_until_s, min(until_s, self._until_s))

    def _damage(self, how: Callable[[str], None]) -> None:
        if self._gateways:
            gateway_id = self._random.choice(sorted(self._gateways))
            self._end_life(gateway_id, silently=True)
            how(gateway_id)

    def _rot(self) -> None:
        if self._gateways:
            self._traffic.rot(self._random.choice(sorted(self._gateways)))

    def _fill_disk(self) -> None:
        if self._gateways:
            disk = self._traffic.disks[self._random.choice(sorted(self._gateways))]
            until_s = self._clock.now + self._random.expovariate(1 / self._options.outage_s)
            disk.full_until_s = max(disk.full_until_s, min(until_s, self._until_s))

    def _lossy(self, edge: Edge) -> None:
        edge.loss = self._random.uniform(0.02, 0.3)

    def _slow(self, edge: Edge) -> None:
        edge.message_s = self._random.uniform(0.02, 0.2)

    def _stall(self) -> None:
        edge = self._random.choice(self._network.edges)
        self._silence(edge)

        def give_up() -> None:
            self._network.cut(edge)  # what was held is lost
            self._network.heal(edge)

        self._after_outage(give_up)

    def _second_link(self) -> None:
        edge = self._random.choice(self._network.edges)
        first, second = self._random.sample(edge.ids, 2)
        if first in self._gateways:
            self._network.dial(edge, self._gateways[first], lambda: self._gateways.get(second))

    def _dial_self(self) -> None:
        if self._gateways:
            gateway_id = self._random.choice(sorted(self._gateways))
            own = Edge((gateway_id, gateway_id), 0.0001, 0.0)
            gateway = self._gateways[gateway_id]
            self._network.dial(own, gateway, lambda: self._gateways.get(gateway_id))
