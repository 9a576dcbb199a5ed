"""What goes wrong in a simulated network, and when it is put right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tree_handler.simulation_gateway import Gateway
from tree_handler.simulation_network import FIRST, SECOND, Clock, Edge, Network


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """How often what goes wrong. Weights are relative to each other; 0 switches a fault off.

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
    lasting: float = 0.3


class Faults:
    """Breaks things and puts them right.

    Args:
        options: how often what.
        clock: virtual time.
        network: whose edges are broken.
        gateways: the present lives, by id; a gateway that is down is not in it.
        start: starts the next life of a gateway.
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
        random_: random.Random,
    ) -> None:
        self.count = 0
        """How many faults there were."""
        self.last_s = 0.0
        """When something last broke or was put right."""
        self._options = options
        self._clock = clock
        self._network = network
        self._gateways = gateways
        self._start = start
        self._random = random_
        self._down: set[str] = set()
        self._over = False
        self._until_s = 0.0
        self._kinds: list[Callable[[], None]] = [
            self._behead,
            lambda: self._stop(silently=False),
            lambda: self._stop(silently=True),
            lambda: self._break(self._network.cut),
            lambda: self._break(self._silence_one_way),
            lambda: self._break(self._silence),
            self._reset,
            self._pause,
        ]
        o = options
        self._weights = [
            o.behead,
            o.kill,
            o.power_cut,
            o.cut,
            o.one_way,
            o.silent,
            o.reset,
            o.pause,
        ]

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
            if not edge.usable and not self._lasts():
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
        self.count += 1
        self.last_s = self._clock.now
        self._random.choices(self._kinds, self._weights)[0]()
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
