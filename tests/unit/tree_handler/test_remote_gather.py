"""One request to many gateways: few are asked at one time, and each has one answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tree_handler.remote.gather import TOO_LARGE, AnswerGathering
from tree_handler.remote.limits import QueryLimits
from tree_handler.remote.resource import ResourceResponse

NAMES = [f"gw-{number}" for number in range(40)]


@given(st.integers(0, 40), st.integers(1, 9), st.lists(st.integers(0, 39), max_size=120))
def test_so_many_are_asked_at_one_time_and_each_once(
    count: int, at_once: int, answers: list[int]
) -> None:
    gathering, asked = (
        AnswerGathering(NAMES[:count], QueryLimits(targets_at_once=at_once)),
        list[str](),
    )
    expected: dict[str, ResourceResponse] = {}
    for number in [*answers, *range(40), *range(40), *range(40)]:
        while (target := gathering.next()) is not None:
            asked.append(target)
        assert gathering.in_flight <= at_once
        response = ResourceResponse(0x45, b"%d" % len(expected))
        if NAMES[number] in asked:
            expected.setdefault(NAMES[number], response)
        gathering.answered(NAMES[number], response)
    assert asked == NAMES[:count]
    assert gathering.so_far() == [(name, expected[name]) for name in NAMES if name in expected]
    gathering.give_up()
    assert gathering.is_over
    assert gathering.results() == [(name, expected.get(name)) for name in NAMES[:count]]


def test_who_does_not_answer_in_time_has_no_answer() -> None:
    gathering = AnswerGathering(NAMES[:3], QueryLimits(targets_at_once=2))
    assert [gathering.next() for _ in range(3)] == ["gw-0", "gw-1", None]
    gathering.answered("gw-1", ResourceResponse(0x45))
    gathering.give_up()
    assert gathering.is_over
    assert [one for _, one in gathering.results()] == [None, ResourceResponse(0x45), None]


def test_answers_together_are_bounded() -> None:
    gathering = AnswerGathering(NAMES, QueryLimits(targets_at_once=40))
    for name in NAMES:
        gathering.next()
        gathering.answered(name, ResourceResponse(0x45, bytes(64 * 1024)))
    bodies = [one for _, one in gathering.results()]
    assert sum(one != TOO_LARGE for one in bodies) == 16
