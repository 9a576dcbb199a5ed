"""Missing batches that neighbours can send are all found.

Where nothing is missing the search costs nothing, however many lives are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication import neighbour_picture
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.neighbour_picture import MAX_TOLD_RANGES, NeighbourPicture
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


def by_looking_at_all(state: NeighbourPicture, have: Mapping[Epoch, Intervals]) -> dict[Epoch, str]:
    found = {}
    for stream in state.picture.have:
        wanted = state._believed(stream).without(have.get(stream, Intervals()))
        if len(wanted):
            found[stream] = str(list(wanted))
    return found


@given(doings, st.sampled_from((2, 1_000)))
def test_all_that_a_neighbour_can_send_of_what_is_lacking_is_found(
    done: list[tuple[str, Epoch, tuple[int, int]]], most_false: int
) -> None:
    have: dict[Epoch, Intervals] = {}
    neighbours = AntiEntropy(have, lambda _: True, 5.0, must_prove=True)
    neighbours.link_up(LINK)
    state = neighbours._neighbours[LINK]
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
                if len(state.false) > most_false:
                    del state.false[oldest := next(iter(state.false))]
                    state.may_have(oldest)
            case "unsent":
                state.did_not_send(stream, Intervals([(first, last)]))
            case _:
                have.pop(stream, None)
                neighbours.forget([stream])
        found = {one: str(list(wanted)) for one, wanted in state.askable()}
        assert found == by_looking_at_all(state, have), (what, stream, first, last)


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
    for part in range(21):
        first = 2 * at_once * part
        ranges = Intervals((number, number) for number in range(first + 1, first + 2 * at_once, 2))
        neighbours.told(LINK, Summary({("a", 1): ranges}))
    (kept,) = neighbours.can_send(("a", 1))
    assert len(kept) == MAX_TOLD_RANGES
    assert neighbours.left_out == 1
    neighbours.forget([("a", 1)])
    for name in range(21):
        neighbours.told(LINK, Summary(over={str(name): ranges}))
    assert neighbours.left_out == 2
    state = neighbours._neighbours[LINK]
    assert sum(map(len, state.picture.over.values())) == MAX_TOLD_RANGES
    neighbours.told(LINK, Summary(over={"0": Intervals([(1, 1)])}))
    neighbours.told(LINK, Summary({("b", 1): Intervals([(1, 3)])}))
    assert state.picture.have[("b", 1)] == Intervals([(1, 3)])
