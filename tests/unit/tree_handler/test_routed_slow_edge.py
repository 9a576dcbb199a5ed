"""Routed mode over an edge that is slower than what is published: nothing is sent over it twice."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest

from tests.unit.tree_handler.routed_line import Line, Node
from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals
from tree_handler.routing import wire as routed_wire
from tree_handler.routing.actions import SendRouted
from tree_handler.routing.wire import Ask, Carry

BYTES_PER_S = 20_000
MESSAGE_BYTES = 1_000
FULL_BYTES = 100_000
"""Five seconds of the edge."""
SERVED_AT_ONCE = 25


@dataclass
class Edge:
    """One direction of the slow edge; what is urgent goes first."""

    urgent: deque[bytes] = field(default_factory=deque)
    waiting: deque[bytes] = field(default_factory=deque)
    free_at: float = 0.0
    batch_bytes: int = 0
    times_full: int = 0

    @property
    def queued_bytes(self) -> int:
        return sum(map(len, self.waiting))


class SlowLine(Line):
    """A line of three with one edge that takes `BYTES_PER_S`; the others take no time."""

    def __init__(self, slow: tuple[int, int]) -> None:
        self.edges = {slow: Edge(), slow[::-1]: Edge()}
        self.asked: list[tuple[float, Ask, Intervals]] = []
        super().__init__(3)
        for node in self.nodes:
            node.served_at_once = SERVED_AT_ONCE
        self.nodes[0].serve = self.serve_when_there_is_room  # type: ignore[method-assign]

    def send(self, source: int, action: SendRouted) -> None:
        edge = self.edges.get((source, action.link))
        if edge is None:
            super().send(source, action)
        elif action.is_urgent:
            edge.urgent.append(action.payload)
        elif action.is_batch and edge.queued_bytes > FULL_BYTES:
            edge.times_full += 1
        else:
            edge.waiting.append(action.payload)

    def serve_when_there_is_room(self, ask: Ask, wanted: Intervals) -> None:
        self.asked.append((self.now, ask, wanted))

    def pass_time(self, seconds: float) -> None:
        """Events of the edge and of the timers in their order."""
        end = self.now + seconds
        while True:
            self.run()
            self._serve()
            due = min(node.routed.next_timer() for node in self.nodes)
            ready = [e.free_at for e in self.edges.values() if e.urgent or e.waiting]
            self.now = max(self.now, min(end, due, *ready))
            if self.now >= end:
                return
            for (source, to), edge in self.edges.items():
                if edge.free_at <= self.now and (edge.urgent or edge.waiting):
                    payload = (edge.urgent or edge.waiting).popleft()
                    if isinstance(routed_wire.decode(payload)[0], Carry):
                        edge.batch_bytes += len(payload)
                    edge.free_at = self.now + len(payload) / BYTES_PER_S
                    self.arrive(source, to, payload)
            for node in self.nodes:
                node.do(node.routed.handle_timer(self.now))

    def _serve(self) -> None:
        edge = self.edges.get((0, 1))
        if self.asked and (edge is None or edge.queued_bytes <= FULL_BYTES // 4):
            _, ask, wanted = self.asked.pop(0)
            Node.serve(self.nodes[0], ask, wanted)
            self.run()


def publish(node: Node, topic: str) -> None:
    node.publish_all([Entry(topic, bytes(MESSAGE_BYTES), qos=1)], Flags.LOGGED)


@pytest.mark.parametrize("slow", [(0, 1), (1, 2)], ids=["at the origin", "on the way"])
def test_what_is_queued_on_a_slow_edge_is_not_asked_for_nor_sent_again(
    slow: tuple[int, int],
) -> None:
    line = SlowLine(slow)
    line.nodes[2].wants(2, "#")
    count = 600
    for number in range(count):
        publish(line.nodes[0], str(number))
        line.pass_time(0.01)
    edge = line.edges[slow]
    assert edge.times_full > 100
    all_s = count * (MESSAGE_BYTES + 100) / BYTES_PER_S
    line.pass_time(1.4 * all_s)
    assert line.nodes[2].got == [str(number) for number in range(count)]
    assert edge.batch_bytes < 1.02 * count * (MESSAGE_BYTES + 100)
    assert line.nodes[2].core.counters.duplicates == 0
    assert line.nodes[0].routed.accounts.owed() == {}
