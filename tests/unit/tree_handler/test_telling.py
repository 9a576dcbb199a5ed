"""Summaries: all once on a link, in parts, and then what has changed; whoever is told merges."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over, repair
from tree_handler.replication.actions import Append, SendRequest, SendSummary
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.neighbour_picture import MAX_TOLD_STREAMS
from tree_handler.replication.repair import MAX_RANGES, MAX_SUMMARY_ROWS, Summary
from tree_handler.replication.replication import Replication
from tree_handler.replication.telling import Telling


def everything(stream: Epoch) -> bool:
    return not stream[0].startswith("!")


def many(count: int) -> dict[Epoch, Intervals]:
    return {(f"gw-{i}", 1): Intervals([(1, 1)]) for i in range(count)}


def summaries(actions: list[object]) -> list[Summary]:
    return [Summary.decode(a.summary.encode()) for a in actions if isinstance(a, SendSummary)]


@given(st.integers(0, 2**32))
def test_who_merges_what_he_is_told_knows_what_there_is_in_whatever_order_it_comes(
    seed: int,
) -> None:
    chance = random.Random(seed)
    have = many(chance.randrange(4))
    telling = Telling(have, everything)
    neighbours = AntiEntropy(have, everything, 5.0)
    pending: dict[int, list[Summary]] = {}
    for _ in range(chance.randrange(1, 60)):
        what = chance.random()
        stream = (f"gw-{chance.randrange(5)}", chance.randrange(1, 4))
        if what < 0.5:
            first = chance.randrange(1, 30)
            have.setdefault(stream, Intervals()).add(first, first + chance.randrange(3))
            telling.has_changed(stream)
        elif what < 0.6:
            telling.trimmed({one: chance.randrange(1, n.last + 2) for one, n in have.items()})
        elif what < 0.7:
            link = chance.randrange(3)
            telling.link_up(link)
            neighbours.link_up(link)
            pending[link] = [a.summary for a in telling.tell(link)]
        elif pending:
            link = chance.choice(list(pending))
            pending[link] += [a.summary for a in telling.tell(link)]
            if chance.random() < 0.2:  # a control message goes before those that wait
                pending[link].insert(0, pending[link].pop())
            for _ in range(chance.randrange(len(pending[link]) + 1)):
                neighbours.told(link, Summary.decode(pending[link].pop(0).encode()))
    for link, parts in pending.items():
        for part in [*parts, *(a.summary for a in telling.tell(link))]:
            neighbours.told(link, Summary.decode(part.encode()))
        assert not telling.has_news_for(link)
        assert neighbours.lacking(link, have.__getitem__) == 0  # all was told, and taken in
        assert neighbours.ask(link, 0.0) == []  # and no more than there is
    if pending:
        assert all(neighbours.last_known(stream) == have[stream].last for stream in have)


def test_the_first_is_whole_in_parts_and_a_later_one_has_what_changed_alone() -> None:
    core = Replication("gw", 1, many(2_500))
    first = summaries(list(core.repair.link_up(1, 0.0)))
    assert [len(part.have) for part in first] == [MAX_SUMMARY_ROWS, MAX_SUMMARY_ROWS, 500]
    assert [part.completes for part in first] == [False, False, True]
    core.trimmed({stream: 1 + (stream[0] == "gw-7") for stream in core.have})
    (changed,) = summaries(core.repair.handle_timer(10.0))
    assert list(changed.have) == [("gw-7", 1)]
    assert changed.kept_from == {("gw-7", 1): 2}
    assert summaries(core.repair.handle_timer(20.0)) == []
    (nothing,) = summaries(core.repair.joins(1))
    assert (nothing.have, nothing.over, nothing.completes) == ({}, {}, False)
    assert sum(len(part.have) for part in summaries(core.repair.link_up(2, 20.0))) == 2_500


def test_nothing_is_concluded_from_a_part_of_the_first_telling() -> None:
    teller, core = Replication("gw", 1, many(1_500)), Replication("gw-x", 1, {})
    core.have["gw-1400", 1] = Intervals([(1, 1)])
    core.repair.link_up(1, 0.0)
    first, last = summaries(list(teller.repair.link_up(1, 0.0)))
    assert core.repair.receive_summary(1, first, 0.0) == []
    assert core.repair.lacking(1) is None
    assert not any(
        hasattr(action, "request") for action in core.repair.forwarding(1, forwards=True)
    )
    (ask, *_) = core.repair.receive_summary(1, last, 0.0)
    assert isinstance(ask, SendRequest)
    assert len(ask.request.wanted) == repair.MAX_STREAMS
    assert core.repair.lacking(1) == 0


def test_no_part_of_a_summary_is_over_a_limit_however_many_ranges_there_are() -> None:
    torn = Intervals((n, n) for n in range(1, 2 * MAX_RANGES, 2))
    have = {("a", 1): Intervals(torn), ("b", 1): Intervals([*torn, (10**9, 10**9)])}
    parts = Summary.parts(((key, n, 1) for key, n in have.items()), (), completes=True)
    told = [Summary.decode(part.encode()) for part in parts]
    assert [sum(map(len, part.have.values())) for part in told] == [MAX_RANGES, MAX_RANGES]


def test_lives_that_are_over_are_cut_as_numbers_are_and_share_the_limit_with_them() -> None:
    """Of each origin of an old fleet there are as many ranges as can be remembered."""
    lives = Intervals((n, n) for n in range(1, 2 * epochs_over.MAX_RANGES, 2))
    over = {f"gw-{n}": lives for n in range(400)}
    torn = Intervals((n, n) for n in range(1, MAX_RANGES, 2))
    rows = [(("a", 1), torn, 2), (("b", 1), torn, 1)]
    parts = Summary.parts(rows, over.items(), completes=True)
    told = [Summary.decode(part.encode()) for part in parts]
    ranges = [sum(map(len, [*one.over.values(), *one.have.values()])) for one in told]
    assert all(count <= MAX_RANGES for count in ranges)
    assert [name for one in told for name in one.over] == list(over)
    assert all(epochs == lives for one in told for epochs in one.over.values())
    assert [key for one in told for key in one.have] == [("a", 1), ("b", 1)]
    assert [one.completes for one in told] == [False] * (len(told) - 1) + [True]


def test_a_summary_over_a_limit_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="summary"):
        Summary.decode(Summary(many(MAX_SUMMARY_ROWS + 1)).encode())


@pytest.mark.slow
def test_what_a_neighbour_tells_of_too_many_streams_is_left_out_and_counted() -> None:
    core = Replication("gw", 1)
    core.repair.link_up(1, 0.0)
    told = [(f"gw-{number}", 1) for number in range(MAX_TOLD_STREAMS + 5)]
    rows = ((stream, Intervals([(1, 1)]), 1) for stream in told)
    for part in Summary.parts(rows, (), completes=True):
        core.repair.receive_summary(1, part, 0.0)
    assert core.counters.left_out == 5
    # What is known already is no further stream, and goes on being taken.
    again = Summary({told[0]: Intervals([(1, 2)])}, completes=True)
    core.repair.receive_summary(1, again, 0.0)
    assert core.counters.left_out == 5


def test_what_a_neighbour_sends_it_does_not_lack_though_it_has_not_told_so_yet() -> None:
    neighbour = Replication("gw-n", 1, {("gw-n", 1): Intervals([(1, 3)])})
    core = Replication("gw", 1, {("gw-n", 1): Intervals([(1, 3)])})
    core.repair.link_up(1, 0.0)
    for told in summaries(list(neighbour.repair.link_up(1, 0.0))):
        core.repair.receive_summary(1, told, 0.0)
    core.repair.forwarding(1, forwards=True)
    frame, _ = batch.make("gw-n", 1, 4, [("t", 1, b"")], flags=batch.Flags.LOGGED, origin_time_us=0)
    (append,) = core.receive_batch(1, frame)
    assert isinstance(append, Append)
    core.appended(append)
    assert 4 in core.covered(("gw-n", 1))
    assert core.repair.lacking(1) == 0
