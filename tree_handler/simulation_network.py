"""Virtual time, and connections as gateways have them: ordered, reliable, and mortal.

A message takes its edge's delay and never overtakes another. A silent direction holds what is
sent, as TCP does while it retransmits, and delivers it in order if it heals in time. An edge
that is cut destroys what is under way; each end learns of it in its own time. Both ends may
dial at once, so a pair can have two connections.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

FIRST, SECOND = 0, 1
"""The two ends of an edge."""


class Host(Protocol):
    """One life of a gateway, as the network sees it."""

    gateway_id: str
    alive: bool
    paused_until_s: float
    ends: dict[int, End]

    def link_up(self, end: End) -> None:
        """Take a new connection."""

    def link_down(self, end: End) -> None:
        """Learn that a connection ended."""

    def receive(self, end: End, message: object) -> None:
        """Take a message."""


class Clock:
    """A queue of what happens when; equal times in the order in which they were set."""

    def __init__(self) -> None:
        self.now = 0.0
        """Virtual time in seconds."""
        self.events = 0
        """How many have happened."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0

    def at(self, time_s: float, what: Callable[[], None]) -> None:
        """Let something happen at a time, now at the earliest."""
        self._serial += 1
        heapq.heappush(self._queue, (max(time_s, self.now), self._serial, what))

    def run(self, until_s: float) -> None:
        """Let everything happen that is due until then."""
        while self._queue and self._queue[0][0] <= until_s:
            self.now, _, what = heapq.heappop(self._queue)
            self.events += 1
            what()
        self.now = until_s


@dataclass(slots=True, eq=False)
class Edge:
    """A path between two gateways over which they can connect.

    Attributes:
        ids: the gateways at its ends.
        delay_s: mean one-way delay.
        jitter_s: standard deviation of the delay.
        cut: nothing passes, and connections over it are broken.
        silent: for each direction, by sending end, whether what is sent is held.

    """

    ids: tuple[str, str]
    delay_s: float
    jitter_s: float
    cut: bool = False
    silent: list[bool] = field(default_factory=lambda: [False, False])

    @property
    def usable(self) -> bool:
        """Whether a connection over the edge can be made and stays."""
        return not (self.cut or any(self.silent))


@dataclass(slots=True, eq=False)
class Connection:
    """One connection over an edge; ``ends`` are in the order of the edge's."""

    edge: Edge
    broken: bool = False
    ends: list[End] = field(default_factory=list)

    @property
    def live(self) -> bool:
        """Whether data pass: both ends are open and forward."""
        return not self.broken and all(end.open and end.forwards for end in self.ends)


@dataclass(slots=True, eq=False)
class End:
    """One end of a connection.

    Attributes:
        connection: the connection.
        side: `FIRST` or `SECOND`, of the edge.
        host: the gateway's life that has it.
        open: the host uses it.
        forwards: the host carries data over it.
        link: the host's number for it.

    """

    connection: Connection
    side: int
    host: Host
    open: bool = False
    forwards: bool = False
    link: int = 0
    _last_arrival_s: float = 0.0
    _held: deque[object] = field(default_factory=deque)

    @property
    def peer(self) -> End:
        """The other end."""
        return self.connection.ends[1 - self.side]


class _Opened:
    """The dialler's news that the other side has accepted."""


class _Closed:
    """The last message of an end that was closed."""


_OPENED, _CLOSED = _Opened(), _Closed()


class Network:
    """Edges and the connections over them.

    Args:
        clock: virtual time.
        random_: the only source of chance.

    """

    def __init__(self, clock: Clock, random_: random.Random) -> None:
        self.edges: list[Edge] = []
        """All paths there are."""
        self._connections: dict[Connection, None] = {}
        self._clock = clock
        self._random = random_

    @property
    def connections(self) -> list[Connection]:
        """Connections that at least one end has open, the oldest first."""
        return list(self._connections)

    def dial(self, edge: Edge, dialler: Host, other: Callable[[], Host | None]) -> None:
        """Try to connect; nothing happens if the edge or the other gateway does not answer.

        Args:
            edge: the path.
            dialler: who dials.
            other: looks the other gateway's present life up when the dialling arrives.

        """
        if not edge.usable:
            return
        side = edge.ids.index(dialler.gateway_id)

        def arrive() -> None:
            host = other()
            if host is None or not (edge.usable and dialler.alive):
                return
            if host.paused_until_s > self._clock.now:
                return
            connection = Connection(edge)
            hosts = (dialler, host) if side == FIRST else (host, dialler)
            connection.ends = [End(connection, i, h) for i, h in enumerate(hosts)]
            self._connections[connection] = None
            accepted = connection.ends[1 - side]
            accepted.open = True
            self.send(accepted, _OPENED)
            host.link_up(accepted)

        self._clock.at(self._clock.now + self._delay_s(edge), arrive)

    def send(self, end: End, message: object) -> None:
        """Send a message from an end that is open."""
        if not end.open or end.connection.broken:
            return
        if end.connection.edge.silent[end.side]:
            end._held.append(message)
        else:
            self._carry(end, message)

    def close(self, end: End) -> None:
        """Close an end; the other one learns of it behind what was sent before."""
        self.send(end, _CLOSED)
        self._shut(end)

    def vanish(self, end: End) -> None:
        """Let an end stop without a word, as a power cut does."""
        self._shut(end)

    def cut(self, edge: Edge) -> None:
        """Break an edge and all connections over it; both ends get a socket error soon."""
        edge.cut = True
        for connection in self._over(edge):
            self.reset(connection)

    def reset(self, connection: Connection) -> None:
        """Break one connection; what is under way is lost, each end learns of it in its time."""
        connection.broken = True
        for end in connection.ends:
            notice_s = self._random.random() * 2 * self._delay_s(connection.edge)
            self._clock.at(self._clock.now + notice_s, partial(self._ended, end))

    def silence(self, edge: Edge, side: int) -> None:
        """Hold what this side sends from now on, without a word to anyone."""
        edge.silent[side] = True

    def heal(self, edge: Edge) -> None:
        """Make an edge usable again and let go of what it held."""
        edge.cut = False
        edge.silent[:] = [False, False]
        for connection in self._over(edge):
            for end in connection.ends:
                while end._held:
                    self._carry(end, end._held.popleft())

    def _over(self, edge: Edge) -> list[Connection]:
        return [c for c in self._connections if c.edge is edge]

    def _delay_s(self, edge: Edge) -> float:
        return max(edge.delay_s / 10, self._random.gauss(edge.delay_s, edge.jitter_s))

    def _carry(self, end: End, message: object) -> None:
        arrival_s = self._clock.now + self._delay_s(end.connection.edge)
        end._last_arrival_s = max(arrival_s, end._last_arrival_s)
        self._clock.at(end._last_arrival_s, lambda: self._arrive(end.peer, message))

    def _arrive(self, end: End, message: object) -> None:
        host = end.host
        if end.connection.broken or not host.alive:
            return
        if host.paused_until_s > self._clock.now:
            self._clock.at(host.paused_until_s, lambda: self._arrive(end, message))
        elif message is _CLOSED:
            self._ended(end)
        elif message is _OPENED:
            end.open = True
            host.link_up(end)
        elif end.open:
            host.receive(end, message)

    def _ended(self, end: End) -> None:
        host = end.host
        if not end.open:
            self._shut(end)
        elif host.paused_until_s > self._clock.now:
            self._clock.at(host.paused_until_s, lambda: self._ended(end))
        else:
            self._shut(end)
            host.link_down(end)

    def _shut(self, end: End) -> None:
        end.open = end.forwards = False
        connection = end.connection
        if not any(e.open for e in connection.ends):
            self._connections.pop(connection, None)
