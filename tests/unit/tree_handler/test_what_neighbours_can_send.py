"""Missing batches that neighbours can send are all found.

Where nothing is missing the search costs nothing, however many lives are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.held_objects import held_objects
from tree_handler import batch
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication import neighbour_picture
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.neighbour_picture import (
    MAX_FRUITLESS,
    MAX_TOLD_RANGES,
    NeighbourPicture,
)
from tree_handler.replication.repair import Summary

LINK = 1
STREAMS = [(name, epoch) for name in ("a", "$a", "b") for epoch in (1, 2)]

streams = st.sampled_from(STREAMS)
numbers = st.tuples(st.integers(1, 9), st.integers(0, 4)).map(lambda at: (at[0], at[0] + at[1]))
doings = st.lists(
    st.tuples(
        st.sampled_from(("tells", "comes", "lost", "offers", "forged", "unsent", "over")),
        streams,
        numbers,
    ),
    max_size=60,
)


class LookedAt(Mapping[Epoch, Intervals]):
    """The numbers that the log has, with a count of look-ups."""

    def __init__(self, have: dict[Epoch, Intervals]) -> None:
        self._have = have
        self.times = 0

    def __getitem__(self, stream: Epoch) -> Intervals:
        self.times += 1
        return self._have[stream]

    def __iter__(self) -> Iterator[Epoch]:
        return iter(self._have)

    def __len__(self) -> int:
        return len(self._have)


def by_looking_at_all(
    neighbours: AntiEntropy, have: Mapping[Epoch, Intervals]
) -> dict[Epoch, Intervals]:
    found = {}
    for stream in STREAMS:
        (can,) = neighbours.can_send(stream)
        wanted = can.without(have.get(stream, Intervals()))
        if len(wanted):
            found[stream] = wanted
    return found


def asked(neighbours: AntiEntropy) -> dict[Epoch, Intervals]:
    """Ask a neighbour, once more if it has been asked, and return for what."""
    return {
        stream: wanted
        for action in neighbours.ask_anew(0.0)
        for stream, wanted in action.request.wanted.items()
    }


def answers_without(
    neighbours: AntiEntropy, stream: Epoch, numbers: Intervals, in_vain: int
) -> int:
    """Let it say that this was all of a request, with these left out; the rest was refused here.

    Returns how many times in a row it has sent nothing: not so often that it is left alone.
    """
    came = 0
    for one, wanted in asked(neighbours).items():
        for first, last in wanted.without(numbers) if one == stream else wanted:
            neighbours.came(LINK, batch.passed(one, first, last)[1])
            came += 1
    in_vain = 0 if came else in_vain + 1
    if in_vain == MAX_FRUITLESS:
        return in_vain - 1
    neighbours.done(LINK, 0.0)
    return in_vain


@pytest.mark.parametrize("most_false", [2, 1_000])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(
    done=[("tells", ("a", 1), (1, 4)), ("comes", ("a", 1), (1, 4)), ("lost", ("a", 1), (2, 3))]
)
@given(done=doings)
def test_all_that_a_neighbour_can_send_of_what_is_lacking_is_found(
    most_false: int,
    monkeypatch: pytest.MonkeyPatch,
    done: list[tuple[str, Epoch, tuple[int, int]]],
) -> None:
    if most_false != neighbour_picture.MAX_FALSE_STREAMS:
        monkeypatch.setattr(neighbour_picture, "MAX_FALSE_STREAMS", most_false)
    have: dict[Epoch, Intervals] = {}
    neighbours = AntiEntropy(have, lambda _: True, 5.0, must_prove=True)
    neighbours.link_up(LINK)
    neighbours.told(LINK, Summary(completes=True))
    in_vain = 0
    for what, stream, (first, last) in done:
        header = batch.passed(stream, first, last)[1]
        match what:
            case "tells":
                neighbours.told(LINK, Summary({stream: Intervals([(1, last)])}, {stream: first}))
            case "comes":
                have.setdefault(stream, Intervals()).add(first, last)
                neighbours.has_sent(LINK, header)
            case "lost":
                have[stream] = have.get(stream, Intervals()).without(Intervals([(first, last)]))
                neighbours.lost(stream)
            case "offers":
                neighbours.offered(LINK, header)
            case "forged":
                neighbours.refused(LINK, header)
            case "unsent":
                left_out = Intervals([(first, last)])
                in_vain = answers_without(neighbours, stream, left_out, in_vain)
            case _:
                have.pop(stream, None)
                neighbours.forget([stream])
        found = asked(neighbours)
        assert found == by_looking_at_all(neighbours, have), (what, stream, first, last)


def test_a_stream_whose_refusals_are_forgotten_for_want_of_room_is_asked_for_again() -> None:
    state = NeighbourPicture({}, False)
    most = neighbour_picture.MAX_FALSE_STREAMS
    told = {("a", epoch): Intervals([(1, 3)]) for epoch in range(1, most + 2)}
    for stream, numbers in told.items():
        assert state.told(stream, numbers)
        state.may_have(stream)
    for stream, numbers in told.items():
        state.is_false(stream, numbers)
        assert len(dict(state.askable())) >= most - stream[1]
    assert list(dict(state.askable())) == [("a", 1)]


def test_what_is_the_same_here_is_looked_at_once_and_not_each_time() -> None:
    told = {("gone", epoch): Intervals([(1, 3)]) for epoch in range(1, 501)}
    have = LookedAt({stream: Intervals(held) for stream, held in told.items()})
    neighbours = AntiEntropy(have, lambda _: True, 5.0)
    neighbours.link_up(LINK)
    neighbours.told(LINK, Summary(told, completes=True))
    assert neighbours.ask(LINK, 1.0) == []
    before = have.times
    for at in range(100):
        assert neighbours.ask(LINK, float(at)) == []
        assert not neighbours.is_catching_up()
    assert have.times == before


def test_a_neighbour_that_says_ever_more_ranges_takes_no_more_memory_than_it_may() -> None:
    """An honest one tells of few: its numbers close up. Each of these costs some 70 bytes here."""
    neighbours = AntiEntropy({}, lambda _: True, 5.0, must_prove=True)
    neighbours.link_up(LINK)
    at_once = 10_000

    def torn(part: int) -> Intervals:
        first = 2 * at_once * part
        return Intervals((number, number) for number in range(first + 1, first + 2 * at_once, 2))

    for part in range(21):
        neighbours.told(LINK, Summary({("a", 1): torn(part)}))
    (kept,) = neighbours.can_send(("a", 1))
    assert len(kept) == MAX_TOLD_RANGES
    assert neighbours.left_out == 1
    neighbours.forget([("a", 1)])
    for part in range(21):
        neighbours.told(LINK, Summary(over={str(part): torn(part)}))
    assert neighbours.left_out == 2
    full = held_objects(neighbours)
    assert full > MAX_TOLD_RANGES
    neighbours.told(LINK, Summary(over={"one more": torn(21)}))
    neighbours.told(LINK, Summary({("b", 1): Intervals([(1, 3)])}))
    assert held_objects(neighbours) < full + 100
    assert [*neighbours.can_send(("b", 1))] == [Intervals()]
    neighbours.told(LINK, Summary(over={"0": Intervals([(1, 1)])}))
    neighbours.told(LINK, Summary({("b", 1): Intervals([(1, 3)])}))
    assert [*neighbours.can_send(("b", 1))] == [Intervals([(1, 3)])]
