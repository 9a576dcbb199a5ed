"""Numbers whose messages are not for a gateway: by the origin's wish, or because none is wanted."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.errors import BatchError, ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import epoch_order
from tree_handler.replication.answering import answer
from tree_handler.replication.arrivals import MAX_GAPS
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import Summary
from tree_handler.replication.repairing import RepairSettings
from tree_handler.replication.replication import (
    Append,
    Lost,
    Replication,
    ReplicationAction,
    SendBatch,
    SendSummary,
)
from tree_handler.replication.set_aside import TRIES

STREAM = ("gw-0", 1)
LOCAL = Flags.LOGGED | Flags.LOCAL


def make(
    first: int, count: int = 1, flags: int = Flags.LOGGED, origin: str = "gw-0"
) -> tuple[bytes, Header]:
    rows = [Entry("t", b"", 1).row()] * count
    return batch.make(origin, 1, first, rows, flags=flags, origin_time_us=0)


class Gateway:
    """A core with a log in memory, and the numbers that its clients got."""

    def __init__(self, core: Replication, log: list[tuple[bytes, Header]]) -> None:
        self.core = core
        self.log = log
        self.got: list[int] = []
        self.others: list[ReplicationAction] = []

    def meet(self, link: int | None = 1) -> None:
        """Take what gw-0 begins its epoch with."""
        row = epoch_order.statement("gw-0", 1, {}).row()
        flags = Flags.LOGGED | Flags.CONTROL
        frame, header = batch.make("gw-0", 1, 1, [row], flags=flags, origin_time_us=0)
        if link is None:
            self.log.append((frame, header))
            self.do(self.core.appended(Append(frame, header, 1)))
        else:
            self.do(self.core.receive_batch(link, frame))
        self.got.clear()
        self.others.clear()

    def do(self, actions: list[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case Append(frame, header):
                    self.log.append((frame, header))
                    self.do(self.core.appended(action))
                case Deliver(_, header, first):
                    self.got += range(first, header.last + 1)
                case DeliverLogged(stream, first, last):
                    for _, header in sorted(self.log, key=lambda row: row[1].first):
                        if header.stream == stream and header.logged:
                            numbers = range(header.first, header.last + 1)
                            self.got += [n for n in numbers if first <= n <= last]
                case _:
                    self.others.append(action)

    def sent(self) -> list[Header]:
        frames = [action.frame for action in self.others if isinstance(action, SendBatch)]
        self.others.clear()
        return [header for header in map(batch.check, frames) if not header.control]

    def held(self) -> list[Header]:
        return [header for _, header in self.log if header.stream == STREAM]

    def restarted(self, epoch: int) -> Gateway:
        told = [row for row in self.log if row[1].control]
        have: dict[batch.Epoch, Intervals] = {}
        for _, header in self.log:
            if header.numbered:
                have.setdefault(header.stream, Intervals()).add(header.first, header.last)
        core = Replication(self.core.origin, epoch, have, self.core.settings, told)
        life = Gateway(core, self.log)
        life.got = self.got
        return life


def flooding(name: str = "gw-0") -> Gateway:
    gateway = Gateway(Replication(name, 1), [])
    gateway.do(gateway.core.repair.link_up(1, 0.0))
    gateway.do(gateway.core.repair.forwarding(1, forwards=True))
    if name != "gw-0":
        gateway.meet()
    gateway.others.clear()
    return gateway


def routed() -> Gateway:
    gateway = Gateway(Replication("gw-1", 1, settings=RepairSettings(floods_clients=False)), [])
    gateway.meet(None)
    return gateway


def published(gateway: Gateway, *flags: int) -> None:
    for flag in flags:
        gateway.do(gateway.core.publish([Entry("t", b"", 1).row()], flag, 0))


def test_what_is_to_stay_is_logged_and_numbered_and_its_numbers_are_told_before_the_next() -> None:
    gateway = flooding()
    published(gateway, LOCAL, LOCAL)
    assert gateway.sent() == []
    published(gateway, Flags.LOGGED, LOCAL, Flags.LOGGED)
    said = [(header.passed, header.first, header.last) for header in gateway.sent()]
    assert said == [(True, 1, 2), (False, 3, 3), (True, 4, 4), (False, 5, 5)]
    assert gateway.core.covered(STREAM) == Intervals([(1, 5)])
    assert [header.first for header in gateway.held()] == [1, 2, 3, 4, 5]


def test_what_nothing_follows_is_told_when_summaries_are_due_and_only_once() -> None:
    gateway = flooding()
    published(gateway, LOCAL)
    gateway.do(gateway.core.repair.handle_timer(100.0))
    assert [(header.passed, header.last) for header in gateway.sent()] == [(True, 1)]
    gateway.do(gateway.core.repair.handle_timer(200.0))
    assert gateway.sent() == []


def test_however_far_an_origin_has_counted_one_word_of_it_costs_one_line_in_the_log() -> None:
    gateway = routed()
    for _ in range(3):
        gateway.do(gateway.core.passed_over(STREAM, 1, batch.MAX_NUMBER))
    assert [header.count for header in gateway.held()] == [batch.MAX_PASSED] * 3
    assert gateway.core.covered(STREAM) == Intervals([(1, 3 * batch.MAX_PASSED)])


def test_an_origin_that_passes_over_every_other_number_fills_no_table() -> None:
    have = Intervals((number, number) for number in range(1, 2 * MAX_GAPS, 2))
    gateway = Gateway(Replication("gw-1", 9, {STREAM: have}, RepairSettings()), [])
    far = 4 * MAX_GAPS
    for number in range(far, far + 10, 2):
        gateway.do(gateway.core.passed_over(STREAM, number, number))
    assert gateway.held() == []
    assert gateway.core.counters.left_out == 5
    gateway.do(gateway.core.passed_over(STREAM, 2, 2))  # two ranges become one
    gateway.do(gateway.core.passed_over(STREAM, far, far))
    assert [header.first for header in gateway.held()] == [2, far]


def test_a_statement_is_passed_on_and_lets_go_what_waits_behind_it() -> None:
    gateway = flooding("gw-1")
    gateway.do(gateway.core.repair.link_up(2, 0.0))
    gateway.do(gateway.core.repair.forwarding(2, forwards=True))
    gateway.do(gateway.core.receive_batch(1, make(4)[0]))
    assert gateway.got == []
    gateway.others.clear()
    statement, _ = batch.passed(STREAM, 1, 3)
    gateway.do(gateway.core.receive_batch(1, statement))
    assert gateway.got == [4]
    assert [(s.link, s.frame) for s in gateway.others if isinstance(s, SendBatch)] == [
        (2, statement)
    ]
    gateway.do(gateway.core.receive_batch(1, statement))
    assert gateway.core.counters.duplicates == 0
    assert len(gateway.held()) == 2


def test_after_a_restart_nothing_behind_a_statement_is_handed_out_again_or_held_back() -> None:
    gateway = flooding("gw-1")
    for frame, _ in (make(1), batch.passed(STREAM, 2, 4), make(5), make(7)):
        gateway.do(gateway.core.receive_batch(1, frame))
    again = gateway.restarted(2)
    again.do(again.core.repair.link_up(1, 0.0))
    again.do(again.core.repair.forwarding(1, forwards=True))
    for frame, _ in (batch.passed(STREAM, 2, 4), make(5), batch.passed(STREAM, 6, 6), make(8)):
        again.do(again.core.receive_batch(1, frame))
    assert again.got == [1, 5, 7, 8]


def test_a_request_for_what_stays_is_answered_by_one_statement_for_each_range() -> None:
    log = [make(1), make(2, 2, LOCAL), make(4, 1, LOCAL), make(5), make(6, 1, LOCAL)]
    statements = [
        (header.passed, header.first, header.last) for header in map(batch.check, answer(log))
    ]
    assert statements == [(False, 1, 1), (True, 2, 4), (False, 5, 5), (True, 6, 6)]


def test_what_one_gateway_was_passed_over_is_no_answer_to_another() -> None:
    flags = Flags.PASSED | Flags.LOCAL
    assert list(answer([batch.passed(STREAM, 1, 3, flags), batch.passed(STREAM, 4, 5)])) == [
        batch.passed(STREAM, 4, 5)[0]
    ]


@pytest.mark.parametrize(
    "frame", [make(1, 1, LOCAL)[0], batch.passed(STREAM, 1, 1, Flags.PASSED | Flags.LOCAL)[0]]
)
def test_what_was_not_to_leave_a_gateway_breaks_the_protocol(frame: bytes) -> None:
    gateway = flooding("gw-1")
    with pytest.raises(ProtocolError, match="not to leave"):
        gateway.core.receive_batch(1, frame)


def refused(gateway: Gateway, frame: bytes, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ProtocolError):
            gateway.core.receive_batch(1, frame, repair=True)


@pytest.mark.parametrize(
    "frame", [make(1, 2, LOCAL)[0], make(1, 2)[0] + b"more"], ids=["local", "with more behind it"]
)
def test_a_batch_that_is_refused_again_and_again_counts_as_lost_and_order_goes_on(
    frame: bytes,
) -> None:
    gateway = flooding("gw-1")
    gateway.do(gateway.core.receive_batch(1, make(3, 2)[0]))
    assert gateway.got == []
    refused(gateway, frame, TRIES - 1)
    assert gateway.core.counters.set_aside == 0
    gateway.do(gateway.core.receive_batch(1, frame, repair=True))
    assert gateway.got == [3, 4]
    [lost] = [action for action in gateway.others if isinstance(action, Lost)]
    assert (lost.stream, lost.first, lost.last) == (STREAM, 1, 2)
    assert lost.why.startswith(f"refused {TRIES} times: batch")
    assert gateway.core.counters.set_aside == gateway.core.counters.lost == 2
    # It is no more asked for, nor is it after a restart.
    have = {STREAM: Intervals([(1, 4)]), ("$gw-0", 1): Intervals([(1, 1)])}
    for life in (gateway, gateway.restarted(2)):
        life.do(life.core.repair.link_up(2, 0.0))
        assert life.core.repair.receive_summary(2, Summary(have, {}), 0.0) == []


def test_what_another_neighbour_can_send_is_not_set_aside() -> None:
    gateway = flooding("gw-1")
    gateway.do(gateway.core.repair.link_up(2, 0.0))
    gateway.core.repair.receive_summary(
        2, Summary({STREAM: Intervals([(1, 2)])}, completes=True), 0.0
    )
    refused(gateway, make(1, 2, LOCAL)[0], 3 * TRIES)
    gateway.do(gateway.core.receive_batch(2, make(1, 2)[0], repair=True))
    assert gateway.got == [1, 2]


def test_what_a_neighbour_says_of_this_gateways_own_messages_is_not_set_aside() -> None:
    gateway = flooding()
    refused(gateway, make(1, 2)[0], 3 * TRIES)


def test_a_batch_that_no_origin_makes_sets_nothing_aside() -> None:
    gateway = flooding("gw-1")
    refused(gateway, batch.passed(STREAM, 1, 1 << 31, LOCAL | Flags.PASSED)[0], 3 * TRIES)
    assert gateway.core.covered(STREAM).last == 0


def test_what_a_log_refuses_is_not_set_aside() -> None:
    gateway = flooding("gw-1")
    for _ in range(3 * TRIES):  # its disk is full
        [append] = gateway.core.receive_batch(1, make(1)[0], repair=True)
    gateway.do([append])
    assert gateway.got == [1]


def test_where_clients_are_routed_only_control_is_flooded_told_and_asked_for() -> None:
    gateway = routed()
    gateway.do(gateway.core.repair.link_up(1, 0.0))
    gateway.do(gateway.core.repair.forwarding(1, forwards=True))
    gateway.others.clear()
    published(gateway, Flags.LOGGED, Flags.NONE, Flags.LOGGED | Flags.CONTROL)
    frames = [action.frame for action in gateway.others if isinstance(action, SendBatch)]
    gateway.others.clear()
    assert [batch.check(frame).control for frame in frames] == [True, True]
    gateway.do(gateway.core.repair.handle_timer(100.0))
    (told,) = [action for action in gateway.others if isinstance(action, SendSummary)]
    assert list(told.summary.have) == [("$gw-1", 1)]  # that of gw-0 was told before
    gateway.others.clear()
    other = Replication("gw-0", 1, {STREAM: Intervals([(1, 5)])})
    (tell,) = other.repair.link_up(1, 0.0)
    assert isinstance(tell, SendSummary)
    assert gateway.core.repair.receive_summary(1, tell.summary, 0.0) == []
    assert gateway.core.receive_batch(1, make(1)[0]) == []
    assert gateway.core.counters.discarded == 1


def test_taken_batches_are_handed_out_in_order_once_and_never_passed_on() -> None:
    gateway = routed()
    gateway.do(gateway.core.repair.link_up(1, 0.0))
    gateway.do(gateway.core.repair.forwarding(1, forwards=True))
    gateway.others.clear()
    for number in (1, 4, 1):
        gateway.do(gateway.core.take(*make(number)))
    assert gateway.got == [1]
    gateway.do(gateway.core.passed_over(STREAM, 2, 3))
    assert gateway.got == [1, 4]
    assert gateway.core.covered(STREAM) == Intervals([(1, 4)])
    assert gateway.core.passed_over(STREAM, 1, 4) == []
    assert gateway.others == []
    assert gateway.core.counters.duplicates == 1


def test_taken_qos_0_is_handed_out_once() -> None:
    gateway = routed()
    for _ in range(2):
        gateway.do(gateway.core.take(*make(1, 1, Flags.NONE)))
    assert gateway.got == [1]
    assert gateway.held() == []


@given(st.integers(0, 2**32), st.booleans())
def test_whatever_comes_in_whatever_order_over_restarts_each_wanted_message_is_handed_out_once(
    seed: int, routes: bool
) -> None:
    """Numbers 1 to n, each in a batch or passed over; some come twice, all come in the end."""
    chance = random.Random(seed)
    parts: list[tuple[int, int, bool]] = []
    last = 0
    while last < chance.randrange(1, 60):
        count = chance.randrange(1, 5)
        parts.append((last + 1, count, chance.random() < 0.5))
        last += count
    wanted = [first + i for first, count, passed in parts if not passed for i in range(count)]
    gateway = routed() if routes else flooding("gw-1")
    epoch = 1
    arrivals = parts + chance.sample(parts, len(parts) // 2)
    chance.shuffle(arrivals)
    for first, count, passed in arrivals:
        if chance.random() < 0.1:
            held = gateway.core.covered(STREAM).contiguous_from(1)
            assert gateway.got == [n for n in wanted if n <= held]
            epoch += 1
            gateway = gateway.restarted(epoch)
            gateway.do(gateway.core.repair.link_up(1, 0.0))
            gateway.do(gateway.core.repair.forwarding(1, forwards=True))
        if routes and passed:
            gateway.do(gateway.core.passed_over(STREAM, first, first + count - 1))
        elif routes:
            gateway.do(gateway.core.take(*make(first, count)))
        else:
            statement = batch.passed(STREAM, first, first + count - 1)
            frame, _ = statement if passed else make(first, count)
            gateway.do(gateway.core.receive_batch(1, frame))
    assert gateway.got == wanted
    assert gateway.core.covered(STREAM) == Intervals([(1, last)] if last else [])


def test_a_statement_is_of_1_to_4294967295_numbers() -> None:
    for first, count in ((7, 1), (1, 4_294_967_295)):
        frame, header = batch.passed(("gw", 1), first, first + count - 1)
        assert (header.first, header.count, header.passed) == (first, count, True)
        assert batch.check(frame) == header
    for first, last in ((7, 6), (7, 5), (1, 4_294_967_296)):
        with pytest.raises(BatchError, match="numbers passed over"):
            batch.passed(("gw", 1), first, last)
