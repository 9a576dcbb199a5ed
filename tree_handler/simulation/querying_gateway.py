"""One gateway of a simulation of requests between gateways, and what came of a run."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Final, Protocol

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.remote.asking import Lease
from tree_handler.remote.query import (
    SERVICE_UNAVAILABLE,
    Execute,
    Publication,
    QueryAnswer,
    RemoteQueries,
    Stop,
    TimedOut,
)
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.seals import RemoteSeals
from tree_handler.remote.watches import (
    BeginWatch,
    EndWatch,
    Notify,
    RemoteWatches,
    WatchAction,
    WatchKey,
)
from tree_handler.routing.direct import Direct
from tree_handler.routing.locator import Locator
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

DEADLINE_S: Final = 5.0
LEASE_S: Final = 60.0
_ROUNDING_S: Final = 1e-6
"""A clock that has stood still is a little less than the time that was waited for on it."""
_READ: Final = ResourceRequest("GET", ("value",))
_TREE: Final = "model"


@dataclass(slots=True)
class RemoteOutcome:
    """The outcome of a run.

    Attributes:
        violations: what should not have been.
        answered: queries that had their answers.
        ended: queries that had none.
        told: notifications.
        copies: of requests that were said again.

    """

    violations: list[str] = field(default_factory=list)
    answered: int = 0
    ended: int = 0
    told: int = 0
    copies: int = 0


class QueryingWorld(Protocol):
    """The world that a gateway lives in.

    Attributes:
        now: the time, in seconds.
        outcome: what came of the run so far.
        written: the bodies of all writes that were carried out.
        refused: those of which an asker was told that they were not.

    """

    now: float
    outcome: RemoteOutcome
    written: set[bytes]
    refused: set[bytes]

    def say(self, sender: QueryingGateway, publication: Publication) -> None:
        """Send a message of a gateway's."""


class QueryingGateway:
    """One life of one gateway.

    Args:
        world: where it is.
        name: its id.
        epoch: its life.

    """

    def __init__(self, world: QueryingWorld, name: str, epoch: int) -> None:
        self.name = name
        self.epoch = epoch
        self.locator = Locator(name, epoch)
        self.direct = Direct(name, self.locator)
        seals = RemoteSeals(ModelSigner(name), ModelRing(), _TREE)
        self.queries = RemoteQueries(name, epoch, seals=seals, way_to=self.locator.way_to)
        self.watches = RemoteWatches(LEASE_S)
        self.value = 0
        self.asked: dict[str, tuple[str, bytes]] = {}
        """The target and the body of each query that waits for its one answer."""
        self.observing: dict[str, int] = {}
        """The watch of each query that is told of changes."""
        self.subscribed: dict[int, str] = {}
        self.told: dict[int, bytes] = {}
        """The last body that each observer was told."""
        self.targets: dict[int, str] = {}
        """The gateway that each observer observes."""
        self._told_here: dict[tuple[str, str], Execute] = {}
        self._world = world
        self._slept_s = 0.0
        self._asleep_at: float | None = None

    @property
    def now(self) -> float:
        """The time on its clock, which stands still while it sleeps."""
        return self.clock_at(self._world.now)

    @property
    def is_asleep(self) -> bool:
        """Return whether its clock stands still."""
        return self._asleep_at is not None

    def clock_at(self, time: float) -> float:
        """Return what its clock says then, if it goes on as it does."""
        return (time if self._asleep_at is None else self._asleep_at) - self._slept_s

    def sleep(self) -> None:
        """Its clock stands still from now on."""
        self._asleep_at = self._world.now

    def wake(self) -> None:
        """Its clock goes on."""
        if self._asleep_at is not None:
            self._slept_s += self._world.now - self._asleep_at
            self._asleep_at = None

    def next_timer(self) -> float:
        """Return when `tick` is due, in the world's time."""
        if self.is_asleep:
            return math.inf
        return min(self.queries.next_timer(), self.watches.next_timer()) + self._slept_s

    # -- asking ----------------------------------------------------------------------------------

    def write(self, target: str, body: bytes) -> None:
        """Write to another gateway."""
        self._ask(target, ResourceRequest("PUT", ("value",), payload=body))

    def read(self, target: str) -> None:
        """Read another gateway."""
        self._ask(target, _READ)

    def observe(self, target: str, observer: int) -> None:
        """Observe another gateway."""
        self.targets[observer] = target
        epoch, now = self.locator.epoch_of(target), self.now
        self.carry_out(self.watches.add(WatchKey(target, _READ), observer, epoch, now))

    def leave(self, observer: int) -> None:
        """An observer goes."""
        self.targets.pop(observer, None)
        self.told.pop(observer, None)
        self.carry_out(self.watches.remove(observer))

    def _ask(self, target: str, request: ResourceRequest) -> None:
        epoch = self.locator.epoch_of(target) or 0
        correlation, publication = self.queries.ask(target, request, self.now, DEADLINE_S, epoch)
        self.asked[correlation] = (target, request.payload)
        self._world.say(self, publication)

    # -- what comes ------------------------------------------------------------------------------

    def receive(self, topic: str, payload: bytes) -> None:
        """Take a message for this gateway."""
        try:
            actions = self.queries.receive(topic, payload, self.now)
        except ProtocolError:
            return
        for action in actions:
            match action:
                case Execute():
                    self._execute(action)
                case Stop(key):
                    self._told_here.pop(key, None)
                case Publication():
                    self._world.say(self, action)
                case QueryAnswer():
                    self._answered(action)

    def tick(self) -> None:
        """Do what is due."""
        now = self.now + _ROUNDING_S
        for over in self.queries.handle_timer(now):
            match over:
                case Publication():
                    self._world.say(self, over)
                case TimedOut(correlation):
                    self._over(correlation)
                case Stop(key):
                    self._told_here.pop(key, None)
        self.carry_out(self.watches.handle_timer(now))

    def moved(self) -> None:
        """The tree is another one."""
        for publication in self.queries.moved(self.now):
            self._world.say(self, publication)
        self.carry_out(self.watches.moved(self.locator.epoch_of, self.now))

    def carry_out(self, actions: list[WatchAction]) -> None:
        """Do what the watches decided."""
        for action in actions:
            match action:
                case BeginWatch(watch, key):
                    epoch = self.locator.epoch_of(key.target) or 0
                    correlation, publication = self.queries.ask(
                        key.target,
                        key.request,
                        self.now,
                        DEADLINE_S,
                        epoch,
                        lease=Lease(watch, LEASE_S),
                    )
                    self.observing[correlation] = watch
                    self.subscribed[watch] = correlation
                    self._world.say(self, publication)
                case EndWatch(watch):
                    correlation = self.subscribed.pop(watch, "")
                    self.observing.pop(correlation, None)
                    cancel = self.queries.forget(correlation)
                    if cancel is not None:
                        self._world.say(self, cancel)
                case Notify():
                    self._notified(action)

    def _notified(self, notify: Notify) -> None:
        for observer in notify.observers:
            if notify.response is not None:
                self._world.outcome.told += 1
                self.told[observer] = notify.response.payload
                owner = notify.response.payload.partition(b":")[0].decode()
                if notify.response.is_success and owner != notify.key.target:
                    self._world.outcome.violations.append(f"{owner} told for {notify.key.target}")
            if notify.is_last:
                self.targets.pop(observer, None)
                self.told.pop(observer, None)

    def _answered(self, answered: QueryAnswer) -> None:
        correlation, response = answered.correlation, answered.response
        self.observing.pop(answered.replaced, None)
        watch = self.observing.get(correlation)
        if watch is not None:
            if not answered.goes_on:
                del self.observing[correlation]
            now = self.now
            self.carry_out(self.watches.told(watch, response, now, goes_on=answered.goes_on))
            return
        target, body = self.asked.pop(correlation)
        self._world.outcome.answered += 1
        if body and response.code == SERVICE_UNAVAILABLE:
            self._world.refused.add(body)
        if response.is_success and not response.payload.startswith(target.encode() + b":" + body):
            self._world.outcome.violations.append(
                f"{target} was asked for {body!r}, {response.payload!r} came"
            )

    def _over(self, correlation: str) -> None:
        watch = self.observing.pop(correlation, None)
        if watch is not None:
            now = self.now
            self.carry_out(self.watches.told(watch, None, now, goes_on=False))
        elif self.asked.pop(correlation, None) is not None:
            self._world.outcome.ended += 1

    # -- executing -------------------------------------------------------------------------------

    def _execute(self, execute: Execute) -> None:
        body = execute.request.payload
        if execute.request.writes:
            if body in self._world.written:
                self._world.outcome.violations.append(f"{body!r} was carried out twice")
            self._world.written.add(body)
            self._say(execute, ResourceResponse(0x44, self.name.encode() + b":" + body))
            self.value += 1
            for observed in list(self._told_here.values()):
                self._say(observed, self._content(), goes_on=True)
            return
        if execute.observes:
            self._told_here[execute.key] = execute
        self._say(execute, self._content(), goes_on=execute.observes)

    def _content(self) -> ResourceResponse:
        return ResourceResponse(0x45, f"{self.name}:{self.epoch}.{self.value}".encode())

    def _say(self, execute: Execute, response: ResourceResponse, *, goes_on: bool = False) -> None:
        publication = self.queries.answer(execute, response, self.now, goes_on=goes_on)
        if publication is not None:
            self._world.say(self, publication)

    @property
    def content(self) -> bytes:
        """Return the content that observers are to be told in the end."""
        return self._content().payload
