"""Replication between nodes joined by lists of bytes: what is accepted arrives once, in order."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.held_objects import held_bytes, held_objects
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import delivery, epoch_order
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.counters import Counters
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.flooding import Flooding
from tree_handler.replication.repair import Request, SearchResult, Seek, Summary
from tree_handler.replication.replication import (
    Append,
    Look,
    Lost,
    Push,
    Replication,
    ReplicationAction,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)


@dataclass
class Node:
    """A core, its log in memory, and what its local clients got."""

    core: Replication
    log: list[tuple[bytes, Header]] = field(default_factory=list)
    got: list[str] = field(default_factory=list)
    disk_full: bool = False
    lost: list[tuple[batch.Epoch, int, int]] = field(default_factory=list)

    def clients(self) -> list[tuple[bytes, Header]]:
        """Return the log's batches of clients' messages."""
        return [row for row in self.log if row[1].logged and not row[1].control]


class Network:
    """Nodes in full mesh; link number n of a node leads to node n. `wires` hold what is sent."""

    def __init__(self, size: int) -> None:
        self.nodes = [Node(Replication(f"gw-{i}", 1)) for i in range(size)]
        self.wires: dict[tuple[int, int], deque[tuple[str, object]]] = {}
        self.now = 0.0

    def connect(self, a: int, b: int, *, forwards: bool) -> None:
        for one, other in ((a, b), (b, a)):
            self.wires[one, other] = deque()
        for one, other in ((a, b), (b, a)):
            core = self.nodes[one].core
            self.carry_out(one, core.repair.link_up(other, self.now))
            self.carry_out(one, core.repair.forwarding(other, forwards=forwards))

    def cut(self, a: int, b: int) -> None:
        for one, other in ((a, b), (b, a)):
            self.wires.pop((one, other), None)
            self.carry_out(one, self.nodes[one].core.repair.link_down(other, self.now))

    def restart(self, at: int, epoch: int) -> None:
        """Begin another life with what is in the log."""
        node = self.nodes[at]
        have: dict[batch.Epoch, Intervals] = {}
        for _, header in node.log:
            have.setdefault(header.stream, Intervals()).add(header.first, header.last)
        told = [row for row in node.log if row[1].control]
        node.core = Replication(f"gw-{at}", epoch, have, told=told)

    def publish(self, at: int, *names: str, qos: int = 1, control: bool = False) -> None:
        rows = [Entry("t", name.encode(), qos).row() for name in names]
        flags = Flags.LOGGED if qos else Flags.NONE
        if control:
            flags |= Flags.CONTROL
        self.carry_out(at, self.nodes[at].core.publish(rows, flags, 0))

    def carry_out(self, at: int, actions: Iterable[ReplicationAction]) -> None:
        node = self.nodes[at]
        for action in actions:
            match action:
                case Append(frame, header):
                    if not node.disk_full:
                        node.log.append((frame, header))
                        self.carry_out(at, node.core.appended(action))
                case SendBatch(link, frame):
                    self.send(at, link, "batch", frame)
                case SendSummary(link, summary):
                    self.send(at, link, "summary", summary.encode())
                case SendRequest(link, request):
                    self.send(at, link, "request", request.encode())
                case SendRepair(link, frame):
                    self.send(at, link, "repair", frame)
                case SendSeek(link, seek):
                    self.send(at, link, "seek", seek.encode())
                case SendSought(link, sought):
                    self.send(at, link, "sought", sought.encode())
                case Look(link, number, wanted):
                    found = self.send_repairs(at, link, wanted)
                    self.carry_out(at, node.core.repair.looked(number, found))
                case Lost(stream, first, last):
                    node.lost.append((stream, first, last))
                case Serve(link, request):
                    self.send_repairs(at, link, request.wanted)
                    self.send(at, link, "done", b"")
                case Push(link, request):
                    self.send_repairs(at, link, request.wanted)
                case Deliver(frame, header, first):
                    self.hand_out(node, frame, header, first)
                case DeliverLogged(key, first, last):
                    for frame, header in sorted(node.log, key=lambda row: row[1].first):
                        if header.stream == key and first <= header.first <= last:
                            self.hand_out(node, frame, header, header.first)

    def send_repairs(
        self, at: int, link: int, wanted: dict[batch.Epoch, Intervals]
    ) -> dict[batch.Epoch, Intervals]:
        found: dict[batch.Epoch, Intervals] = {}
        for stream, numbers in wanted.items():
            for frame, header in self.nodes[at].log:
                whole = Intervals([(header.first, header.last)])
                if header.stream == stream and len(whole.common(numbers)):
                    found.setdefault(stream, Intervals()).update(whole)
                    self.send(at, link, "repair", frame)
        return found

    @staticmethod
    def hand_out(node: Node, frame: bytes, header: Header, first: int) -> None:
        if header.passed:
            return
        entries = batch.decode(frame, header)[first - header.first :]
        node.got.extend(
            f"{header.origin}:{entry.payload.decode()}"
            for entry in entries
            if entry.topic != epoch_order.TOPIC
        )

    def send(self, at: int, link: int, kind: str, payload: object) -> None:
        if (at, link) in self.wires:
            self.wires[at, link].append((kind, payload))

    def step(self, a: int, b: int) -> None:
        """Node b receives the next message from node a."""
        kind, payload = self.wires[a, b].popleft()
        core = self.nodes[b].core
        assert isinstance(payload, bytes)
        match kind:
            case "batch":
                actions = core.receive_batch(a, payload)
            case "repair":
                actions = core.receive_batch(a, payload, repair=True)
            case "summary":
                actions = core.repair.receive_summary(a, Summary.decode(payload), self.now)
            case "request":
                actions = core.repair.receive_request(a, Request.decode(payload))
            case "seek":
                actions = core.repair.receive_seek(a, Seek.decode(payload), self.now)
            case "sought":
                actions = core.repair.receive_sought(a, SearchResult.decode(payload), self.now)
            case _:
                actions = core.repair.receive_done(a, self.now)
        self.carry_out(b, actions)

    def deliver_all(self) -> None:
        """Let everything arrive that is under way."""
        while any(self.wires.values()):
            for (a, b), wire in list(self.wires.items()):
                if wire:
                    self.step(a, b)

    def settle(self) -> None:
        """Deliver everything, then let timers run until nothing more is sent."""
        for _ in range(30):
            self.deliver_all()
            self.now += 10
            for i, node in enumerate(self.nodes):
                self.carry_out(i, node.core.repair.handle_timer(self.now))
            if not any(self.wires.values()):
                return
        pytest.fail("a still network goes on sending")


def test_a_message_reaches_every_other_gateway_once_over_a_line() -> None:
    network = Network(3)
    network.connect(0, 1, forwards=True)
    network.connect(1, 2, forwards=True)
    network.publish(0, "a", "b")
    network.settle()
    assert network.nodes[1].got == network.nodes[2].got == ["gw-0:a", "gw-0:b"]
    assert network.nodes[0].got == []


def test_clients_and_control_messages_are_numbered_apart_logged_or_not() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    network.publish(0, "a")
    network.publish(0, "member", control=True)
    network.publish(0, "b")
    network.publish(0, "q0", qos=0)
    network.publish(0, "query", qos=0, control=True)
    network.settle()
    have = {("gw-0", 1): Intervals([(1, 2)]), ("$gw-0", 1): Intervals([(1, 2)])}
    assert network.nodes[0].core.have == have
    assert network.nodes[1].core.have == have | {("!gw-0", 1): Intervals([(1, 1)])}
    assert network.nodes[0].core.next_logged == 3
    for control in (0, Flags.CONTROL):
        row = Entry("t", b"again").row()
        frame, _ = batch.make("gw-0", 1, 1, [row], flags=control, origin_time_us=0)
        network.carry_out(1, network.nodes[1].core.receive_batch(0, frame))
    assert network.nodes[1].got == [f"gw-0:{name}" for name in ("a", "member", "b", "q0", "query")]


def test_a_gap_in_control_messages_holds_no_clients_message_up() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    network.publish(0, "first member", control=True)
    network.settle()
    network.nodes[0].core.link_full(1)
    network.publish(0, "member", control=True)
    network.carry_out(0, network.nodes[0].core.link_drained(1))
    network.wires[0, 1].clear()
    network.publish(0, "newer member", control=True)
    network.publish(0, "a")
    for _ in range(2):
        network.step(0, 1)
    assert network.nodes[1].got == ["gw-0:first member", "gw-0:a"]
    network.settle()
    assert network.nodes[1].got[2:] == ["gw-0:member", "gw-0:newer member"]


def test_log_and_wire_carry_the_very_same_bytes() -> None:
    network = Network(3)
    network.connect(0, 1, forwards=True)
    network.connect(1, 2, forwards=True)
    network.publish(0, "a", "b", "c")
    network.settle()
    ((frame, _),) = network.nodes[0].clients()
    assert all([row[0] for row in node.clients()] == [frame] for node in network.nodes)


def test_a_batch_that_comes_twice_is_dropped_by_its_header() -> None:
    network = Network(3)
    for a, b in ((0, 1), (1, 2), (0, 2)):  # a loop, which the tree never makes
        network.connect(a, b, forwards=True)
    network.publish(0, "a")
    network.publish(0, "q0", qos=0)
    network.settle()
    assert sorted(network.nodes[2].got) == ["gw-0:a", "gw-0:q0"]
    assert network.nodes[2].core.counters.duplicates == 3  # one is what each epoch begins with


def test_what_was_published_while_the_link_was_cut_is_repaired_in_order() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    network.publish(0, "a")
    network.settle()
    network.cut(0, 1)
    network.publish(0, "b")
    network.publish(0, "c")
    network.connect(0, 1, forwards=True)
    network.publish(0, "d")  # live, ahead of the repair of b and c
    network.settle()
    assert network.nodes[1].got == ["gw-0:a", "gw-0:b", "gw-0:c", "gw-0:d"]


def test_a_blocked_link_repairs_but_carries_no_live_batches() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=False)
    network.publish(0, "a")
    assert all(kind != "batch" for kind, _ in network.wires[0, 1])
    network.settle()
    assert network.nodes[1].got == ["gw-0:a"]


def test_a_live_batch_on_a_link_that_does_not_forward_is_discarded_and_repaired() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    network.carry_out(1, network.nodes[1].core.repair.forwarding(0, forwards=False))
    network.publish(0, "a")
    network.publish(0, "q0", qos=0)
    network.settle()
    assert network.nodes[1].core.counters.discarded == 3
    assert network.nodes[1].got == ["gw-0:a"]


def test_a_full_link_sends_no_live_batches_and_catches_up_when_it_has_drained() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    network.settle()
    network.nodes[0].core.link_full(1)
    network.publish(0, "a")
    assert not network.wires[0, 1]
    network.carry_out(0, network.nodes[0].core.link_drained(1))
    network.settle()
    assert network.nodes[1].got == ["gw-0:a"]


def test_a_restart_continues_from_its_log_and_hands_nothing_out_twice() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    network.publish(0, "a")
    network.settle()
    network.cut(0, 1)
    network.restart(1, 2)
    network.publish(0, "b")
    network.connect(0, 1, forwards=True)
    network.settle()
    assert network.nodes[1].got == ["gw-0:a", "gw-0:b"]


def test_what_no_neighbour_can_send_any_more_is_counted_as_lost_and_holds_nothing_up() -> None:
    network = Network(2)
    for name in "abcd":
        network.publish(0, name)
    trimmed = network.nodes[0].clients()[:2]
    network.nodes[0].log = [row for row in network.nodes[0].log if row not in trimmed]
    network.nodes[0].core.trimmed({("gw-0", 1): 3})
    network.connect(0, 1, forwards=True)
    network.settle()
    assert network.nodes[1].core.counters.lost == 2
    assert network.nodes[1].lost == [(("gw-0", 1), 1, 2)]
    assert network.nodes[1].got == ["gw-0:c", "gw-0:d"]


def test_what_waits_behind_a_gap_is_bounded_in_memory_and_read_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "MAX_HELD_BYTES", 150 + 3 * delivery.BESIDE_BYTES)
    network = Network(2)
    for name in "abcdefgh":
        network.publish(0, name)
    network.connect(0, 1, forwards=True)
    core = network.nodes[1].core
    network.carry_out(1, core.receive_batch(0, network.nodes[0].log[0][0]))
    first, *others = network.nodes[0].clients()
    before = held_bytes(core)
    for frame, _ in others:
        network.carry_out(1, core.receive_batch(0, frame))
    assert network.nodes[1].got == []
    assert held_bytes(core) - before <= 150
    network.carry_out(1, core.receive_batch(0, first[0]))
    assert network.nodes[1].got == [f"gw-0:{name}" for name in "abcdefgh"]


def test_short_batches_behind_a_gap_count_with_all_that_is_kept_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "MAX_HELD_BYTES", 10_000)
    network = Network(2)
    names = [f"{number}" for number in range(500)]
    for name in names:
        network.publish(0, name)
    network.connect(0, 1, forwards=True)
    core = network.nodes[1].core
    network.carry_out(1, core.receive_batch(0, network.nodes[0].log[0][0]))
    first, *others = network.nodes[0].clients()
    before = held_objects(core)
    for frame, _ in others:
        network.carry_out(1, core.receive_batch(0, frame))
    assert held_objects(core) - before < 500
    network.carry_out(1, core.receive_batch(0, first[0]))
    assert network.nodes[1].got == [f"gw-0:{name}" for name in names]


def test_what_the_log_refuses_is_asked_for_again_and_leaves_no_gap() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    network.settle()
    network.nodes[1].disk_full = True
    network.publish(0, "a")
    network.deliver_all()
    assert network.nodes[1].got == []
    network.nodes[1].disk_full = False
    network.publish(0, "b")
    network.settle()
    assert network.nodes[1].got == ["gw-0:a", "gw-0:b"]
    network.nodes[0].disk_full = True
    network.publish(0, "refused")
    network.nodes[0].disk_full = False
    network.publish(0, "c")
    network.settle()
    assert network.nodes[1].got == ["gw-0:a", "gw-0:b", "gw-0:c"]


def test_a_second_gateway_under_the_same_id_and_epoch_is_reported() -> None:
    network = Network(2)
    network.connect(0, 1, forwards=True)
    frame = batch.encode("gw-1", 1, 1, [Entry("t", b"x", 1)], flags=Flags.LOGGED, origin_time_us=0)
    core = network.nodes[1].core
    for times in (1, 2):
        with pytest.raises(ProtocolError, match="never made"):
            core.receive_batch(0, frame)
        assert (core.counters.malformed, core.counters.received) == (times, 0)


def test_the_memory_of_lossy_qos_0_is_constant() -> None:
    core = Replication("gw-0", 1)
    core.repair.link_up(1, 0.0)
    core.repair.forwarding(1, forwards=True)
    held = 0
    for n in range(1, 4_000, 2):
        frame = batch.encode("gw-1", 1, n, [Entry("t", b"")], flags=Flags.NONE, origin_time_us=0)
        core.receive_batch(1, frame)
        held = held or (held_objects(core) if n > 1_000 else 0)
    assert held_objects(core) < 1.1 * held


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_whatever_is_cut_all_that_was_accepted_arrives_everywhere_once_and_in_order(
    seed: int, size: int
) -> None:
    chance = random.Random(seed)
    network = Network(size)
    published: list[list[str]] = [[] for _ in range(size)]
    for _ in range(chance.randrange(5, 60)):
        a, b = chance.sample(range(size), 2)
        match chance.randrange(5):
            case 0:
                network.cut(a, b)
                network.connect(a, b, forwards=chance.random() < 0.6)
            case 1:
                network.cut(a, b)
            case 2 | 3:
                names = [f"{len(published[a]) + i}" for i in range(chance.randrange(1, 4))]
                published[a] += names
                network.publish(a, *names)
            case _:
                for wire in list(network.wires):
                    for _ in range(chance.randrange(3)):
                        if network.wires.get(wire):
                            network.step(*wire)
    for a in range(size):
        for b in range(a):
            if (a, b) not in network.wires:
                network.connect(a, b, forwards=a == b + 1)
    network.settle()
    for i, node in enumerate(network.nodes):
        for origin in range(size):
            got = [row.split(":")[1] for row in node.got if row.startswith(f"gw-{origin}:")]
            assert got == ([] if origin == i else published[origin])


def test_of_a_link_that_has_ended_nothing_is_taken_and_nothing_is_sent_over_it() -> None:
    core = Replication("gw-a", 1)
    frame, header = batch.make(
        "gw-b", 1, 1, [Entry("t", b"", 1).row()], flags=Flags.LOGGED, origin_time_us=0
    )
    repair, flooding = core.repair, Flooding(("gw-a", 1), True, Counters())
    neighbours = AntiEntropy({}, lambda _: True, 5.0, must_prove=False)
    neighbours.came(9, header)
    neighbours.refused(9, header)
    neighbours.offered(9, header)
    neighbours.has_sent(9, header)
    neighbours.progressed(9, 0.0)
    assert neighbours.done(9, 0.0) == []
    assert repair.receive_summary(9, Summary({("gw-b", 1): Intervals([(1, 9)])}), 0.0) == []
    assert repair.receive_request(9, Request({("gw-b", 1): Intervals([(1, 9)])})) == []
    assert repair.receive_seek(9, Seek(("gw-b", 1, 1), {}), 0.0) == []
    assert repair.receive_done(9, 0.0) == []
    assert repair.joins(9) == []
    assert core.receive_batch(9, frame) == core.receive_batch(9, frame, repair=True) == []
    assert core.counters.discarded == 2
    assert core.replay(9, frame, header) == core.link_drained(9) == []
    assert (flooding.set_full(9, is_full=True), flooding.set_forwarding(9, forwards=True)) == (
        False,
        False,
    )
    assert flooding.count_forged(9) == 0
    assert not repair.is_waiting
    assert (bool(flooding), 9 in flooding) == (False, False)


def test_a_link_says_once_that_it_is_full_or_has_drained_and_counts_what_was_forged() -> None:
    flooding = Flooding(("gw-a", 1), True, Counters())
    flooding.link_up(1)
    flooding.link_up(2)
    assert [flooding.set_full(1, is_full=full) for full in (False, True, True, False)] == [
        False,
        True,
        False,
        True,
    ]
    assert [flooding.set_forwarding(1, forwards=on) for on in (False, True, True, False)] == [
        False,
        True,
        False,
        True,
    ]
    flooding.set_full(2, is_full=True)
    assert list(flooding.with_room()) == [1]
    assert [flooding.count_forged(1) for _ in range(3)] == [1, 2, 3]
    flooding.link_down(1)
    assert (1 in flooding, 2 in flooding, flooding.count_forged(1)) == (False, True, 0)


def test_what_is_read_of_the_log_for_a_full_link_goes_there_while_it_forwards() -> None:
    flooding = Flooding(("gw-a", 1), True, Counters())
    rows = [Entry("t", b"", 1).row()]
    logged = batch.make("gw-b", 1, 1, rows, flags=Flags.LOGGED, origin_time_us=0)
    lossy = batch.make("gw-b", 1, 1, rows, flags=Flags.NONE, origin_time_us=0)
    flooding.link_up(1)
    assert flooding.replay(1, [logged]) == []
    flooding.set_forwarding(1, forwards=True)
    assert flooding.replay(1, [logged, lossy]) == [SendBatch(1, logged[0])]
    assert flooding.counters.forwarded == 1
    flooding.set_full(1, is_full=True)
    assert flooding.flood(*logged, None) == []
    assert flooding.flood(*lossy, 2) == [SendBatch(1, lossy[0], 1)]
    assert flooding.flood(*lossy, 1) == []
    assert flooding.counters.forwarded == 2


def test_what_is_of_its_own_present_life_a_gateway_does_not_pass_over() -> None:
    core = Replication("gw-a", 2)
    assert core.passed_over(("gw-a", 2), 1, 9) == []
    [earlier] = core.passed_over(("gw-a", 1), 1, 9)
    assert isinstance(earlier, Append)
    assert (earlier.header.first, earlier.header.last, earlier.source) == (1, 9, None)
    assert earlier.header.passed
    assert earlier.header.local
