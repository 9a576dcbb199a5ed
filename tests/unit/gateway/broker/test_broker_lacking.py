"""Sessions and the messages that the log has lost: those they have had, and those still due."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.durability.delivery_gaps import MAX_ENDS, DeliveryGaps
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import Store
from tree_handler.batch import MAX_NUMBER

STREAM = ("gw", 3)
NUMBERS = st.integers(1, 40)


def test_what_is_not_above_the_mark_was_given_and_all_else_was_not() -> None:
    lacking = DeliveryGaps()
    assert list(lacking.due(STREAM, 1, 9, 0)) == [(1, 9)]
    assert list(lacking.due(STREAM, 3, 9, 5)) == [(6, 9)]
    assert list(lacking.due(STREAM, 3, 5, 5)) == []


def test_what_the_log_had_lost_is_given_when_it_comes_and_once() -> None:
    lacking = DeliveryGaps()
    lacking.lost(STREAM, 3, 4)
    assert (STREAM, 3) in lacking and (STREAM, 5) not in lacking
    assert list(lacking.due(STREAM, 1, 9, 6)) == [(3, 4), (7, 9)]
    lacking.found(STREAM, 3, 4)
    assert list(lacking.due(STREAM, 1, 9, 6)) == [(7, 9)]


def test_a_session_that_was_sent_a_later_message_has_had_those_before_it() -> None:
    lacking = DeliveryGaps()
    lacking.lost(STREAM, 3, 6)
    lacking.was_sent(7, STREAM, 4)
    lacking.was_sent(8, ("other", 1), 9)
    assert [lacking.had(STREAM, number) for number in (3, 4, 5)] == [{7}, {7}, set()]


def test_whose_record_breaks_off_while_its_client_was_there_has_had_the_end() -> None:
    lacking = DeliveryGaps()
    lacking.has_had_end([7], STREAM, 12)
    assert lacking.had(STREAM, 11) == set()
    assert lacking.had(STREAM, 12) == lacking.had(STREAM, MAX_NUMBER) == {7}
    lacking.ended(7)
    assert lacking.had(STREAM, 12) == set()


def test_of_lives_without_an_end_the_ends_of_the_latest_are_remembered() -> None:
    lacking = DeliveryGaps()
    lacking.lost(("gw", 1), 1, 1)
    for epoch in range(1, 10 * MAX_ENDS):
        lacking.has_had_end([1], ("gw", epoch), 1)
    known = {epoch for epoch in range(10 * MAX_ENDS) if lacking.had(("gw", epoch), 5)}
    assert known == set(range(9 * MAX_ENDS, 10 * MAX_ENDS))
    assert len(lacking.saved()) == MAX_ENDS + 1
    assert ("gw", 1) in lacking.streams


def test_after_a_checkpoint_the_ends_of_as_many_lives_are_remembered_and_nothing_else_goes() -> (
    None
):
    lacking = DeliveryGaps()
    lacking.lost(("gw", 50), 3, 4)
    lacking.was_sent(1, ("gw", 50), 4)
    for epoch in range(1, MAX_ENDS + 1):
        lacking.has_had_end([1], ("gw", epoch), 1)
    again = DeliveryGaps()
    again.load(lacking.saved())
    again.has_had_end([1], ("gw", MAX_ENDS + 1), 1)
    known = {epoch for epoch in range(99) if again.had(("gw", epoch), 5)}
    assert known == set(range(2, MAX_ENDS + 2))
    assert again.had(("gw", 50), 4) == {1}


def test_what_is_over_is_forgotten() -> None:
    lacking = DeliveryGaps()
    lacking.lost(STREAM, 1, 2)
    lacking.has_had_end([1], STREAM, 9)
    lacking.forget([STREAM])
    assert lacking.saved() == [] and not lacking.streams


@given(
    st.lists(st.tuples(NUMBERS, st.integers(0, 5))),
    st.lists(st.tuples(st.integers(1, 3), NUMBERS)),
    st.lists(st.tuples(st.integers(1, 3), NUMBERS), max_size=2),
)
def test_a_checkpoint_keeps_all_of_it(
    lost: list[tuple[int, int]], sent: list[tuple[int, int]], ends: list[tuple[int, int]]
) -> None:
    lacking = DeliveryGaps()
    for first, more in lost:
        lacking.lost(STREAM, first, first + more)
    for session, number in sent:
        lacking.was_sent(session, STREAM, number)
    for session, first in ends:
        lacking.has_had_end([session], STREAM, first)
    again = DeliveryGaps()
    again.load(lacking.saved())
    assert again.streams == lacking.streams
    for number in range(1, 50):
        assert again.had(STREAM, number) == lacking.had(STREAM, number)
        assert ((STREAM, number) in again) == ((STREAM, number) in lacking)


def test_the_file_of_checkpoints_has_all_of_it_and_no_more_than_the_last_said(
    tmp_path: Path,
) -> None:
    lacking = DeliveryGaps()
    lacking.lost(STREAM, 3, 4)
    lacking.lost(STREAM, 8, 9)
    lacking.has_had_end([7], STREAM, 12)
    store = Store(tmp_path / "broker.sqlite3")
    store.save(Checkpoint(lacking=lacking.saved()))
    assert sorted(store.load().lacking) == sorted(lacking.saved())
    store.save(Checkpoint())
    assert store.load().lacking == []
    store.close()
