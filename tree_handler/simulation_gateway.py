"""One life of a simulated gateway: the shell around the cores that run in production."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tree_handler.bpdu import Bpdu, Kind
from tree_handler.simulation_network import Clock, Edge, End, Network
from tree_handler.spanning_tree import (
    Action,
    Discard,
    Drop,
    Forward,
    Identity,
    Parameters,
    Send,
    SpanningTree,
)


@dataclass(frozen=True, slots=True)
class _Echo:
    """The PINGRESP to a HELLO that was sent at this time."""

    sent_s: float


@dataclass(frozen=True, slots=True)
class _Ping:
    """A BPDU on its way, as bytes, and when it was sent."""

    body: bytes
    sent_s: float


class Watch:
    """Sees what gateways do at the instant at which they do it; `simulation_checks` overrides."""

    def __init__(self) -> None:
        self.said: Counter[Kind] = Counter()
        """BPDUs sent, by kind."""

    def forwards(self, end: End) -> None:
        """An end starts to forward."""

    def discards(self, end: End) -> None:
        """An end stops to forward."""


class Gateway:
    """A gateway from one start to its end.

    Other cores than the tree are driven by a subclass that extends `link_up`, `link_down`,
    `take` (messages other than tree messages) and `carry_out`.

    Args:
        tree: the core.
        clock: virtual time.
        network: what it sends over.
        watch: is told of what it does.

    """

    def __init__(self, tree: SpanningTree, clock: Clock, network: Network, watch: Watch) -> None:
        self.tree = tree
        self.gateway_id = tree.identity.gateway_id
        self.alive = True
        self.paused_until_s = 0.0
        self.ends: dict[int, End] = {}
        """The open ends by link number."""
        self._clock = clock
        self._network = network
        self._watch = watch
        self._links = 0
        self._timer_s = -1.0
        self.carry_out()

    def is_linked(self, edge: Edge) -> bool:
        """Whether this gateway has a connection over an edge, as far as it knows."""
        return any(end.connection.edge is edge for end in self.ends.values())

    def link_up(self, end: End) -> None:
        """Take a new connection."""
        self._links += 1
        end.link = self._links
        self.ends[end.link] = end
        self.tree.link_up(end.link, end.peer.host.gateway_id, self._clock.now)
        self.carry_out()

    def link_down(self, end: End) -> None:
        """Learn that a connection ended."""
        del self.ends[end.link]
        self.tree.link_down(end.link, self._clock.now)
        self.carry_out()

    def receive(self, end: End, message: object) -> None:
        """Take a message in, and answer a HELLO with its echo first."""
        now = self._clock.now
        if isinstance(message, _Ping):
            bpdu = Bpdu.decode(message.body)
            if bpdu.kind is Kind.HELLO:
                self._network.send(end, _Echo(message.sent_s))
            self.tree.receive(end.link, bpdu, now)
        elif isinstance(message, _Echo):
            self.tree.measured(end.link, (now - message.sent_s) * 1000, now)
        else:
            self.take(end, message)
        self.carry_out()

    def take(self, end: End, message: object) -> None:
        """Take in a message that is not of the tree."""

    def carry_out(self) -> None:
        """Do what the tree asks for, and set its timer."""
        for action in self.tree.take_actions():
            self._do(action)
        due_s = self.tree.next_timer()
        if due_s != self._timer_s:
            self._timer_s = due_s
            self._clock.at(due_s, lambda: self._tick(due_s))

    def _do(self, action: Action) -> None:
        match action:
            case Send(link, bpdu):
                self._watch.said[bpdu.kind] += 1
                self._network.send(self.ends[link], _Ping(bpdu.encode(), self._clock.now))
            case Forward(link):
                self.ends[link].forwards = True
                self._watch.forwards(self.ends[link])
            case Discard(link):
                self.ends[link].forwards = False
                self._watch.discards(self.ends[link])
            case Drop(link):
                self._network.close(self.ends.pop(link))

    def _tick(self, due_s: float) -> None:
        if not self.alive or due_s != self._timer_s:
            return
        if self.paused_until_s > self._clock.now:
            self._clock.at(self.paused_until_s, lambda: self._tick(due_s))
            return
        self._timer_s = -1.0
        self.tree.handle_timer(self._clock.now)
        self.carry_out()

    def stop(self, *, silently: bool) -> None:
        """End this life: the process is killed, or (silently) the power fails."""
        self.alive = False
        for end in self.ends.values():
            if silently:
                self._network.vanish(end)
            else:
                self._network.close(end)
        self.ends.clear()


MakeTree = Callable[[Identity, Parameters, float], SpanningTree]
"""Makes the core of a gateway that starts; a test puts a broken one here."""
