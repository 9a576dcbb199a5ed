"""Gateways with overlays side by side: what one says arrives at once, in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tree_handler.overlays.overlays import Overlays, Say, Settings
from tree_handler.routing.interest import Interest
from tree_handler.simulation.lying import sealing
from tree_handler.spanning.spanning_tree import Identity, Parameters

Fleet = dict[str, Interest]


def told(
    gateway_id: str,
    publishes: Iterable[str] = ("t",),
    subscribes: Iterable[str] = ("t",),
    neighbours: Iterable[str] = (),
    *,
    clients: int = 0,
    rooted: int = 0,
    transit: bool = True,
) -> Interest:
    """A record."""
    wants = frozenset(subscribes), frozenset(publishes), frozenset(neighbours)
    return Interest(gateway_id, 1, 1, *wants, clients, rooted, transit)


def mesh(*ids: str, publishes: Iterable[str] = ("t",), subscribes: Iterable[str] = ("t",)) -> Fleet:
    """Records of gateways that all have links to each other."""
    return {i: told(i, publishes, subscribes, set(ids) - {i}) for i in ids}


@dataclass
class Wires:
    """Gateways in full mesh; link numbers are those of the other gateway's place."""

    gateways: dict[str, Overlays] = field(default_factory=dict)
    now: float = 0.0
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Messages that were sent: sender, receiver and payload."""
    held: set[tuple[str, str]] = field(default_factory=set)
    """Directions in which what is said waits."""
    _waiting: deque[tuple[str, str, bytes]] = field(default_factory=deque)

    @classmethod
    def of(
        cls,
        *ids: str,
        settings: Settings | None = None,
        records: Fleet | None = None,
        sealed: Collection[str] = (),
    ) -> Wires:
        """Gateways that know all records, the first the strongest, with all links up.

        Those that are sealed sign what they stand for election with, and believe no others.
        """
        wires = cls()
        for number, gateway_id in enumerate(ids):
            identity = Identity(gateway_id, 7, 9.0 - number, f"10.0.0.{number + 1}")
            wires.gateways[gateway_id] = Overlays(
                identity,
                Parameters(),
                settings or Settings(),
                wires.now,
                sealing(gateway_id) if gateway_id in sealed else None,
            )
        for a in ids:
            for b in ids:
                if a != b:
                    wires.gateways[a].link_up(wires.link(b), b, wires.now)
        wires.tell(records or mesh(*ids))
        return wires

    def link(self, gateway_id: str) -> int:
        """Everybody's link to this gateway."""
        return 1 + list(self.gateways).index(gateway_id)

    def tell(self, records: Fleet, to: Iterable[str] | None = None) -> None:
        """Let these gateways, or all, know these records."""
        for gateway_id in list(self.gateways) if to is None else to:
            self.gateways[gateway_id].records_changed(records, self.now)
        self.deliver()

    def deliver(self) -> None:
        """Let everything arrive that was said, and what is said on account of it."""
        again = True
        while again:
            for a, gateway in self.gateways.items():
                for action in gateway.take_actions():
                    if isinstance(action, Say):
                        b = list(self.gateways)[action.link - 1]
                        self.sent.append((a, b, action.message))
                        self._waiting.append((a, b, action.message))
            free = [said for said in self._waiting if said[:2] not in self.held]
            self._waiting = deque(said for said in self._waiting if said[:2] in self.held)
            for a, b, message in free:
                self.gateways[b].receive(self.link(a), message, self.now)
            again = bool(free)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while (due := min(g.next_timer() for g in self.gateways.values())) <= until:
            assert due >= self.now
            self.now = due
            for gateway in self.gateways.values():
                gateway.handle_timer(self.now)
            self.deliver()
        self.now = until
