"""Virtual time, and connections as gateways have them: ordered, reliable, and mortal.

A message takes its edge's delay and never overtakes another of its lane: BPDUs have one lane,
all else the other, since a link that is full must still carry its HELLO. A direction that loses
packets delays what is sent by a time-out now and then, and all behind it; a silent one holds
what is sent, as TCP does while it retransmits, and delivers it in order if it heals in time. An
edge that is cut destroys what is under way; each end learns of it in its own time. A pair can
have more than one connection.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Protocol

from light_dataclasses import dataclass

FIRST, SECOND = 0, 1
"""The two ends of an edge."""
BPDUS, DATA = 0, 1
"""The lanes of a connection."""
SMALL_BYTES = 100
"""The size on the wire of a message without a body, with all that is around it."""
RETRANSMIT_S = 0.2
"""TCP's least retransmission time-out on Linux; it doubles each time."""
BACKLOG = 8
"""Messages that wait for a slow edge before its sender is told that the link is full."""


class Host(Protocol):
    """One life of a gateway, as the network sees it."""

    gateway_id: str
    boot_epoch: int
    alive: bool
    paused_until_s: float
    ends: dict[int, End]

    def admits(self, other: Host) -> bool:
        """Return whether it takes a link with a gateway that has dialled, or was."""

    def link_up(self, end: End) -> None:
        """Take a new connection."""

    def link_down(self, end: End) -> None:
        """Learn that a connection ended."""

    def receive(self, end: End, message: object) -> None:
        """Take a message."""

    def link_full(self, end: End) -> None:
        """Learn that more data would only wait."""

    def link_drained(self, end: End) -> None:
        """Learn that none waits any more."""


class Clock:
    """A queue of what happens when; equal times in the order in which they were set."""

    def __init__(self) -> None:
        self.now = 0.0
        """Virtual time in seconds."""
        self.events = 0
        """The number of events that have happened."""
        self.leapt_s = 0.0
        """The part of the time that passed in leaps."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0

    def at(self, time_s: float, what: Callable[[], None]) -> None:
        """Let something happen at a time, now at the earliest."""
        self._serial += 1
        heapq.heappush(self._queue, (max(time_s, self.now), self._serial, what))

    def leap(self, by_s: float) -> None:
        """Let time pass in which nothing happens: all that is to come comes so much later."""
        self.now += by_s
        self.leapt_s += by_s
        self._queue = [(at_s + by_s, serial, what) for at_s, serial, what in self._queue]

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
        loss: probability that a packet is lost and sent again.
        message_s: how long one message of data keeps a direction busy.
        bytes_per_s: how many bytes of data a direction takes in a second; 0 for any number.

    """

    ids: tuple[str, str]
    delay_s: float
    jitter_s: float
    cut: bool = False
    silent: list[bool] = field(default_factory=lambda: [False, False])
    loss: float = 0.0
    message_s: float = 0.0
    bytes_per_s: float = 0.0

    def busy_s(self, message: object) -> float:
        """Return how long a message of data keeps a direction busy."""
        return self.message_s + (octets(message) / self.bytes_per_s if self.bytes_per_s else 0.0)

    @property
    def usable(self) -> bool:
        """Return whether a connection over the edge can be made and stays."""
        return not (self.cut or any(self.silent))


@dataclass(slots=True, eq=False)
class EdgeConnection:
    """One connection over an edge, made at a time; ``ends`` are in the order of the edge's."""

    edge: Edge
    made_s: float
    broken: bool = False
    ends: list[End] = field(default_factory=list)

    @property
    def live(self) -> bool:
        """Return whether data pass: both ends are open and forward."""
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

    connection: EdgeConnection
    side: int
    host: Host
    open: bool = False
    forwards: bool = False
    link: int = 0
    _last_arrival_s: list[float] = field(default_factory=lambda: [0.0, 0.0])
    _busy_until_s: float = 0.0
    _waiting: int = 0
    _full: bool = False
    _held: deque[tuple[object, int]] = field(default_factory=deque)

    @property
    def peer(self) -> End:
        """The other end."""
        return self.connection.ends[1 - self.side]


def octets(message: object) -> int:
    """Return how large a message is on the wire, about."""
    for name in ("frame", "payload"):
        if isinstance(data := getattr(message, name, None), bytes):
            return len(data) + SMALL_BYTES
    return SMALL_BYTES


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
        self._connections: dict[EdgeConnection, None] = {}
        self._clock = clock
        self._random = random_

    @property
    def connections(self) -> list[EdgeConnection]:
        """Connections that at least one end has open, the oldest first."""
        return list(self._connections)

    def dial(self, edge: Edge, dialler: Host, other: Callable[[], Host | None]) -> None:
        """Try to connect; nothing happens if the edge or the other gateway does not answer.

        Args:
            edge: the path; both ends of it may be the same gateway.
            dialler: who dials.
            other: looks the other gateway's present life up when the dialling arrives.

        """
        if edge.usable:
            arrive = partial(self._dialled, edge, dialler, other)
            self._clock.at(self._clock.now + self._delay_s(edge), arrive)

    def _dialled(self, edge: Edge, dialler: Host, other: Callable[[], Host | None]) -> None:
        host = other()
        if host is None or not (edge.usable and dialler.alive):
            return
        if host.paused_until_s > self._clock.now:
            return
        if not (host.admits(dialler) and dialler.admits(host)):
            return
        connection = EdgeConnection(edge, self._clock.now)
        first = edge.ids.index(dialler.gateway_id) == FIRST
        hosts = (dialler, host) if first else (host, dialler)
        connection.ends = [End(connection, i, h) for i, h in enumerate(hosts)]
        self._connections[connection] = None
        accepted = connection.ends[SECOND if first else FIRST]
        accepted.open = True
        self.send(accepted, _OPENED)
        host.link_up(accepted)

    def send(self, end: End, message: object, lane: int = BPDUS) -> None:
        """Send a message from an end that is open."""
        if not end.open or end.connection.broken:
            return
        if end.connection.edge.silent[end.side]:
            end._held.append((message, lane))
        else:
            self._carry(end, message, lane)

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

    def reset(self, connection: EdgeConnection) -> None:
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
        edge.loss = edge.message_s = edge.bytes_per_s = 0.0
        for connection in self._over(edge):
            for end in connection.ends:
                while end._held:
                    self._carry(end, *end._held.popleft())

    def _over(self, edge: Edge) -> list[EdgeConnection]:
        return [c for c in self._connections if c.edge is edge]

    def is_carrying(self) -> bool:
        """Return whether anything waits for an edge that is slow, or was when it was sent."""
        return any(end._waiting for connection in self._connections for end in connection.ends)

    def _delay_s(self, edge: Edge) -> float:
        return max(edge.delay_s / 10, self._random.gauss(edge.delay_s, edge.jitter_s))

    def _carry(self, end: End, message: object, lane: int) -> None:
        now, edge = self._clock.now, end.connection.edge
        arrival_s = now + self._delay_s(edge)
        if edge.loss:
            time_out_s = RETRANSMIT_S
            while self._random.random() < edge.loss:
                arrival_s += time_out_s
                time_out_s *= 2
        if lane == DATA and (edge.message_s or edge.bytes_per_s or end._waiting):
            arrival_s += self._queue(end, message)
        last = end._last_arrival_s
        last[lane] = max(arrival_s, last[lane])
        if edge.loss or message is _CLOSED:  # one TCP connection: what is lost holds up all
            last[lane] = max(last)
        if edge.loss or message is _OPENED:  # nothing comes before the connection is there
            last[:] = [last[lane]] * 2
        self._clock.at(last[lane], partial(self._arrive, end.peer, message))

    def _queue(self, end: End, message: object) -> float:
        """Put a message behind those that wait for a slow edge; returns how long it waits."""
        now = self._clock.now
        busy_s = end.connection.edge.busy_s(message)
        end._busy_until_s = max(now, end._busy_until_s) + busy_s
        end._waiting += 1
        self._clock.at(end._busy_until_s, partial(self._sent, end))
        if end._waiting == BACKLOG and not end._full:
            end._full = True
            end.host.link_full(end)
        return end._busy_until_s - now

    def _sent(self, end: End) -> None:
        end._waiting -= 1
        if end._full and not end._waiting:
            end._full = False
            if end.open and end.host.alive:
                end.host.link_drained(end)

    def _arrive(self, end: End, message: object) -> None:
        host = end.host
        if end.connection.broken or not host.alive:
            return
        if host.paused_until_s > self._clock.now:
            self._clock.at(host.paused_until_s, partial(self._arrive, end, message))
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
            self._clock.at(host.paused_until_s, partial(self._ended, end))
        else:
            self._shut(end)
            host.link_down(end)

    def _shut(self, end: End) -> None:
        end.open = end.forwards = False
        connection = end.connection
        if not any(e.open for e in connection.ends):
            self._connections.pop(connection, None)
