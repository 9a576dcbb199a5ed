"""One life of a simulated gateway: the shell around the cores that run in production."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tree_handler.simulation.network import Clock, Edge, End, Network
from tree_handler.spanning.bpdu import Bpdu, Kind
from tree_handler.spanning.spanning_tree import (
    Action,
    Discard,
    Drop,
    Forward,
    Identity,
    Outlived,
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
    """A BPDU on its way, and when it was sent."""

    bpdu: Bpdu
    sent_s: float


@dataclass(frozen=True, slots=True)
class LocalClock:
    """The monotonic clock of one life: it starts anywhere and runs at its own rate.

    Attributes:
        rate: seconds that it counts in a second.
        ahead_s: what it shows at virtual time 0.

    """

    rate: float = 1.0
    ahead_s: float = 0.0

    def reading(self, virtual_s: float) -> float:
        """What it shows at a virtual time."""
        return self.ahead_s + self.rate * virtual_s

    def virtual_s(self, reading: float) -> float:
        """The virtual time at which it shows this."""
        return (reading - self.ahead_s) / self.rate


TRUE_CLOCK = LocalClock()


class Watch:
    """Sees what gateways do at the instant at which they do it; `simulation.checks` overrides."""

    def __init__(self) -> None:
        self.said: Counter[Kind] = Counter()
        """BPDUs sent, by kind."""

    def forwards(self, end: End) -> None:
        """An end starts to forward."""

    def discards(self, end: End) -> None:
        """An end stops to forward."""

    def acts(self, gateway: Gateway, actions: int) -> None:
        """A gateway is about to do all that the tree asks for after one event."""


class Gateway:
    """A gateway from one start to its end.

    Other cores than the tree are driven by a subclass that extends `link_up`, `take` (messages
    other than tree messages), `changed`, `link_full` and `link_drained`.

    Args:
        tree: the core; made at what ``local`` shows now.
        clock: virtual time.
        network: what it sends over.
        watch: is told of what it does.
        local: its own clock.

    """

    outlived: Callable[[int], None] = staticmethod(lambda _: None)
    """Called when a neighbour knows of a later life of this gateway, with its boot epoch."""

    def __init__(
        self,
        tree: SpanningTree,
        clock: Clock,
        network: Network,
        watch: Watch,
        local: LocalClock = TRUE_CLOCK,
    ) -> None:
        self.tree = tree
        self.gateway_id = tree.identity.gateway_id
        self.alive = True
        self.paused_until_s = 0.0
        self.ends: dict[int, End] = {}
        """The open ends by link number."""
        self._clock = clock
        self._network = network
        self._watch = watch
        self._local = local
        self._links = 0
        self._timer_s = -1.0
        self.carry_out()

    @property
    def now(self) -> float:
        """What the cores take for the time."""
        return self._local.reading(self._clock.now)

    def is_linked(self, edge: Edge) -> bool:
        """Whether this gateway has a connection over an edge, as far as it knows."""
        return any(end.connection.edge is edge for end in self.ends.values())

    def link_up(self, end: End) -> None:
        """Take a new connection."""
        self._links += 1
        end.link = self._links
        self.ends[end.link] = end
        self.tree.link_up(end.link, end.peer.host.gateway_id, self.now)
        self.carry_out()

    def link_down(self, end: End) -> None:
        """Learn that a connection ended."""
        del self.ends[end.link]
        self.tree.link_down(end.link, self.now)
        self.carry_out()
        self.changed()

    def receive(self, end: End, message: object) -> None:
        """Take a message in, and answer a HELLO with its echo first."""
        if isinstance(message, _Ping):
            if message.bpdu.kind is Kind.HELLO:
                self._network.send(end, _Echo(message.sent_s))
            self.tree.receive(end.link, message.bpdu, self.now)
            self.carry_out()
        elif isinstance(message, _Echo):
            now = self.now
            self.tree.measured(end.link, (now - message.sent_s) * 1000, now)
            self.carry_out()
        else:
            self.take(end, message)

    def take(self, end: End, message: object) -> None:
        """Take in a message that is not of the tree."""

    def changed(self) -> None:
        """A link has gone, started or stopped to forward."""

    def joins(self, link: int) -> None:
        """A neighbour is about to be asked to be the parent."""

    def link_full(self, end: End) -> None:
        """Learn that more data would only wait."""

    def link_drained(self, end: End) -> None:
        """Learn that none waits any more."""

    def carry_out(self) -> None:
        """Do what the tree asks for, and set its timer."""
        actions = self.tree.take_actions()
        before = len(self.ends)
        moved = False
        self._watch.acts(self, len(actions))
        for action in actions:
            moved = self._do(action) or moved
        if moved or before != len(self.ends):
            self.changed()
        due_s = self.tree.next_timer()
        if due_s != self._timer_s:
            self._timer_s = due_s
            self._clock.at(self._local.virtual_s(due_s), partial(self._tick, due_s))

    def _do(self, action: Action) -> bool:
        match action:
            case Send(link, bpdu):
                self._watch.said[bpdu.kind] += 1
                if bpdu.kind is Kind.JOIN:
                    self.joins(link)
                self._network.send(self.ends[link], _Ping(bpdu, self.now))
                return False
            case Forward(link):
                self.ends[link].forwards = True
                self._watch.forwards(self.ends[link])
            case Discard(link):
                self.ends[link].forwards = False
                self._watch.discards(self.ends[link])
            case Drop(link):
                self._network.close(self.ends.pop(link))
            case Outlived(boot_epoch):
                self.outlived(boot_epoch)
                return False
        return True

    def _tick(self, due_s: float) -> None:
        if not self.alive or due_s != self._timer_s:
            return
        if self.paused_until_s > self._clock.now:
            self._clock.at(self.paused_until_s, partial(self._tick, due_s))
            return
        self._timer_s = -1.0
        self.tree.handle_timer(max(due_s, self.now))  # rounding must not bring it too early
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
