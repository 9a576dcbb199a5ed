"""Requests between gateways through cuts, crashes and copies, in virtual time.

The gateways stand in a drawn tree whose links break and heal; each has the cores that a real one
has (`routing.locator`, `routing.direct`, `remote_query`, `remote_watches`). Where there are
sleepers, their clocks stand still for a while. They write to each other, read and observe. Somebody
keeps copies of requests, and says them again later. Checked is that no answer is of another gateway
than the one that was asked, that no write is carried out twice, nor one that was refused, that all
that is asked ends, and that who observes is told the value that stands in the end, or that there is
nothing more to tell.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tree_handler.remote.query import Publication
from tree_handler.routing.direct import DirectMessage
from tree_handler.routing.locator import ReachUpdate
from tree_handler.simulation.querying_gateway import QueryingGateway, RemoteOutcome

STORM_S: Final = 120.0
QUIET_S: Final = 200.0
"""After the storm: longer than any lease, deadline or grace."""
_STEPS: Final = {"write": 6, "read": 3, "observe": 3, "leave": 1, "cut": 1, "crash": 0.5}
_SLEEPERS: Final = _STEPS | {"sleep": 0.3}
"""Events, and how often each comes beside the rest."""


class RemoteWorld:
    """The gateways, their links, and the time.

    Args:
        seed: of all that is drawn.
        count: gateways.
        sleepers: whether some sleep now and then.
        loses: the share of messages that are lost though the link stands, as where its queue is
            full.

    """

    def __init__(
        self, seed: int, count: int, *, sleepers: bool = False, loses: float = 0.0
    ) -> None:
        self._steps = _SLEEPERS if sleepers else _STEPS
        self.now = 0.0
        self.outcome = RemoteOutcome()
        self.written: set[bytes] = set()
        self.refused: set[bytes] = set()
        self._random = random.Random(seed)  # of a simulation
        self._loses = loses
        self._losses = random.Random(f"losses {seed}")  # a seed, no secret
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        names = [f"gw-{number}" for number in range(count)]
        self._gateways = {name: QueryingGateway(self, name, 1) for name in names}
        self._edges = [
            (names[number], names[self._random.randrange(number)]) for number in range(1, count)
        ]
        self._up: dict[tuple[str, str], int] = {}
        """The links that are up, both ways, and how often each has come up."""
        self._arrives: dict[tuple[str, str], float] = {}
        self._numbers = {edge: 2 * at for at, edge in enumerate(self._edges)}
        self._numbers |= {(b, a): 2 * at + 1 for at, (a, b) in enumerate(self._edges)}
        self._ends = {number: edge for edge, number in self._numbers.items()}

    def run(self) -> RemoteOutcome:
        """Run a storm and a quiet time after it."""
        for edge in self._edges:
            self._link_up(edge)
        self._later(1.0, self._storm)
        self._go_on(STORM_S)
        for edge in self._edges:
            self._link_up(edge)
        self._go_on(STORM_S + QUIET_S)
        self._check()
        return self.outcome

    def say(self, sender: QueryingGateway, publication: Publication) -> None:
        """Send a message of a gateway's."""
        receiver, topic, payload = publication.receiver, publication.topic, publication.payload
        if self._losses.random() >= self._loses:
            self._send(sender, publication)
        if "query" in topic and self._random.random() < 0.2:
            self.outcome.copies += 1
            self._later(
                self._random.uniform(0.1, 20.0),
                lambda: self._say_again(receiver, topic, payload),
            )

    def _send(self, sender: QueryingGateway, publication: Publication) -> None:
        receiver = publication.receiver
        found = sender.direct.send(receiver, publication.topic, publication.payload)
        if found is None:
            for neighbour in self._neighbours(sender.name):
                self._flood(sender.name, neighbour, receiver, publication)
        else:
            self._over_link(sender, *found)

    def _say_again(self, receiver: str, topic: str, payload: bytes) -> None:
        gateway = self._gateways[receiver]
        if not gateway.is_asleep:
            gateway.receive(topic, payload)

    # -- links -----------------------------------------------------------------------------------

    def _over_link(self, sender: QueryingGateway, link: int, data: bytes) -> None:
        _, neighbour = self._ends[link]

        def arrive() -> None:
            receiver = self._gateways[neighbour]
            came = receiver.direct.receive(self._numbers[neighbour, sender.name], data)
            if isinstance(came, DirectMessage):
                receiver.receive(came.topic, came.payload)
            elif came is not None:
                self._over_link(receiver, *came)

        self._carry(sender.name, neighbour, arrive)

    def _flood(self, sender: str, neighbour: str, target: str, message: Publication) -> None:
        def arrive() -> None:
            if neighbour == target:
                self._gateways[neighbour].receive(message.topic, message.payload)
            for onward in self._neighbours(neighbour):
                if onward != sender:
                    self._flood(neighbour, onward, target, message)

        self._carry(sender, neighbour, arrive)

    def _carry(self, sender: str, receiver: str, arrive: Callable[[], None]) -> None:
        """Deliver over a link, in order, unless it breaks meanwhile."""
        way = (sender, receiver)
        life = self._up.get(way)
        if life is None:
            return
        at = max(self.now + self._random.uniform(0.001, 0.05), self._arrives.get(way, 0.0))
        self._arrives[way] = at

        def deliver() -> None:
            if self._up.get(way) == life:
                arrive()

        self._later(at - self.now, deliver)

    def _neighbours(self, name: str) -> list[str]:
        return [receiver for sender, receiver in self._up if sender == name]

    def _link_up(self, edge: tuple[str, str]) -> None:
        if edge in self._up or any(self._gateways[name].is_asleep for name in edge):
            return
        self._count += 1
        for way in (edge, (edge[1], edge[0])):
            self._up[way] = self._count
        for name in edge:
            self._forward(name)

    def _link_down(self, edge: tuple[str, str]) -> None:
        if edge not in self._up:
            return
        for way in (edge, (edge[1], edge[0])):
            del self._up[way]
        for name, other in (edge, (edge[1], edge[0])):
            self._tell(name, self._gateways[name].locator.link_down(self._numbers[name, other]))

    def _forward(self, name: str) -> None:
        links = {self._numbers[name, other] for other in self._neighbours(name)}
        self._tell(name, self._gateways[name].locator.forwards(links))

    def _tell(self, name: str, news: Mapping[int, ReachUpdate]) -> None:
        for link, behind in news.items():
            _, neighbour = self._ends[link]

            def arrive(neighbour: str = neighbour, behind: ReachUpdate = behind) -> None:
                back = self._numbers[neighbour, name]
                self._tell(neighbour, self._gateways[neighbour].locator.receive(back, behind))

            self._carry(name, neighbour, arrive)
        self._gateways[name].moved()

    # -- what happens ----------------------------------------------------------------------------

    def _storm(self) -> None:
        if self.now >= STORM_S:
            return
        draw = self._random
        asker, target = draw.sample(list(self._gateways.values()), 2)
        if asker.is_asleep:
            self._later(draw.expovariate(3.0), self._storm)
            return
        match draw.choices(tuple(self._steps), tuple(self._steps.values())):
            case ["write"]:
                self._count += 1
                asker.write(target.name, b"%d;" % self._count)
            case ["read"]:
                asker.read(target.name)
            case ["observe"]:
                self._count += 1
                asker.observe(target.name, self._count)
            case ["leave"] if asker.targets:
                asker.leave(draw.choice(sorted(asker.targets)))
            case ["cut"]:
                edge = draw.choice(self._edges)
                self._link_down(edge)
                self._later(draw.uniform(0.1, 25.0), lambda: self._link_up(edge))
            case ["crash"]:
                self._crash(asker)
            case ["sleep"]:
                self._sleep(asker, draw.uniform(10.0, 40.0))
        self._later(draw.expovariate(3.0), self._storm)

    def _crash(self, gateway: QueryingGateway) -> None:
        name = gateway.name
        edges = [edge for edge in self._edges if name in edge and edge in self._up]
        for edge in edges:
            self._link_down(edge)
        self._gateways[name] = QueryingGateway(self, name, gateway.epoch + 1)
        for edge in edges:
            self._later(self._random.uniform(0.5, 10.0), partial(self._link_up, edge))

    def _sleep(self, gateway: QueryingGateway, duration_s: float) -> None:
        edges = [edge for edge in self._edges if gateway.name in edge]
        for edge in edges:
            self._link_down(edge)
        gateway.sleep()

        def wake() -> None:
            gateway.wake()
            for edge in edges:
                self._link_up(edge)

        self._later(duration_s, wake)

    def _later(self, delay_s: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_s, self._count, what))

    def _go_on(self, until: float) -> None:
        while True:
            due = min((self._due(one) for one in self._gateways.values()), default=math.inf)
            event = self._events[0][0] if self._events else math.inf
            if min(due, event) > until:
                self.now = until
                return
            self.now = max(self.now, min(due, event))
            if event <= due:
                heapq.heappop(self._events)[2]()
            else:
                for gateway in list(self._gateways.values()):
                    if self._due(gateway) <= self.now:
                        gateway.tick()

    def _due(self, gateway: QueryingGateway) -> float:
        return gateway.next_timer()

    def _check(self) -> None:
        found = self.outcome.violations
        found += [f"{one!r} was refused and carried out" for one in self.refused & self.written]
        for gateway in self._gateways.values():
            if gateway.asked:
                found.append(f"{gateway.name} waits for {sorted(gateway.asked)} for ever")
            if gateway.watches.observers != len(gateway.targets):
                found.append(f"{gateway.name} has forgotten who observes")
            for observer, target in gateway.targets.items():
                told, right = gateway.told.get(observer), self._gateways[target].content
                if told != right:
                    found.append(f"{gateway.name} told {told!r} of {target}, which has {right!r}")
