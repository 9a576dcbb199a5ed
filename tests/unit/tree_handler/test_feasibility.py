from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.spanning import feasibility
from tree_handler.spanning.bpdu import UNREACHABLE_MS
from tree_handler.spanning.election import Root
from tree_handler.spanning.feasibility import Distance, Sources, feasible

ROOT = Root("gw-a", 3, 4.0, "10.0.0.1")
distances = st.builds(Distance, st.integers(1, 3), st.integers(1, 5), st.integers(0, 9))


@pytest.mark.parametrize(
    ("offered", "remembered", "expected"),
    [
        # RFC 8966 section 3.5.1, in its order.
        (Distance(3, 7, UNREACHABLE_MS), Distance(3, 9, 1), True),  # the metric is infinite
        (Distance(3, 7, 50), None, True),  # no entry exists in the source table
        (Distance(3, 8, 50), Distance(3, 7, 10), True),  # seqno' < seqno
        (Distance(3, 7, 9), Distance(3, 7, 10), True),  # the same seqno, metric < metric'
        (Distance(3, 7, 10), Distance(3, 7, 10), False),
        (Distance(3, 7, 11), Distance(3, 7, 10), False),
        (Distance(3, 6, 1), Distance(3, 7, 10), False),
        # A sequence is (boot epoch, sequence) here.
        (Distance(4, 1, 50), Distance(3, 7, 10), True),
        (Distance(2, 99, 1), Distance(3, 7, 10), False),
    ],
)
def test_feasible_as_rfc_8966_section_3_5_1_says(
    offered: Distance, remembered: Distance | None, expected: bool
) -> None:
    assert feasible(offered, remembered) is expected


@given(distances, distances)
def test_of_two_distances_at_most_one_is_feasible_for_the_other(
    one: Distance, other: Distance
) -> None:
    assert not (feasible(one, other) and feasible(other, one))
    assert feasible(one, other) or feasible(other, one) or one == other


@given(distances, distances, distances)
def test_feasibility_is_transitive(one: Distance, two: Distance, three: Distance) -> None:
    if feasible(one, two) and feasible(two, three):
        assert feasible(one, three)


@given(st.lists(distances, min_size=1))
def test_what_is_remembered_is_the_best_announced_and_never_gets_worse(
    announced: list[Distance],
) -> None:
    sources = Sources()
    for at, distance in enumerate(announced):
        before = sources.remembered("gw-a")
        root = Root("gw-a", distance.epoch, 4.0, "10.0.0.1")
        sources.announce(root, distance.sequence, distance.cost_ms, float(at))
        after = sources.remembered("gw-a")
        assert after is not None
        assert before is None or after == before or feasible(after, before)
        assert not feasible(distance, after)


def test_a_root_that_restarted_supersedes_its_earlier_epochs() -> None:
    sources = Sources()
    sources.announce(ROOT, 7, 10, 0.0)
    sources.heard(Root("gw-a", 4, 4.0, "10.0.0.1"))
    assert sources.superseded(ROOT)
    remembered = sources.remembered("gw-a")
    assert not feasible(Distance(3, 99, 1), remembered)
    assert feasible(Distance(4, 0, 500), remembered)


def test_a_root_is_forgotten_when_it_was_not_announced_for_long_unless_it_is_the_current() -> None:
    sources = Sources()
    sources.announce(ROOT, 7, 10, 0.0)
    sources.announce(Root("gw-b", 1, 1.0, "10.0.0.2"), 1, 1, 5.0)
    sources.forget(before_s=5.0, current="gw-a")
    assert sources.remembered("gw-a") is not None
    sources.forget(before_s=5.0, current="gw-b")
    assert sources.remembered("gw-a") is None
    assert sources.remembered("gw-b") is not None


def test_what_neighbours_can_make_it_remember_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasibility, "MAX_SOURCES", 3)
    sources = Sources()
    for number in range(10):
        sources.announce(Root(f"gw-{number}", 1, 1.0, "10.0.0.1"), 1, 1, float(number))
    assert len(sources) == 3
    assert sources.remembered("gw-9") is not None
