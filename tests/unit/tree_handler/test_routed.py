"""Routed mode on a line of gateways: who carries what, and how each gap is told and closed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import pytest

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.epoch_order import EpochOrder
from tree_handler.replication.repairing import RepairSettings
from tree_handler.replication.replication import Append, Replication, Route
from tree_handler.routing import wire as routed_wire
from tree_handler.routing.actions import Send, ServeRouted, Settle
from tree_handler.routing.interest import Interest, Interests
from tree_handler.routing.locator import Locator
from tree_handler.routing.routed import MAX_RUNS, Routed, Run
from tree_handler.routing.wire import Ask, Carry, Claim


class Node:
    """One gateway with a log in memory; links are named by the neighbour's place on the line."""

    def __init__(self, line: Line, place: int, epoch: int = 1) -> None:
        self.line, self.place, self.id = line, place, f"gw-{place}"
        self.log = line.logs.setdefault(place, [])
        have: dict[batch.Epoch, Intervals] = {}
        for _, header in self.log:
            have.setdefault(header.stream, Intervals()).add(header.first, header.last)
        told = [(frame, header) for frame, header in self.log if header.control]
        self.core = Replication(
            self.id, epoch, have, settings=RepairSettings(floods_clients=False), told=told
        )
        self.locator = Locator(self.id)
        self.routed = Routed(self.core, Interests(self.id), self.locator)
        self.got: list[str] = []
        self.served_at_once = 99
        self.is_full = False
        self._run = Run([], frozenset())

    def publish(self, *topics: str, qos: int = 1, retain: bool = False) -> None:
        rows = [Entry(topic, b"", qos=qos, retain=retain).row() for topic in topics]
        for run in self.routed.runs(rows):
            self._run = run
            self.do(self.core.publish(run.rows, Flags.LOGGED if qos else Flags.NONE, 0))

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
                case Route(frame, header):
                    self.do(self.routed.accepted(frame, header, self._run, self.line.now))
                case Send(link, payload):
                    self.line.send(self.place, link, payload)
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

    def send(self, source: int, to: int, payload: bytes) -> None:
        self._queue.append((source, to, payload))

    def flood(self, frame: bytes, header: Header) -> None:
        """What gateways say to each other reaches all of them, whatever is lost meanwhile."""
        for node in self.nodes:
            if node.id != header.origin:
                node.do(node.core.take(frame, header))

    def kept(self, place: int) -> list[bytes]:
        """Batches of clients in a log."""
        return [f for f, h in self.logs[place] if h.logged and not (h.control or h.local)]

    def run(self) -> None:
        while self._queue:
            source, to, payload = self._queue.popleft()
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


def routed_behind(places: Iterable[int]) -> Any:
    from tree_handler.routing.locator import Behind

    return Behind(True, frozenset(f"gw-{place}" for place in places))


def numbers(header: Header) -> range:
    return range(header.first, header.last + 1)


def batches(line: Line) -> list[tuple[int, int]]:
    return [(a, b) for a, b, kind in line.carried if kind == "Carry"]


def test_only_gateways_on_the_way_carry_a_message_and_only_destinations_keep_it() -> None:
    line = Line(5)
    line.nodes[3].wants(2, "a/+")
    line.nodes[1].publish("a/b")
    line.run()
    assert batches(line) == [(1, 2), (2, 3)]
    assert line.nodes[3].got == ["a/b"]
    assert [len(line.kept(place)) for place in range(5)] == [0, 1, 0, 1, 0]


def test_a_message_that_nobody_wants_goes_nowhere() -> None:
    line = Line(3)
    line.nodes[0].publish("a")
    line.run()
    line.wait(60)
    assert line.carried == []


def test_the_list_of_destinations_is_split_where_the_ways_part() -> None:
    line = Line(5)
    for place in (0, 3, 4):
        line.nodes[place].wants(2, "#")
    line.nodes[2].publish("a")
    line.run()
    assert sorted(batches(line)) == [(1, 0), (2, 1), (2, 3), (3, 4)]
    assert [node.got for node in line.nodes] == [["a"], [], [], ["a"], ["a"]]
    assert len({line.kept(place)[0] for place in (0, 2, 3, 4)}) == 1


def test_a_retained_message_goes_to_all() -> None:
    line = Line(3)
    line.nodes[0].publish("a", retain=True)
    line.run()
    assert [node.got for node in line.nodes] == [[], ["a"], ["a"]]


def test_numbers_that_are_not_for_a_gateway_hold_nothing_up() -> None:
    line = Line(2)
    line.nodes[1].wants(2, "b")
    for topic in "abaab":
        line.nodes[0].publish(topic)
    line.run()
    assert line.nodes[1].got == ["b", "b"]
    assert line.nodes[1].core.covered(("gw-0", 1)) == Intervals([(1, 5)])
    assert line.nodes[1].routed.counters["asks"] == 0


def test_a_subscription_counts_from_when_its_record_is_known() -> None:
    line = Line(2)
    line.nodes[0].publish("a", "a")
    line.nodes[1].wants(2, "a")
    line.nodes[0].publish("a")
    line.run()
    line.wait(5)
    assert line.nodes[1].got == ["a"]


def test_a_lost_batch_is_asked_for_when_the_next_one_comes() -> None:
    line = Line(3)
    line.nodes[2].wants(2, "t/#")
    line.lose = {(1, 2)}
    line.nodes[0].publish("t/1")
    line.run()
    line.lose = set()
    line.nodes[0].publish("x")
    line.nodes[0].publish("t/2")
    line.run()
    assert line.nodes[2].got == ["t/1", "t/2"]
    assert line.nodes[2].routed.counters["asks"] == 1


def test_the_last_batch_is_claimed_until_it_is_there_and_then_all_is_quiet() -> None:
    line = Line(3)
    line.nodes[2].wants(2, "t")
    line.lose = {(1, 2)}
    line.nodes[0].publish("t")
    line.run()
    line.wait(3)
    assert line.nodes[2].got == []
    line.lose = set()
    line.wait(10)
    assert line.nodes[2].got == ["t"]
    before = len(line.carried)
    line.wait(100)
    assert len(line.carried) == before


def test_claims_become_rarer_while_nobody_answers() -> None:
    line = Line(2)
    line.nodes[1].wants(2, "t")
    line.lose = {(0, 1)}
    line.nodes[0].publish("t")
    line.run()
    line.wait(100)
    assert 8 <= line.nodes[0].routed.counters["claims"] <= 16


def test_who_is_out_of_reach_is_not_claimed_of_and_at_once_when_he_is_back() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    a.locator.forwards(())
    a.publish("t")
    line.run()
    line.wait(100)
    assert line.carried == []
    a.locator.forwards({1})
    a.routed.moved(line.now)
    line.wait(0)
    assert b.got == ["t"]


def test_a_large_gap_is_closed_in_several_requests_without_waiting() -> None:
    line = Line(2)
    a, b = line.nodes
    a.served_at_once = 3
    b.wants(2, "t")
    line.lose = {(0, 1)}
    for _ in range(10):
        a.publish("t")
    line.run()
    line.lose = set()
    line.wait(0.5)
    assert b.got == ["t"] * 10
    assert b.routed.counters["asks"] == 4


def test_what_is_asked_for_while_the_log_is_read_is_read_next() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    line.lose = {(0, 1)}
    a.publish("t")
    for epoch in (2, 3):
        saved = a.routed.accounts.save()
        a = line.restart(0, epoch)
        a.routed.accounts.load(saved, line.now)
        a.publish("t")
    line.run()
    asked = [Ask(("gw-0", epoch), "gw-1", Intervals([(1, 1)])) for epoch in (1, 2, 3)]
    asks = [*asked, *asked]
    reading: list[Ask] = []
    for ask in asks:
        reading += served_for(a.routed.receive(1, ask.encode(), 0.0))
    read: list[Ask] = []
    while reading:
        read.append(reading.pop(0))
        reading += served_for(a.routed.served(read[-1], (), is_all=False))
    assert [ask.stream[1] for ask in read] == [1, 2, 3]


def served_for(actions: Iterable[Any]) -> list[Ask]:
    return [action.ask for action in actions if isinstance(action, ServeRouted)]


def test_a_log_that_takes_nothing_is_not_sent_to_over_and_over() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    b.is_full = True
    a.publish("t")
    line.run()
    line.wait(60)
    assert b.routed.counters["asks"] < 20
    b.is_full = False
    line.wait(11)
    assert b.got == ["t"]


def test_what_the_origins_log_has_no_more_is_counted_as_lost_and_not_waited_for() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    line.lose = {(0, 1)}
    a.publish("t")
    line.run()
    line.lose = set()
    a.publish("t")
    a.log[:] = [(f, h) for f, h in a.log if h.control or h.first == 2]
    line.run()
    assert b.got == ["t"]
    assert b.core.counters.lost == 1


def test_what_is_trimmed_before_it_came_is_counted_at_the_origin() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    line.lose = {(0, 1)}
    for _ in range(4):
        a.publish("t")
    line.run()
    a.routed.trimmed({("gw-0", 1): 4})
    assert a.routed.accounts.lost == 3
    line.lose = set()
    line.wait(2)
    assert b.got == ["t"]


def test_an_origin_that_restarts_still_knows_what_it_owed_whom() -> None:
    line = Line(2)
    b = line.nodes[1]
    b.wants(2, "t")
    line.lose = {(0, 1)}
    line.nodes[0].publish("t", "x", "t")
    line.run()
    line.lose = set()
    saved = line.nodes[0].routed.accounts.save()
    again = line.restart(0, epoch=2)
    again.routed.accounts.load(saved, line.now)
    again.routed.moved(line.now)
    line.wait(1)
    assert b.got == ["t", "t"]
    again.publish("t")
    line.run()
    assert b.got == ["t", "t", "t"]
    assert b.core.covered(("gw-0", 1)) == Intervals([(1, 3)])


def an_origin_that_lost_its_disk() -> Line:
    """Its destination lacks a message of the former life, and has the one behind it."""
    line = Line(2)
    line.nodes[1].wants(2, "t/#")
    line.lose = {(0, 1)}
    line.nodes[0].publish("t/1")
    line.run()
    line.lose = {(1, 0)}
    line.nodes[0].publish("t/2")
    line.run()
    line.logs[0].clear()
    line.lose = set()
    line.restart(0, epoch=9).publish("t/3")
    line.run()
    line.wait(20)
    return line


def test_an_origin_that_lost_its_disk_keeps_nobody_waiting_for_what_it_has_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert an_origin_that_lost_its_disk().nodes[1].got == ["t/3"]
    monkeypatch.setattr(EpochOrder, "_is_forgotten", lambda *_: False)
    assert an_origin_that_lost_its_disk().nodes[1].got == []


def test_the_log_alone_tells_a_restarted_origin_the_same_and_what_stays_at_home_stays() -> None:
    line = Line(2)
    a, b = line.nodes
    record = Interest("gw-1", 1, 2, frozenset({"t"}))
    a.publish("t")
    row = Entry("$hedgerow/interest/gw-1", record.encode(), qos=1).row()
    a.do(a.core.publish([row], Flags.LOGGED | Flags.CONTROL, 0))
    b.wants(2, "t")
    line.lose = {(0, 1)}
    a.do(a.core.publish([Entry("t", b"home", qos=1).row()], Flags.LOGGED | Flags.LOCAL, 0))
    a.publish("t")
    line.run()
    line.lose = set()
    found = list(a.log)
    again = Node(line, 0, epoch=2)
    line.nodes[0] = again
    again.routed.interests.update(Interest("gw-1", 1, 1))
    for frame, header in found:
        again.routed.recall(frame, header, line.now)
    line.link(again)
    line.wait(1)
    assert b.got == ["t"]
    assert b.core.covered(("gw-0", 1)) == Intervals([(1, 3)])


def test_a_destination_that_restarts_is_asked_again_whether_it_has_all() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    a.publish("t")
    a.publish("t")
    line.run()
    line.wait(5)
    del line.logs[1][-1]  # a power cut took what was not on the disk yet
    again = line.restart(1, epoch=2)
    again.wants(1, "t", epoch=2)
    line.wait(1)
    assert again.got == ["t"]


def test_messages_of_a_turn_are_cut_where_their_destinations_change() -> None:
    line = Line(3)
    line.nodes[1].wants(2, "a")
    line.nodes[2].wants(2, "b")
    runs = line.nodes[0].routed.runs([Entry(t, b"", qos=1).row() for t in "aabbbxa"])
    assert [(len(run.rows), sorted(run.to)) for run in runs] == [
        (2, ["gw-1"]),
        (3, ["gw-2"]),
        (1, []),
        (1, ["gw-1"]),
    ]


def test_very_many_runs_are_joined_and_go_to_all_who_want_any() -> None:
    line = Line(3)
    line.nodes[1].wants(2, "a")
    line.nodes[2].wants(2, "b")
    rows = [Entry(t, b"", qos=1).row() for t in "ab" * 200]
    runs = line.nodes[0].routed.runs(rows)
    assert len(runs) <= MAX_RUNS
    assert [row for run in runs for row in run.rows] == rows
    assert all(run.to == {"gw-1", "gw-2"} for run in runs[:-1])


def test_qos_0_goes_the_same_way_once_and_is_never_repaired() -> None:
    line = Line(3)
    line.nodes[2].wants(2, "t")
    line.nodes[0].publish("t", qos=0)
    line.run()
    line.lose = {(1, 2)}
    line.nodes[0].publish("t", qos=0)
    line.run()
    line.lose = set()
    line.nodes[0].publish("t", qos=0)
    line.run()
    line.wait(60)
    assert line.nodes[2].got == ["t", "t"]
    assert {kind for _, _, kind in line.carried} == {"Carry"}


def test_a_message_never_goes_back_over_the_link_it_came_by() -> None:
    line = Line(3)
    frame, _ = batch.make("gw-9", 1, 1, [("t", 1, b"")], flags=Flags.LOGGED, origin_time_us=0)
    carry = Carry((("gw-0", 0), ("gw-7", 0)), frame)
    assert line.nodes[1].routed.receive(0, carry.encode(), 0.0) == []
    assert line.nodes[1].routed.counters["would_go_back"] == 1
    assert line.nodes[1].routed.counters["out_of_reach"] == 1


def test_a_message_passes_a_bounded_number_of_gateways() -> None:
    line = Line(3)
    claim = Claim(("gw-0", 1), 1, (("gw-2", 1),))
    assert len(line.nodes[1].routed.receive(0, claim.encode(2), 0.0)) == 1
    assert line.nodes[1].routed.receive(0, claim.encode(1), 0.0) == []
    assert line.nodes[1].routed.counters["hops_used_up"] == 1


def test_nothing_is_taken_from_a_link_that_does_not_forward() -> None:
    line = Line(2)
    b = line.nodes[1]
    b.locator.forwards(())
    frame, _ = batch.make("gw-0", 1, 1, [("t", 1, b"")], flags=Flags.LOGGED, origin_time_us=0)
    b.do(b.routed.receive(0, Carry((("gw-1", 0),), frame).encode(), 0.0))
    assert b.got == []
    assert b.routed.counters["not_forwarding"] == 1


def test_what_no_gateway_sends_is_refused() -> None:
    line = Line(2)
    made = {"flags": Flags.LOGGED | Flags.CONTROL, "origin_time_us": 0}
    frame, _ = batch.make("gw-0", 1, 1, [("t", 1, b"")], **made)  # type: ignore[arg-type]
    for bad in (frame, frame + b"x", b"nonsense"):
        with pytest.raises(ProtocolError):
            line.nodes[1].routed.receive(0, Carry((("gw-1", 0),), bad).encode(), 0.0)


def test_what_is_not_accepted_yet_is_not_passed_over_whoever_asks() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    a.do(a.routed.receive(1, Ask(("gw-0", 1), "gw-1", Intervals([(1, 9)])).encode(), 0.0))
    line.run()
    a.publish("t")
    line.run()
    assert b.got == ["t"]
