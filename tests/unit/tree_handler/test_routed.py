"""Routed mode on a line of gateways: who carries what, and how each gap is told and closed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from tests.unit.tree_handler.routed_line import Line, Node
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import epoch_order
from tree_handler.replication.losses import UNDER_WAY_INTERVALS
from tree_handler.replication.replication import Append, RepairSettings, Replication
from tree_handler.routing import wire as routed_wire
from tree_handler.routing.actions import RoutingAction, SendRouted, ServeRouted
from tree_handler.routing.destination import Destination
from tree_handler.routing.interest import Interest
from tree_handler.routing.locator import Locator, ReachUpdate
from tree_handler.routing.routed_links import RoutedLinks
from tree_handler.routing.runs import MAX_RUNS
from tree_handler.routing.wire import Ack, Ask, Carry, Claim, Pairs, Tell
from tree_handler.seal import Seals, address_of
from tree_handler.simulation.model_keys import ModelRing, ModelSigner


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


def test_what_came_is_handed_out_though_the_origins_log_has_dropped_what_was_before_it() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t/#")
    line.lose = {(0, 1)}
    a.publish("t/1")
    line.run()
    line.lose = {(1, 0)}  # nor does anything that it asks for come
    a.publish("t/2")
    line.run()
    assert b.got == []
    line.logs[0].clear()
    a.routed.trimmed({("gw-0", 1): 3})
    line.lose = set()
    line.wait(20)
    assert b.got == ["t/2"]
    assert a.routed.accounts.lost == 2, "of the second it had not heard that it came"
    before = len(line.carried)
    line.wait(300)
    assert len(line.carried) == before


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
    monkeypatch.setattr(epoch_order, "MAX_NAMED", 0)  # it would not name a life that it knows of
    assert an_origin_that_lost_its_disk().nodes[1].got == []


def an_origin_that_lost_its_end() -> Line:
    """Of three messages its destination lacks the second, and the origin has the first alone."""
    line = Line(2)
    origin, b = line.nodes
    b.wants(2, "t/#")
    origin.publish("t/1")
    line.run()
    line.lose = {(0, 1)}
    origin.publish("t/2")
    line.run()
    line.lose = {(1, 0)}
    origin.publish("t/3")
    line.run()
    line.lose = set()
    kept = [row for row in line.logs[0] if row[1].control or row[1].first == 1]
    line.logs[0][:] = kept
    line.restart(0, epoch=9).publish("t/4")
    line.wait(1)
    return line


def test_what_an_origin_lost_behind_its_end_is_given_up_and_keeps_nothing_that_is_there() -> None:
    line = an_origin_that_lost_its_end()
    b = line.nodes[1]
    assert b.got == ["t/1"], "what was lost may be under way"
    interval_s = b.core.settings.interval_s
    for _ in range(UNDER_WAY_INTERVALS + 2):
        line.wait(interval_s)
        b.do(b.core.repair.handle_timer(line.now))
    assert b.got == ["t/1", "t/3", "t/4"]
    assert b.core.counters.lost == 1


def test_what_an_origin_lost_behind_its_end_and_is_still_under_way_is_handed_out_in_order() -> None:
    line = an_origin_that_lost_its_end()
    b = line.nodes[1]
    lost = batch.make(
        "gw-0", 1, 2, [Entry("t/2", b"", qos=1).row()], flags=Flags.LOGGED, origin_time_us=0
    )
    b.do(b.core.take(*lost))
    assert b.got == ["t/1", "t/2", "t/3", "t/4"]
    assert b.core.counters.lost == 0


def test_of_an_origin_s_words_on_the_end_of_a_life_the_last_counts() -> None:
    """It had lost the end of its first life when it told of it for the second time."""
    line = Line(2)
    origin, b = line.nodes
    b.wants(2, "t/#")
    line.lose = {(0, 1)}
    origin.publish("t/1")
    origin.publish("t/2")
    line.run()
    first = [row for row in line.logs[0] if row[1].control or row[1].first == 1]
    line.restart(0, epoch=8).publish("t/x")
    line.run()
    told = [row for row in line.logs[1] if row[1].control and row[1].stream == ("$gw-0", 8)]
    (word,) = batch.decode(*told[0])
    assert (word.topic, msgpack.unpackb(word.payload)) == (epoch_order.TOPIC, [[1, 2]])
    line.logs[0][:] = first
    line.lose = set()
    last = line.restart(0, epoch=9)
    for frame, header in first:
        last.routed.recall(frame, header, line.now)
    last.publish("t/3")
    line.wait(1)
    assert b.got == ["t/1", "t/3"]


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


def test_who_started_again_after_accounts_were_saved_is_not_taken_at_its_former_word() -> None:
    """Both lose their end: the destination what it said it had, the origin that it has heard so."""
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    a.publish("t")
    line.wait(1)
    assert b.got == ["t"]
    assert a.routed.accounts.owed() == {}
    saved = a.routed.accounts.save()
    anew = Interest("gw-1", 2, 1, frozenset({"t"}))
    row = Entry("$hedgerow/interest/gw-1", anew.encode(), qos=1).row()
    a.do(a.core.publish([row], Flags.LOGGED | Flags.CONTROL, 0))
    line.logs[1].clear()
    line.nodes[1] = b = Node(line, 1, epoch=2)
    line.nodes[0] = again = Node(line, 0, epoch=2)
    again.routed.interests.update(Interest("gw-1", 1, 2, frozenset({"t"})))
    again.routed.accounts.load(saved, line.now)
    frame, header = a.log[-1]
    again.routed.recall(frame, header, line.now)
    for node in (again, b):
        line.link(node)
    again.routed.update(anew, line.now)  # that neighbours tell it again brings no news
    line.wait(1)
    assert b.core.covered(("gw-0", 1)) == Intervals([(1, 1)])


def test_what_an_origin_accepted_in_many_lives_while_cut_off_comes_as_soon_as_it_is_back() -> None:
    line = Line(2)
    line.nodes[1].wants(2, "t")
    lives = 20
    line.lose = {(0, 1), (1, 0)}
    for epoch in range(1, lives + 1):
        if epoch > 1:
            origin = line.restart(0, epoch)
            for frame, header in list(origin.log):
                origin.routed.recall(frame, header, line.now)
        line.nodes[0].publish("t", "x", "t")
        line.wait(30)
    line.lose = set()
    origin = line.nodes[0]
    origin.locator.forwards(())
    origin.routed.moved(line.now)
    line.link(origin)
    line.wait(2)
    assert len(line.nodes[1].got) == 2 * lives


def test_a_request_whose_answer_is_under_way_is_repeated_as_it_was_and_answered_once() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    line.lose = {(0, 1)}
    a.publish("t")
    a.publish("t")
    line.run()
    line.lose = set()
    numbers = []
    for seconds in (1.0, 2.5):
        claim = Claim(("gw-0", 1), 2, (("gw-1", 2, 0),))
        for action in b.routed.receive(0, claim.encode(), seconds):
            if isinstance(action, SendRouted):
                message, _ = routed_wire.decode(action.payload)
                assert isinstance(message, Ask)
                numbers.append(message.number)
                a.do(a.routed.receive(1, action.payload, seconds))
    assert len(numbers) == 2
    assert len(set(numbers)) == 1
    line.run()
    assert line.carried.count((0, 1, "Carry")) == 2 + 2  # lost, and answered
    assert b.got == ["t", "t"]


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
    claim = Claim(("gw-0", 1), 1, (("gw-2", 1, 0),))
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


def test_of_what_is_read_for_a_request_statements_are_told_and_messages_are_sent() -> None:
    line = Line(2)
    a, b = line.nodes
    b.wants(2, "t")
    line.lose = {(0, 1)}
    for _ in range(5):
        a.publish("t")
    line.run()
    first = next(row for row in a.log if row[1].logged and not row[1].control)
    flags = Flags.PASSED | Flags.LOCAL
    read = [
        first,
        batch.passed(("gw-0", 1), 2, 2, flags),
        batch.passed(("gw-0", 1), 3, 3, flags | Flags.LOST),
        batch.passed(("gw-0", 1), 4, 4),
    ]
    for number, is_all, gone in ((1, True, [(3, 3), (5, 5)]), (2, False, [(3, 3)])):
        ask = Ask(("gw-0", 1), "gw-1", Intervals([(1, 7)]), number)
        (serve,) = a.routed.receive(1, ask.encode(), 0.0)
        assert serve == ServeRouted(ask, Intervals([(1, 5)]))
        sent = a.routed.served(ask, read, is_all=is_all)
        carry, tell = (
            routed_wire.decode(one.payload)[0] for one in sent if isinstance(one, SendRouted)
        )
        assert carry == Carry((("gw-1", 0),), first[0], is_repair=True)
        passed = Intervals([(2, 2), (4, 4)])  # 6 and 7 are not accepted yet
        assert tell == Tell("gw-1", ("gw-0", 1), 5, 5, passed, Intervals(gone), number)
    assert a.routed.counters["served"] == 2


def links_of(*places: int, counters: Counter[str], seals: Seals | None = None) -> RoutedLinks:
    """Links of gw-m, each of which leads to the gateway of its number."""
    locator = Locator("gw-m", 1)
    for place in places:
        locator.receive(place, ReachUpdate(True, {f"gw-{place}": 1}))
    locator.forwards(set(places))
    return RoutedLinks(locator, counters, seals)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_where_the_ways_part_a_sealed_batch_takes_the_whole_list_along(is_sealed: bool) -> None:
    counters = Counter[str]()
    links = links_of(1, 2, counters=counters)
    flags = Flags.LOGGED | (Flags.SEALED | Flags.ADDRESSED if is_sealed else 0)
    header = batch.make("gw-m", 1, 1, [("t", 1, b"")], flags=Flags.LOGGED, origin_time_us=0)[1]
    header = replace(header, flags=flags)
    to = (("gw-1", 0), ("gw-2", 4), ("gw-9", 0))
    sent = links.carry(Carry(to, b"frame"), header, None, 9)
    listed = routed_wire.pack_pairs(to) if is_sealed else b""
    assert [(one.link, routed_wire.decode(one.payload)) for one in sent] == [
        (1, (Carry(to[:1], b"frame", listed=listed), 9)),
        (2, (Carry(to[1:2], b"frame", listed=listed), 9)),
    ]
    (whole,) = links.carry(Carry(to[:1], b"frame"), header, None, 9)
    assert routed_wire.decode(whole.payload)[0] == Carry(to[:1], b"frame")
    (onward,) = links.carry(Carry(to[:2], b"frame", listed=b"list"), header, 1, 9)
    assert routed_wire.decode(onward.payload)[0] == Carry(to[1:2], b"frame", listed=b"list")
    assert counters == {"carried": 4, "out_of_reach": 1, "would_go_back": 1}


def test_over_an_overlay_a_batch_goes_by_all_its_links_as_often_as_it_may_be_passed_on() -> None:
    counters = Counter[str]()
    links = links_of(counters=counters)
    header = batch.make("gw-m", 1, 1, [("t", 0, b"")] * 2, flags=Flags.NONE, origin_time_us=0)[1]
    message = Carry((("gw-1", 0),), b"frame", overlay=b"name")
    sent = links.carry_in_overlay(message, header, frozenset({7, 3}), 1)
    assert sent == [
        SendRouted(link, message.encode(1), is_batch=True, unlogged=2) for link in (3, 7)
    ]
    assert links.carry_in_overlay(message, header, frozenset({7, 3}), 0) == []
    assert counters == {"carried": 2, "hops_used_up": 1}


def sealed_to(to: Pairs, *, by: str = "gw-0") -> tuple[bytes, Header]:
    """The fifth message of gw-0, sealed for these gateways."""
    seals = Seals(ModelSigner(by), ModelRing(), "t")
    rows = [("t", 1, b"")]
    made = {"flags": Flags.LOGGED, "origin_time_us": 0, "seal": seals.seal}
    address = address_of(routed_wire.pack_pairs(to))
    return batch.make("gw-0", 1, 5, rows, address=address, **made)  # type: ignore[arg-type]


def test_of_a_sealed_batch_the_numbers_before_count_that_its_origin_says() -> None:
    to = (("gw-1", 2), ("gw-2", 4))
    frame, header = sealed_to(to)
    for listed, passed, asked in (
        (to, [(3, 4)], [(1, 2)]),
        ((("gw-1", 4),), [], [(1, 4)]),  # who carries it says otherwise: all before is asked for
        ((("gw-2", 4),), [], [(1, 4)]),
    ):
        seals = Seals(ModelSigner("gw-1"), ModelRing(), "t")
        core = Replication("gw-1", 1, {}, RepairSettings(floods_clients=False, seals=seals))
        asks: list[Ask | Ack] = []

        def send(origin: str, word: Ask | Ack, to: list[Ask | Ack] = asks) -> list[RoutingAction]:
            assert origin == "gw-0"
            to.append(word)
            return [SendRouted(1, b"")]

        destination = Destination(core, send, Counter())
        carry = Carry(to[:1], frame, listed=routed_wire.pack_pairs(listed))
        actions = destination.take(carry, header, 4, 0.0)
        appended = [one.header for one in actions if isinstance(one, Append)]
        assert [(one.first, one.last) for one in appended if one.passed] == passed
        assert [one for one in appended if not one.passed] == [header]
        assert [ask.ranges for ask in asks if isinstance(ask, Ask)] == [Intervals(asked)]
        assert destination.asked == 1
        repaired = replace(carry, is_repair=True)
        assert all(
            not isinstance(one, SendRouted) for one in destination.take(repaired, header, 4, 0.0)
        )


def test_so_much_is_asked_for_at_once_and_of_a_request_without_an_answer_the_same_again() -> None:
    core = Replication("gw-1", 1, {}, RepairSettings(floods_clients=False))
    asks: list[Ask] = []

    def send(_origin: str, word: Ask | Ack) -> list[RoutingAction]:
        assert isinstance(word, Ask)
        asks.append(word)
        return [SendRouted(1, b"")]

    destination = Destination(core, send, Counter())
    destination.claimed(("gw-0", 1), 9_000, 9_000, 0, 0.0)
    assert asks.pop().ranges == Intervals([(1, 5_000)])
    destination.claimed(("gw-0", 1), 9_000, 9_000, 0, 0.9)
    assert asks == []
    destination.claimed(("gw-0", 1), 9_999, 9_999, 0, 1.0)
    assert asks.pop() == Ask(("gw-0", 1), "gw-1", Intervals([(1, 5_000)]), 1)
    for number in range(2, 602, 2):
        core.have.setdefault(("gw-0", 2), Intervals()).add(number, number)
    destination.claimed(("gw-0", 2), 600, 600, 0, 2.0)
    assert len(asks[-1].ranges) == 256
    assert (asks[-1].ranges.last, asks[-1].number) == (511, 2)
    for number in range(1_000):
        destination.claimed((f"gw-x{number}", 1), 1, 1, 0, 2.0)
    assert destination.asked == 1_000


def test_what_the_log_has_lost_of_1_000_streams_is_asked_for_every_ten_seconds() -> None:
    core = Replication("gw-1", 1, {}, RepairSettings(floods_clients=False))
    asked: list[str] = []

    def send(origin: str, _word: Ask | Ack) -> list[RoutingAction]:
        asked.append(origin)
        return [SendRouted(1, b"")]

    destination = Destination(core, send, Counter())
    assert destination.due_at == math.inf
    for number in range(1_001):
        destination.lost((f"gw-{number}", 1), Intervals([(1, 1)]), 5.0)
    destination.lost(("gw-0", 1), Intervals([(2, 2)]), 5.0)
    assert destination.due_at == 5.0
    assert destination.ask_unclaimed(4.9) == []
    destination.ask_unclaimed(5.0)
    assert asked == [f"gw-{number}" for number in range(1_000)]
    assert destination.due_at == 15.0
    core.have["gw-0", 1] = Intervals([(1, 2)])
    for number in range(1, 1_000):
        destination.forget(f"gw-{number}")
    destination.ask_unclaimed(15.0)
    assert (destination.due_at, len(asked), destination.asked) == (math.inf, 1_000, 1)


@pytest.mark.parametrize(
    ("stream", "asks"), [(("gw-0", 1), 1), (("$gw-0", 1), 0), (("gw-1", 1), 0), (("$gw-1", 1), 0)]
)
def test_what_a_log_has_lost_of_clients_of_others_is_asked_of_them_and_nothing_else(
    stream: batch.Epoch, asks: int
) -> None:
    line = Line(2)
    routed = line.nodes[1].routed
    assert routed.next_timer() == math.inf
    routed.lost(stream, Intervals([(1, 1)]), 0.0)
    assert routed.next_timer() == (0.0 if asks else math.inf)
    line.wait(5.0)
    asked = [(a, b) for a, b, kind in line.carried if kind == "Ask"]
    assert asked == [(1, 0)] * asks


def test_a_gateway_gives_an_origins_next_life_up_that_is_gone_for_long() -> None:
    settings = RepairSettings(floods_clients=False, origin_gone_s=100.0)
    core = Replication("gw-1", 1, {}, settings)
    core.repair.link_up(1, 0.0)
    told = epoch_order.statement("gw-0", 4, {("gw-0", 3): Intervals([(1, 2)])}).row()
    flags = Flags.LOGGED | Flags.CONTROL
    control = batch.make("gw-0", 4, 1, [told], flags=flags, origin_time_us=0)
    message = batch.make("gw-0", 4, 1, [("t", 1, b"")], flags=Flags.LOGGED, origin_time_us=0)
    for frame, header in (control, message):
        for action in core.receive_batch(1, frame, repair=True) or core.take(frame, header):
            assert isinstance(action, Append)
            core.appended(action)
    assert core.handed_out(("gw-0", 4)) == 0

    def opened(now: float) -> list[Append]:
        found = [one for one in core.repair.handle_timer(now) if isinstance(one, Append)]
        return [one for one in found if one.header.origin.startswith("!")]

    assert opened(10.0) == opened(109.9) == []
    (opens,) = opened(115.0)
    assert core.appended(opens)
    assert core.handed_out(("gw-0", 4)) == 1
