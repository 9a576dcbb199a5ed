"""Places in the log as a checkpoint has them, and what else a start finds in the journal."""

from __future__ import annotations

import pytest

from gateway.broker.durability import saved_places
from gateway.broker.durability.restored_estates import RestoredEstates
from gateway.broker.durability.restored_retained import NeighbourRetained
from gateway.broker.durability.saved import SavedPlaces
from gateway.broker.outbound.message import Message, share_mark
from gateway.broker.sessions.estates import Estate
from gateway.broker.sessions.places import AT, NEVER, SINCE, Places, WaitingRun
from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import EXPIRY, Retained

STREAM: Epoch = ("gw", 1)
QOS_1 = 2
WAY = (STREAM, QOS_1, ())
OWNER = ("anna", False)


def places(*runs: WaitingRun) -> Places:
    made = Places()
    for run in runs:
        made.add(run)
    return made


def test_runs_that_follow_each_other_are_one_range_and_each_time_says_from_which_number_on() -> (
    None
):
    """The loop's clock is at 2 s where the lasting one is at 102 s."""
    waiting = places(
        WaitingRun(WAY, 1, 3),
        WaitingRun(WAY, 4, 6, SINCE, 2_000),
        WaitingRun(WAY, 7, 7, AT, 9_000),
        WaitingRun(WAY, 9, 9, AT, 9_000),
        WaitingRun(WAY, 10, 11),
    )
    since, at = (4, SINCE, 102_000_000), (7, AT, 109_000_000)
    [one] = saved_places.saved(waiting, 100.0)
    times = (since, at, (10, NEVER, 0))
    assert one == SavedPlaces(STREAM, (1, 7, 9, 11), QOS_1, (), None, times)
    again = saved_places.places_of(one, -100.0)
    assert [(run.first, run.last, run.timing, run.moment_ms) for run in again.runs()] == [
        *((1, 3, NEVER, 0), (4, 6, SINCE, 2_000), (7, 7, AT, 9_000)),
        *((9, 9, AT, 9_000), (10, 11, NEVER, 0)),
    ]


def test_what_is_delivered_otherwise_or_stands_before_is_saved_apart() -> None:
    other = (STREAM, QOS_1, (7,))
    waiting = places(
        *(WaitingRun(WAY, 5, 6), WaitingRun(other, 7, 7)),
        *(WaitingRun(WAY, 8, 8), WaitingRun(WAY, 3, 3)),
    )
    assert list(saved_places.saved(waiting, 0.0)) == [
        SavedPlaces(STREAM, (5, 6), QOS_1, ()),
        SavedPlaces(STREAM, (7, 7), QOS_1, (7,)),
        SavedPlaces(STREAM, (8, 8), QOS_1, ()),
        SavedPlaces(STREAM, (3, 3), QOS_1, ()),
    ]
    assert list(saved_places.saved(Places(), 0.0)) == []


def test_of_what_a_session_left_a_start_goes_on_with_what_nobody_had_taken_since() -> None:
    group, other = ("g", "t/#"), ("other", "t/#")
    mark, mark_other = share_mark(group), share_mark(other)
    waiting = places(
        WaitingRun((STREAM, QOS_1 | mark, ()), 1, 5),
        WaitingRun((STREAM, QOS_1, ()), 6, 6),  # of no group
        WaitingRun((STREAM, QOS_1 | mark_other, ()), 7, 8),
    )
    messages = []
    for number in (8, 9):
        messages.append(Message("t", b"t", b"%d" % number, 1, False))
        messages[-1].ref = STREAM, number
    alone = [(message, QOS_1 | mark, ()) for message in messages]
    found = RestoredEstates()
    found.taken(STREAM, (1, 99), mark)  # before it was left: that is none of it
    found.left(Estate(OWNER, [waiting, *alone], {mark: group}, is_kept=True))
    found.taken(STREAM, (2, 3, 8, 8), mark)
    found.taken(STREAM, (1, 1), mark_other)
    [estate] = found.rest()
    left, message = estate.items
    assert isinstance(left, Places)
    assert [(run.first, run.last) for run in left.runs()] == [(1, 1), (4, 5)]
    assert message == alone[1]
    assert (estate.owner, estate.count, estate.is_kept) == (OWNER, 4, True)
    found.taken(STREAM, (1, 9), mark)
    assert found.rest() == []


@pytest.mark.parametrize(
    ("waited_s", "expires_at_s"), [(0.0, 130.0), (10.0, 120.0), (30.0, 100.0), (99.0, 100.0)]
)
def test_a_neighbours_retained_message_has_waited_since_it_was_noted(
    waited_s: float, expires_at_s: float
) -> None:
    version = RetainedVersion(5, 0, "other", 7)
    told = Retained("t", version, 4, 1, b"x", {EXPIRY: 60}, 30.0)
    learnt = NeighbourRetained.of([told.row(), 1], waited_s, 100.0)
    assert learnt.message.expires_at_s == expires_at_s
    assert (learnt.is_news, learnt.grave) == (True, None)
    forever = NeighbourRetained.of([Retained("t", version, 4, 1, b"x", {}).row(), 0], 9.0, 100.0)
    assert (forever.message.expires_at_s, forever.is_news) == (None, False)
    for fields in ([told.row()], [told.row(), 1, 1]):
        with pytest.raises(ProtocolError, match="journal event"):
            NeighbourRetained.of([*fields], 0.0, 100.0)
