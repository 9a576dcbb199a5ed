"""Gateways in routed mode in a line, with logs in memory, for tests of `tree_handler.routing`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repairing import RepairSettings
from tree_handler.replication.replication import Append, Replication, RouteBatch
from tree_handler.routing import wire as routed_wire
from tree_handler.routing.actions import SendRouted, ServeRouted, Settle
from tree_handler.routing.interest import Interest, Interests
from tree_handler.routing.locator import Locator, ReachUpdate
from tree_handler.routing.routed import Routed
from tree_handler.routing.runs import Run
from tree_handler.routing.wire import Ask


class Node:
    """One gateway with a log in memory; links are named by the neighbour's place on the line."""

    def __init__(self, line: Line, place: int, epoch: int = 1) -> None:
        self.line, self.place, self.id = line, place, f"gw-{place}"
        self.log = line.logs.setdefault(place, [])
        have: dict[batch.Epoch, Intervals] = {}
        for _, header in self.log:
            have.setdefault(header.stream, Intervals()).add(header.first, header.last)
        told = [(frame, header) for frame, header in self.log if header.control]
        settings = RepairSettings(floods_clients=False)
        self.core = Replication(self.id, epoch, have, settings, told)
        self.locator = Locator(self.id, epoch)
        self.routed = Routed(self.core, Interests(self.id), self.locator)
        self.got: list[str] = []
        self.served_at_once = 99
        self.is_full = False
        self._run = Run([], frozenset())

    def publish(self, *topics: str, qos: int = 1, retain: bool = False) -> None:
        entries = [Entry(topic, b"", qos=qos, retain=retain) for topic in topics]
        self.publish_all(entries, Flags.LOGGED if qos else Flags.NONE)

    def publish_all(self, entries: Iterable[Entry], flags: int) -> None:
        for run in self.routed.runs([entry.row() for entry in entries]):
            self._run = run
            self.do(self.core.publish(run.rows, flags, 0))

    def do(self, actions: Iterable[Any]) -> None:
        for action in actions:
            match action:
                case Append(_, header) if self.is_full and not header.control:
                    pass
                case Append(frame, header):
                    self.log.append((frame, header))
                    self.do(self.core.appended(action))
                    if header.control and header.origin == self.id:
                        self.line.flood(frame, header)
                case RouteBatch(frame, header):
                    self.do(self.routed.accepted(frame, header, self._run, self.line.now))
                case SendRouted():
                    self.line.send(self.place, action)
                case Settle(stream, last):
                    self.do(self.routed.settle(stream, last))
                case ServeRouted(ask, wanted):
                    self.serve(ask, wanted)
                case Deliver(frame, header, first):
                    self.hand_out(frame, header, first)
                case DeliverLogged(stream, first, last):
                    for frame, header in self.log:
                        if header.stream == stream and first <= header.first <= last:
                            self.hand_out(frame, header, header.first)

    def serve(self, ask: Ask, wanted: Intervals) -> None:
        found = [
            (frame, header)
            for frame, header in self.log
            if header.stream == ask.stream and any(n in wanted for n in numbers(header))
        ]
        is_all = len(found) <= self.served_at_once
        self.do(self.routed.served(ask, found[: self.served_at_once], is_all=is_all))

    def hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if not (header.passed or header.control):
            entries = batch.decode(frame, header)[first - header.first :]
            self.got += [entry.topic for entry in entries]

    def wants(self, version: int, *filters: str, epoch: int = 1) -> None:
        """Tell all gateways."""
        record = Interest(self.id, epoch, version, frozenset(filters))
        for node in self.line.nodes:
            node.routed.update(record, self.line.now)


class Line:
    """Gateways in a line."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.logs: dict[int, list[tuple[bytes, Header]]] = {}
        self.carried: list[tuple[int, int, str]] = []
        self.lose: set[tuple[int, int]] = set()
        """Directions in which all is lost."""
        self._queue: deque[tuple[int, int, bytes]] = deque()
        self.nodes = [Node(self, place) for place in range(count)]
        for node in self.nodes:
            self.link(node)
            node.wants(1)

    def link(self, node: Node) -> None:
        places = {node.place - 1, node.place + 1} & set(range(len(self.nodes)))
        for other in sorted(places):
            heard = range(other + 1) if other < node.place else range(other, len(self.nodes))
            behind = routed_behind(heard)
            node.locator.receive(other, behind)
        node.locator.forwards(places)
        node.routed.moved(self.now)

    def send(self, source: int, action: SendRouted) -> None:
        self._queue.append((source, action.link, action.payload))

    def flood(self, frame: bytes, header: Header) -> None:
        """Hand a batch between gateways to all nodes but its origin, over no link."""
        for node in self.nodes:
            if node.id != header.origin:
                node.do(node.core.take(frame, header))

    def kept(self, place: int) -> list[bytes]:
        """Batches of clients in a log."""
        return [f for f, h in self.logs[place] if h.logged and not (h.control or h.local)]

    def run(self) -> None:
        while self._queue:
            self.arrive(*self._queue.popleft())

    def arrive(self, source: int, to: int, payload: bytes) -> None:
        message, _ = routed_wire.decode(payload)
        self.carried.append((source, to, type(message).__name__))
        if (source, to) not in self.lose:
            node = self.nodes[to]
            node.do(node.routed.receive(source, payload, self.now))

    def wait(self, seconds: float) -> None:
        """Let time pass and every timer fire."""
        end = self.now + seconds
        while (due := min(node.routed.next_timer() for node in self.nodes)) <= end:
            self.now = max(self.now, due)
            for node in self.nodes:
                node.do(node.routed.handle_timer(self.now))
            self.run()
        self.now = end

    def restart(self, place: int, epoch: int) -> Node:
        node = self.nodes[place] = Node(self, place, epoch)
        for other in self.nodes:
            for record in other.routed.interests:
                node.routed.interests.update(record)
        self.link(node)
        return node


def routed_behind(places: Iterable[int]) -> ReachUpdate:
    return ReachUpdate(True, {f"gw-{place}": 1 for place in places})


def numbers(header: Header) -> range:
    return range(header.first, header.last + 1)
