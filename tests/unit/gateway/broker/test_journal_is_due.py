"""A journal says that there is something to write from each note on until the log has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.base.lasting_clock import Mark
from gateway.broker.durability.journal import Event, Journal, Operation, SessionRecord

OWN = ("here", 1)
MARK = Mark(1, 1, 1, 1, 1, is_synchronised=True)
NOTES: dict[str, Callable[[Journal, SessionRecord], object]] = {
    "event": lambda journal, one: journal.noted(one, Event.OWED, one.number, ()),
    "decisive event": lambda journal, one: journal.decisive(one, Event.ENDED, one.number),
    "operation": lambda _, one: one.note(Operation.PUBACK, 1),
    "message that left": lambda _, one: one.sent(1, 2, (OWN, 1)),
    "message that moved": lambda _, one: one.taken(OWN, (1, 1), 0),
    "will of the next batch": lambda journal, _: journal.publishes_will(1, 0),
    "publisher of the next batch": lambda journal, one: journal.publishes(one, 0, 1),
    "clocks": lambda journal, _: journal.marked(MARK),
    "refused frame": lambda journal, _: journal.was_refused(),
    "frame whose sync failed": lambda journal, _: journal.must_precede(),
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_each_note_is_due_until_the_log_has_taken_it(
    note: Callable[[Journal, SessionRecord], object],
) -> None:
    journal = Journal(OWN)
    record = journal.open()
    assert journal.is_empty
    for _ in range(2):
        note(journal, record)
        assert not journal.is_empty
        journal.frame()
        journal.has_written()
        assert journal.is_empty


def test_what_was_given_is_not_due_before_something_depends_on_it() -> None:
    journal = Journal(OWN)
    journal.has_delivered(OWN, 3)
    assert journal.is_empty
    journal.decisive(None, Event.ENDED, 1)
    assert not journal.is_empty


def test_what_was_noted_is_still_due_when_the_log_refuses_the_frame() -> None:
    journal = Journal(OWN)
    journal.publishes_will(1, 0)
    journal.frame()
    journal.was_refused()
    assert not journal.is_empty


ANSWERED: dict[str, Callable[[Journal, SessionRecord], object]] = {
    "message that leaves": lambda _, one: one.sent(1, 2, (OWN, 1)),
    "message of another gateway that leaves": lambda _, one: one.sent(1, 2, (("there", 1), 1)),
    "PUBREC": lambda _, one: one.note(Operation.PUBREC, 1),
    "PUBCOMP": lambda _, one: one.note(Operation.RELEASED, 1),
    "message that moved": lambda _, one: one.taken(OWN, (1, 1), 0),
    "subscription that ends": lambda _, one: one.unsubscribed("a/#"),
}


@pytest.mark.parametrize("note", ANSWERED.values(), ids=ANSWERED)
def test_what_a_client_is_told_waits_for_the_very_frame_that_says_it(
    note: Callable[[Journal, SessionRecord], object],
) -> None:
    journal = Journal(OWN)
    record = journal.open()
    for before in range(3):
        assert journal.written == before
        note(journal, record)
        assert record.ticket == before + 1
        journal.frame()
        journal.has_written()


@pytest.mark.parametrize(
    "note", [lambda one: one.note(Operation.PUBACK, 1), lambda one: one.sent(1, 2, None)]
)
def test_what_nothing_stands_on_keeps_no_client_waiting(
    note: Callable[[SessionRecord], object],
) -> None:
    record = Journal(OWN).open()
    note(record)
    assert record.ticket == 0
