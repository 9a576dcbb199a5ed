"""One life of a simulated gateway: the shell around the cores that run in production."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from light_dataclasses import dataclass
from tree_handler.one_life import other_life
from tree_handler.simulation.local_time import TRUE_CLOCK, LocalClock, Timer
from tree_handler.simulation.network import Clock, Edge, End, Host, Network
from tree_handler.spanning.bpdu import Bpdu, Kind
from tree_handler.spanning.spanning_tree import (
    Discard,
    Drop,
    Forward,
    Identity,
    Outlived,
    Parameters,
    Send,
    SpanningAction,
    SpanningTree,
)


@dataclass(frozen=True, slots=True)
class _Echo:
    """The PINGRESP to a HELLO that was sent at this time."""

    sent_s: float


@dataclass(frozen=True, slots=True)
class WirePing:
    """A BPDU on its way, and when it was sent."""

    bpdu: Bpdu
    sent_s: float


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


def _told_nobody(gateway: Gateway, epoch: int) -> None:
    """Do nothing: this network loses no disks."""


@dataclass(frozen=True, slots=True)
class Start:
    """The parts with which one life of a gateway starts.

    Attributes:
        tree: the core; made at what ``local`` shows now.
        clock: virtual time.
        network: what it sends over.
        watch: is told of what it does.
        local: its own clock.
        outlived: called when a neighbour knows of a later life of it, with that one's epoch.
        tree_clock: what its tree goes by instead of ``local``, if anything else.

    """

    tree: SpanningTree
    clock: Clock
    network: Network
    watch: Watch
    local: LocalClock = TRUE_CLOCK
    outlived: Callable[[Gateway, int], None] = _told_nobody
    tree_clock: LocalClock | None = None


class Gateway:
    """A gateway from one start to its end.

    Other cores than the tree are driven by a subclass that extends `begin`, `link_up`, `take`
    (messages other than tree messages), `changed`, `link_full`, `link_drained` and `reaches`.

    Args:
        start: what it starts with.

    """

    def __init__(self, start: Start) -> None:
        self.tree = start.tree
        self.gateway_id = start.tree.identity.gateway_id
        self.boot_epoch = start.tree.identity.boot_epoch
        self.alive = True
        self.paused_until_s = 0.0
        self.ends: dict[int, End] = {}
        """The open ends by link number."""
        self._start = start
        self._clock = start.clock
        self._network = start.network
        self._links = 0
        self._tree_clock = start.tree_clock or start.local
        self._tree_timer = Timer(self, start.clock, self._tree_clock, self._tree_due)

    def begin(self) -> None:
        """Let time pass for it."""
        self.carry_out()

    def timer(self, due: Callable[[float], None]) -> Timer:
        """Return a timer of this life."""
        return Timer(self, self._clock, self._start.local, due)

    def outlived(self, epoch: int) -> None:
        """Say that a neighbour knows of a later life of this gateway."""
        self._start.outlived(self, epoch)

    @property
    def now(self) -> float:
        """Return the time that the cores go by."""
        return self._start.local.reading(self._clock.now)

    @property
    def tree_now(self) -> float:
        """Return what its tree takes for the time."""
        return self._tree_clock.reading(self._clock.now)

    def is_linked(self, edge: Edge) -> bool:
        """Return whether this gateway has a connection over an edge, as far as it knows."""
        return any(end.connection.edge is edge for end in self.ends.values())

    def admits(self, other: Host) -> bool:
        """Return whether no other life of that gateway is in the tree, as far as is known here."""
        peers = (end.peer.host for end in self.ends.values())
        linked = (peer.boot_epoch for peer in peers if peer.gateway_id == other.gateway_id)
        return other_life(other.boot_epoch, linked, self.reaches(other.gateway_id)) is None

    def reaches(self, gateway_id: str) -> int | None:
        """Return the boot epoch under which the tree reaches a gateway, where that is known."""
        return None

    def link_up(self, end: End) -> None:
        """Take a new connection."""
        self._links += 1
        end.link = self._links
        self.ends[end.link] = end
        self.tree.link_up(end.link, end.peer.host.gateway_id, self.tree_now)
        self.carry_out()

    def link_down(self, end: End) -> None:
        """Learn that a connection ended."""
        del self.ends[end.link]
        self.tree.link_down(end.link, self.tree_now)
        self.carry_out()
        self.changed()

    def receive(self, end: End, message: object) -> None:
        """Take a message in, and answer a HELLO with its echo first."""
        if isinstance(message, WirePing):
            if message.bpdu.kind is Kind.HELLO:
                self._network.send(end, _Echo(message.sent_s))
            self.tree.receive(end.link, message.bpdu, self.tree_now)
            self.carry_out()
        elif isinstance(message, _Echo):
            now = self.tree_now
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
        self._start.watch.acts(self, len(actions))
        for action in actions:
            moved = self._do(action) or moved
        if moved or before != len(self.ends):
            self.changed()
        self._tree_timer.set(self.tree.next_timer())

    def _do(self, action: SpanningAction) -> bool:
        match action:
            case Send(link, bpdu):
                self._start.watch.said[bpdu.kind] += 1
                if bpdu.kind is Kind.JOIN:
                    self.joins(link)
                self._network.send(self.ends[link], WirePing(bpdu, self.tree_now))
                return False
            case Forward(link):
                self.ends[link].forwards = True
                self._start.watch.forwards(self.ends[link])
            case Discard(link):
                self.ends[link].forwards = False
                self._start.watch.discards(self.ends[link])
            case Drop(link):
                self._network.close(self.ends.pop(link))
            case Outlived(boot_epoch):
                self.outlived(boot_epoch)
                return False
        return True

    def _tree_due(self, now: float) -> None:
        self.tree.handle_timer(now)
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
