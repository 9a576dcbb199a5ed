"""Goal: requests between gateways keep their promises through cuts, crashes and copies."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable

import pytest

from tree_handler.remote.answered import SentAnswers
from tree_handler.remote.asking import Outstanding
from tree_handler.remote.executing import Executions
from tree_handler.remote.repeats import Repeats
from tree_handler.remote.request_memory import RequestMemory
from tree_handler.remote.resource import ResourceResponse
from tree_handler.remote.watches import BeginWatch, Notify, RemoteWatches, WatchAction
from tree_handler.simulation.querying_gateway import RemoteOutcome
from tree_handler.simulation.remote import RemoteWorld

SEEDS = range(1, 9)


def run(seed: int, *, sleepers: bool = False, loses: float = 0.0) -> RemoteOutcome:
    return RemoteWorld(seed, 3 + seed % 6, sleepers=sleepers, loses=loses).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_wrong_answer_no_write_twice_and_all_that_is_asked_ends(seed: int) -> None:
    outcome = run(seed)
    assert not outcome.violations
    assert outcome.answered > 50
    assert outcome.told > 20
    assert outcome.copies


def test_sleepers_break_no_promise_and_are_answered_as_they_would_not_be_without_a_challenge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = [run(seed, sleepers=True) for seed in SEEDS]
    assert not any(one.violations for one in shown)
    monkeypatch.setattr(Repeats, "challenged", lambda *_: [])
    refused = [run(seed, sleepers=True) for seed in SEEDS]
    assert sum(one.answered for one in shown) > sum(one.answered for one in refused) + 50


def _takes_every_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestMemory, "take", lambda *_: None)
    monkeypatch.setattr(SentAnswers, "again", lambda *_: None)


def _executes_what_it_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executions, "is_full_for", _every_third())
    monkeypatch.setattr(RequestMemory, "take", lambda *_: None)
    monkeypatch.setattr(SentAnswers, "note_refusal", lambda *_: None)


def _every_third() -> Callable[[Executions, str], bool]:
    count = itertools.count()
    return lambda _self, _asker: next(count) % 3 == 0


def _keeps_what_was_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observers are not told what a renewal is answered with."""
    renewed: dict[RemoteWatches, set[int]] = defaultdict(set)
    moved, handle_timer, told = (
        RemoteWatches.moved,
        RemoteWatches.handle_timer,
        RemoteWatches.told,
    )

    def noted(watches: RemoteWatches, actions: list[WatchAction]) -> list[WatchAction]:
        renewed[watches] |= {one.watch for one in actions if isinstance(one, BeginWatch)}
        return actions

    def told_in_vain(
        self: RemoteWatches,
        number: int,
        response: ResourceResponse | None,
        now: float,
        *,
        goes_on: bool,
    ) -> list[WatchAction]:
        actions = told(self, number, response, now, goes_on=goes_on)
        if number not in renewed[self]:
            return actions
        renewed[self].remove(number)
        return [one for one in actions if not isinstance(one, Notify) or one.is_last]

    monkeypatch.setattr(RemoteWatches, "moved", lambda self, *to: noted(self, moved(self, *to)))
    monkeypatch.setattr(
        RemoteWatches, "handle_timer", lambda self, now: noted(self, handle_timer(self, now))
    )
    monkeypatch.setattr(RemoteWatches, "told", told_in_vain)


def _waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outstanding, "handle_timer", lambda *_: [])
    monkeypatch.setattr(Outstanding, "next_timer", lambda *_: float("inf"))


def _repeats_nothing_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repeats, "handle_timer", lambda *_: [])
    monkeypatch.setattr(Repeats, "next_timer", lambda *_: float("inf"))


def test_what_is_lost_in_a_change_of_the_tree_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = [run(seed) for seed in SEEDS]
    monkeypatch.setattr(Repeats, "moved", lambda *_: [])
    _repeats_nothing_by_the_clock(monkeypatch)
    once = [run(seed) for seed in SEEDS]
    assert sum(one.ended for one in again) < sum(one.ended for one in once) - 100


def test_what_is_lost_while_the_tree_stands_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = [run(seed, loses=0.2) for seed in SEEDS]
    assert not any(one.violations for one in again)
    _repeats_nothing_by_the_clock(monkeypatch)
    once = [run(seed, loses=0.2) for seed in SEEDS]
    assert sum(one.ended for one in again) < sum(one.ended for one in once) - 100


@pytest.mark.parametrize(
    "spoil", [_takes_every_copy, _executes_what_it_refused, _keeps_what_was_missed, _waits_for_ever]
)
def test_a_gateway_that_is_spoilt_is_found_out(
    spoil: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    assert any(run(seed).violations for seed in SEEDS[:4])
