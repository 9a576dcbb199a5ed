"""A gateway's own messages that neighbours bring back: handed out as any other origin's are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header, Row
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import epoch_order
from tree_handler.replication.actions import SendRequest, SendSeek
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import Summary
from tree_handler.replication.replication import (
    Append,
    RepairSettings,
    Replication,
    ReplicationAction,
)

OWN = "gw-1"
DAY_S = 24 * 3600.0
NOW = 9
"""The epoch of the present life."""
Frame = tuple[bytes, Header]


def message(epoch: int, number: int, count: int = 1) -> Frame:
    rows: list[Row] = [("t", 1, b"")] * count
    return batch.make(OWN, epoch, number, rows, flags=Flags.LOGGED, origin_time_us=0)


def begins(epoch: int, earlier: dict[int, int]) -> Frame:
    """Return the first batch of a life, which states the ends of the earlier lives."""
    row = epoch_order.statement(
        OWN, epoch, {(OWN, one): Intervals([(1, last)]) for one, last in earlier.items()}
    ).row()
    flags = Flags.LOGGED | Flags.CONTROL
    return batch.make(OWN, epoch, 1, [row], flags=flags, origin_time_us=0)


class Gateway:
    """A core, its log, and what its clients were handed: (epoch, number)."""

    def __init__(self, *log: Frame) -> None:
        self.log = list(log)
        self.got: list[tuple[int, int]] = []
        self.control: list[Header] = []
        self.begin(NOW)

    def begin(self, epoch: int) -> None:
        have: dict[Epoch, Intervals] = {}
        for _, header in self.log:
            have.setdefault(header.stream, Intervals()).add(header.first, header.last)
        told = [row for row in self.log if row[1].control]
        self.core = Replication(OWN, epoch, have, RepairSettings(kept_lives=0), told)
        self.do(self.core.repair.link_up(1, 0.0))
        self.do(self.core.repair.forwarding(1, forwards=True))

    def do(self, actions: list[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case Append(frame, header):
                    self.log.append((frame, header))
                    self.do(self.core.appended(action))
                case Deliver(_, header, first) if not header.control:
                    self.got += [(header.epoch, n) for n in range(first, header.last + 1)]
                case Deliver(_, header, _):
                    self.control.append(header)
                case DeliverLogged((_, epoch), first, last):
                    self.got += [(epoch, n) for n in range(first, last + 1)]
                case _:
                    pass

    def take(self, *frames: Frame) -> None:
        for frame, _ in frames:
            self.do(self.core.receive_batch(1, frame))


def test_what_a_lost_tail_held_is_handed_out_when_a_neighbour_brings_it() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1, 4))
    gateway.take(message(3, 5), message(3, 6, 3))
    assert gateway.got == [(3, 5), (3, 6), (3, 7), (3, 8)]


def test_what_stood_in_a_damaged_frame_is_handed_out_before_what_is_behind_it() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1, 4), message(3, 9, 2))
    gateway.take(message(3, 7, 2))
    assert gateway.got == []
    gateway.take(message(3, 5, 2))
    assert gateway.got == [(3, number) for number in range(5, 11)]


def test_of_a_batch_that_is_known_in_part_only_the_rest_is_handed_out() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1, 4))
    gateway.take(message(3, 3, 4))
    assert gateway.got == [(3, 5), (3, 6)]


def test_lives_that_ran_elsewhere_come_in_their_order_however_repair_brought_them() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1))
    gateway.take(message(7, 1), begins(7, {3: 1, 5: 2}), message(5, 2))
    assert gateway.got == []
    gateway.take(begins(5, {3: 1}), message(5, 1))
    assert gateway.got == [(5, 1), (5, 2), (7, 1)]


def test_a_life_elsewhere_waits_for_the_tail_that_the_life_before_it_lost() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1))
    gateway.take(begins(5, {3: 2}), message(5, 1))
    assert gateway.got == []
    gateway.take(message(3, 2))
    assert gateway.got == [(3, 2), (5, 1)]


@pytest.mark.parametrize("present", [4, 9], ids=["a clone ahead", "a clone behind"])
def test_the_present_life_waits_for_no_other(present: int) -> None:
    gateway = Gateway(begins(3, {}), message(3, 1))
    gateway.begin(present)
    gateway.take(message(6, 1))
    before = len(gateway.log)
    gateway.do(gateway.core.publish([("t", 1, b"")], Flags.LOGGED, 0))
    assert len(gateway.log) == before + 2  # what begins the life, and the message
    assert gateway.got == []
    gateway.take(begins(6, {}))
    assert gateway.got == [(6, 1)]


def test_what_came_before_a_restart_counts_as_handed_out_for_the_start_does_that() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1))
    gateway.take(begins(5, {3: 2}), message(5, 1), message(3, 2))
    gateway.begin(NOW + 1)
    assert gateway.core.handed_out((OWN, 3)) == 2
    assert gateway.core.handed_out((OWN, 5)) == 1
    gateway.got.clear()
    gateway.take(message(3, 2), message(5, 1), message(5, 2))
    assert gateway.got == [(5, 2)]


def test_its_own_word_to_other_gateways_is_not_handed_to_itself() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1))
    gateway.take(begins(5, {3: 1}))
    assert gateway.control == []


def test_a_life_that_waits_is_not_forgotten_though_the_log_has_trimmed_it() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1))
    gateway.take(message(5, 1))
    gateway.do(gateway.core.trimmed({(OWN, 3): 2, (OWN, 5): 2}))
    gateway.take(begins(5, {3: 1}))
    assert gateway.got == [(5, 1)]


def test_what_the_log_loses_while_it_runs_is_asked_for_and_handed_out_once_more() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1, 4))
    gateway.take(message(3, 5, 4))
    assert gateway.got == [(3, number) for number in range(5, 9)]
    gateway.core.lost((OWN, 3), Intervals([(2, 3), (6, 6)]))
    assert gateway.core.covered((OWN, 3)).missing(1, 8) == [(2, 3), (6, 6)]
    gateway.take(message(3, 9))  # which does not wait for them
    assert gateway.got[4:] == [(3, 9)]
    gateway.take(message(3, 2, 2), message(3, 6), message(3, 10))
    assert gateway.core.covered((OWN, 3)) == Intervals([(1, 10)])
    assert gateway.got[5:] == [(3, number) for number in (2, 3, 6, 10)]
    gateway.take(message(3, 2, 2), message(3, 6))
    assert len(gateway.got) == 9


def test_a_word_to_gateways_that_the_log_loses_is_asked_for_and_not_acted_on_again() -> None:
    gateway = Gateway()
    row = [("$hedgerow/x", 1, b"")]
    flags = Flags.LOGGED | Flags.CONTROL
    made = batch.make("other", 2, 1, row, flags=flags, origin_time_us=0)
    gateway.take(made)
    assert len(gateway.control) == 1
    gateway.core.lost(made[1].stream, Intervals([(1, 1)]))
    gateway.take(made)
    assert gateway.core.covered(made[1].stream) == Intervals([(1, 1)])
    assert len(gateway.control) == 1


def test_what_own_clients_had_stays_handed_out_when_the_log_loses_a_part_of_it() -> None:
    gateway = Gateway()
    own = (OWN, NOW)
    for _ in range(5):
        gateway.do(gateway.core.publish([("t", 1, b"")], Flags.LOGGED, 0))
    # As where the log tells the core: it reads what the log has, which is less then.
    gateway.core.have[own] = gateway.core.have[own].without(Intervals([(2, 2)]))
    gateway.core.lost(own, Intervals([(2, 2)]))
    assert gateway.core.handed_out(own) == 5
    gateway.do(gateway.core.publish([("t", 1, b"")], Flags.LOGGED, 0))
    assert gateway.core.handed_out(own) == 6


def test_who_is_alone_for_a_day_waits_for_nobody_and_hands_out_what_is_behind_a_gap() -> None:
    gateway = Gateway(begins(3, {}), message(3, 1), message(3, 4, 2))
    gateway.do(gateway.core.repair.link_down(1, 0.0))
    gateway.do(gateway.core.repair.handle_timer(10.0))
    gateway.do(gateway.core.repair.handle_timer(DAY_S))
    assert gateway.got == []
    gateway.do(gateway.core.repair.handle_timer(DAY_S + 10.0))
    assert gateway.got == [(3, 4), (3, 5)]
    assert gateway.core.counters.lost == 2
    gateway.do(gateway.core.repair.handle_timer(DAY_S + 20.0))
    assert gateway.core.counters.lost == 2


def test_what_a_neighbour_could_send_until_it_went_is_waited_for_a_day_though_more_is_missing() -> (
    None
):
    """Wait for what was missing before that, too: who links anew may have both."""
    gateway = Gateway(begins(3, {}), message(3, 1), message(3, 3))
    repair = gateway.core.repair
    gateway.do(repair.handle_timer(0.0))  # nobody has the second
    late = DAY_S - 60.0
    gateway.take(message(3, 6))
    theirs = Summary({(OWN, 3): Intervals([(3, 6)])}, completes=True)
    gateway.do(repair.receive_summary(1, theirs, late))
    gateway.do(repair.handle_timer(late))
    gateway.do(repair.link_down(1, late + 1.0))
    for now in (late + 10.0, DAY_S + 10.0, DAY_S + late - 10.0):
        gateway.do(repair.handle_timer(now))
    gateway.do(repair.link_up(1, DAY_S + late))  # for a moment, between two rounds
    gateway.do(repair.link_down(1, DAY_S + late + 1.0))
    for now in (DAY_S + late + 20.0, 2 * DAY_S + late):
        gateway.do(repair.handle_timer(now))
    assert gateway.core.counters.lost == 0
    gateway.do(repair.handle_timer(2 * DAY_S + late + 20.0))
    assert gateway.core.counters.lost == 3
    assert gateway.got == [(3, 3), (3, 6)]


def of_a_forgotten_word(*log: Frame, end: int) -> Gateway:
    """A gateway to which a life comes whose first word it had and has forgotten."""
    gateway = Gateway(begins(3, {}), *log, begins(5, {3: end}))
    control = ("$" + OWN, 5)
    gateway.do(gateway.core.trimmed({control: 2, ("$" + OWN, 3): 2, (OWN, 3): 2}))
    assert control not in gateway.core.have
    gateway.take(message(5, 1))
    return gateway


def sought(gateway: Gateway) -> list[Mapping[Epoch, Intervals]]:
    actions = gateway.core.repair.handle_timer(10.0)
    return [action.seek.wanted for action in actions if isinstance(action, SendSeek)]


def test_what_comes_of_a_life_whose_own_word_is_forgotten_waits_for_that_no_more() -> None:
    gateway = of_a_forgotten_word(message(3, 1), end=1)
    assert gateway.got == [(5, 1)]
    assert sought(gateway) == []


def test_nobody_seeks_the_forgotten_word_of_a_life_that_waits_for_something_else() -> None:
    gateway = of_a_forgotten_word(message(3, 1), message(3, 3), end=3)
    assert gateway.got == []
    assert sought(gateway) == [{(OWN, 3): Intervals([(2, 2)])}]


@pytest.mark.parametrize("floods_clients", [True, False])
def test_what_the_present_life_lost_comes_back_or_is_noted_and_takes_no_number_twice(
    *, floods_clients: bool
) -> None:
    settings = RepairSettings(floods_clients=floods_clients)
    core = Replication(OWN, NOW, {}, settings)
    log: list[Frame] = []

    def do(actions: list[ReplicationAction]) -> list[ReplicationAction]:
        for action in actions:
            if isinstance(action, Append):
                log.append((action.frame, action.header))
                do(core.appended(action))
        return actions

    for _ in range(4):
        do(core.publish([("t", 1, b"")], Flags.LOGGED, 0))
    do(core.repair.link_up(1, 0.0))
    do(core.repair.forwarding(1, forwards=True))
    theirs = Summary({(OWN, NOW): Intervals([(1, 4)])}, completes=True)
    core.lost((OWN, NOW), Intervals([(2, 2)]))
    asked = core.repair.receive_summary(1, theirs, 1.0)
    second = next(frame for frame, header in log if header.clients and header.first == 2)
    if floods_clients:
        assert any(isinstance(action, SendRequest) for action in asked)
        do(core.receive_batch(1, second, repair=True))
        assert log[-1][0] == second
    else:
        do(core.repair.handle_timer(10.0))
        assert log[-1][1].passed
    assert core.covered((OWN, NOW)) == Intervals([(1, 4)])
    assert core.next_logged == 5
    with pytest.raises(ProtocolError, match="never made"):
        core.take(*message(NOW, 5), link=1)
