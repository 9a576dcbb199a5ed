"""Frames of the journal, whole: what each note says, what waits for it, and what must precede."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from gateway.base.lasting_clock import Mark
from gateway.broker.durability.journal import Event, Journal, Operation, SessionRecord
from gateway.broker.durability.journal_frame import Frame, Move
from gateway.broker.hooks import Client
from gateway.broker.retained.retained_backlog import BacklogFilter
from gateway.broker.sessions.subscription import Subscription
from gateway.trust.tls.peer_certificate import PeerCertificate
from tree_handler.batch import Epoch

OWN: Epoch = ("here", 1)
THERE: Epoch = ("there", 7)
SHARED = 5 << 4
"""The mark of a shared subscription, as delivery flags have it (above four bits)."""
CLIENT = Client("c", "anna", "192.0.2.7", 5, PeerCertificate("anna", frozenset(("b", "a"))))
MARK = Mark(6, 1, 5, 4, 3, is_synchronised=True)
Said = tuple[list[Any], list[Any], list[Any]]


def said(journal: Journal) -> Said:
    """The next frame: its events, operations and publishers."""
    events, operations, publishers = msgpack.unpackb(journal.frame())
    return events, operations, publishers


def event(kind: Event, *fields: Any) -> Said:
    return [[int(kind), *fields]], [], []


def operation(kind: Operation, *fields: Any) -> Said:
    return [], [[1, [[int(kind), *fields]]]], []


Note = Callable[[Journal, SessionRecord], object]
WAITS, NEXT, NOTHING = (1, 1), (0, 1), (0, 0)
"""Ticket and version of the session's record: its client's output waits for the frame, the next
checkpoint has it, or neither."""
NOTES: dict[str, tuple[Note, Said, tuple[int, int], bool]] = {
    "a client comes": (
        lambda journal, one: journal.opened(one, CLIENT, 60),
        event(Event.OPENED, 1, "c", "anna", ["a", "b"], 5, 60),
        WAITS,
        True,
    ),
    "a client without a certificate": (
        lambda journal, one: journal.opened(one, Client("d", None, "", 4), 0),
        event(Event.OPENED, 1, "d", None, None, 4, 0),
        WAITS,
        True,
    ),
    "a client goes": (
        lambda journal, one: journal.away(one, 77),
        event(Event.AWAY, 1, 77),
        NEXT,
        False,
    ),
    "the clocks": (
        lambda journal, _: journal.marked(MARK),
        event(Event.CLOCK, *MARK),
        NOTHING,
        True,
    ),
    "a session ends": (
        lambda journal, one: journal.ended(one),
        event(Event.ENDED, 1),
        WAITS,
        True,
    ),
    "a member is chosen": (
        lambda journal, one: journal.shared(("g", "a/#"), (THERE, 3), one),
        event(Event.SHARED, "g", "a/#", "there", 7, 3, 1),
        WAITS,
        False,
    ),
    "a member that does not last": (
        lambda journal, _: journal.shared(("g", "a/#"), (THERE, 3), None),
        event(Event.SHARED, "g", "a/#", "there", 7, 3, 0),
        NOTHING,
        False,
    ),
    "a subscription": (
        lambda _, one: one.subscribed("a/#", Subscription(2, True, False, 9)),
        event(Event.SUBSCRIBED, 1, "a/#", 2, True, False, 9),
        WAITS,
        True,
    ),
    "the end of one": (
        lambda _, one: one.unsubscribed("a/#"),
        event(Event.UNSUBSCRIBED, 1, "a/#"),
        WAITS,
        True,
    ),
    "what was retained": (
        lambda _, one: one.given_retained("a/b", 3, (9,)),
        event(Event.RETAINED, 1, "a/b", 3, [9]),
        WAITS,
        True,
    ),
    "what is owed": (
        lambda _, one: one.owed((BacklogFilter("a/#", 1, 9),)),
        event(Event.OWED, 1, [["a/#", 1, 9]]),
        WAITS,
        False,
    ),
    "what a neighbour told": (
        lambda journal, _: journal.learnt(("t", 1), is_news=True),
        event(Event.LEARNT, ["t", 1], True),
        NOTHING,
        True,
    ),
    "an own message leaves": (
        lambda _, one: one.sent(8, 2, (OWN, 3)),
        operation(Operation.SENT, 8, 2, 3),
        WAITS,
        False,
    ),
    "another gateway's": (
        lambda _, one: one.sent(8, 4, (THERE, 3)),
        operation(Operation.SENT, 8, 4, 3, "there", 7),
        WAITS,
        False,
    ),
    "one of a shared subscription": (
        lambda _, one: one.sent(8, 2 | SHARED, (OWN, 3)),
        operation(Operation.SENT, 8, 2, 3, "here", 1, SHARED),
        WAITS,
        False,
    ),
    "PUBACK": (
        lambda _, one: one.note_only(Operation.PUBACK, 8),
        operation(Operation.PUBACK, 8),
        NEXT,
        False,
    ),
    "PUBREC": (
        lambda _, one: one.note(Operation.PUBREC, 8),
        operation(Operation.PUBREC, 8),
        WAITS,
        False,
    ),
    "PUBREC that refuses": (
        lambda _, one: one.note(Operation.REFUSED, 8),
        operation(Operation.REFUSED, 8),
        NEXT,
        False,
    ),
    "PUBCOMP": (
        lambda _, one: one.note(Operation.PUBCOMP, 8),
        operation(Operation.PUBCOMP, 8),
        NEXT,
        False,
    ),
    "PUBREL": (
        lambda _, one: one.note(Operation.RELEASED, 8),
        operation(Operation.RELEASED, 8),
        WAITS,
        False,
    ),
    "what one inherits": (
        lambda _, one: one.inherits(THERE, (3, 5), (2 | SHARED, (9,), ((3, 0, 0),)), None),
        operation(
            *(Operation.INHERITS, 0, 1, "there", 7, [3, 5], 2 | SHARED, [9], [[3, 0, 0]], None)
        ),
        WAITS,
        True,
    ),
    "what one leaves": (
        lambda _, one: one.leaves({SHARED: ("g", "a/#")}),
        operation(Operation.LEAVES, 0, 1, [[SHARED, "g", "a/#"]]),
        WAITS,
        True,
    ),
    "what somebody took": (
        lambda _, one: one.taken(THERE, (3, 5), SHARED),
        operation(Operation.TAKEN, 0, 1, "there", 7, [3, 5], SHARED),
        WAITS,
        True,
    ),
    "who publishes": (
        lambda journal, one: journal.publishes(one, 2, 8),
        ([], [], [[1, 2, 8]]),
        NEXT,
        True,
    ),
    "a will that is published": (
        lambda journal, _: journal.publishes_will(6, 2),
        ([], [], [[-6, 2, 0]]),
        NOTHING,
        True,
    ),
    "a change that a checkpoint alone has": (
        lambda _, one: one.has_changed(),
        ([], [], []),
        NEXT,
        False,
    ),
}


@pytest.mark.parametrize("name", NOTES)
@pytest.mark.parametrize("before", [0, 3])
def test_each_note_is_said_once_and_what_depends_on_it_waits_for_its_frame(
    name: str, before: int
) -> None:
    note, expected, (waits, changed), precedes = NOTES[name]
    journal = Journal(OWN)
    record = journal.open()
    for _ in range(before):
        journal.has_written()
    note(journal, record)
    assert said(journal) == expected
    number = before + 1
    assert (record.ticket, record.version) == (waits * number, changed * number)
    assert journal.precedes == precedes
    assert journal.is_empty == (expected == ([], [], []))
    journal.has_written()
    assert (said(journal), journal.written) == (([], [], []), number)
    assert (journal.precedes, journal.is_empty) == (False, True)


def test_what_no_log_has_outlives_no_process_and_is_not_noted() -> None:
    journal = Journal(OWN)
    record = journal.open()
    record.sent(8, 2, None)
    assert (journal.is_empty, record.ticket, record.version) == (True, 0, 0)


def test_each_session_has_a_number_of_its_own_from_one_on_and_one_list_of_operations() -> None:
    journal = Journal(OWN)
    first, second = journal.open(), journal.open()
    second.note_only(Operation.PUBACK, 1)
    first.note_only(Operation.PUBACK, 2)
    second.note_only(Operation.PUBACK, 3)
    assert said(journal)[1] == [[2, [[1, 1], [1, 3]]], [1, [[1, 2]]]]
    assert journal.next_session == 3
    journal.has_written()
    second.note_only(Operation.PUBACK, 4)
    assert said(journal)[1] == [[2, [[1, 4]]]]


def test_before_what_depends_on_it_stands_how_far_each_stream_was_given_once() -> None:
    journal = Journal(OWN)
    record = journal.open()
    journal.has_delivered(OWN, 3)
    journal.has_delivered(THERE, 5)
    journal.has_delivered(OWN, 4)
    assert journal.is_empty
    record.subscribed("a", Subscription(1))
    record.unsubscribed("a")
    assert [one[:4] for one in said(journal)[0]] == [
        [Event.DELIVERED, "here", 1, 4],
        [Event.DELIVERED, "there", 7, 5],
        [Event.SUBSCRIBED, 1, "a", 1],
        [Event.UNSUBSCRIBED, 1, "a"],
    ]


def test_before_the_first_of_an_origins_next_life_stands_what_was_given_of_the_one_before() -> None:
    journal = Journal(OWN)
    journal.has_delivered(THERE, 5)
    journal.has_delivered(OWN, 3)
    journal.has_delivered(("there", 8), 1)
    assert said(journal)[0] == [[Event.DELIVERED, *THERE, 5]]
    assert journal.delivered == {THERE: 5, OWN: 3, ("there", 8): 1}


def test_streams_that_are_over_are_forgotten() -> None:
    journal = Journal(OWN)
    journal.has_delivered(THERE, 5)
    journal.has_delivered(OWN, 3)
    journal.forget(lambda key: key == THERE)
    journal.decided()
    assert (journal.delivered, said(journal)[0]) == ({OWN: 3}, [[Event.DELIVERED, *OWN, 3]])


def test_a_start_marks_what_it_gave_beyond_the_checkpoint() -> None:
    journal = Journal(OWN)
    delivered = {THERE: 5, ("there", 8): 2, OWN: 3}
    journal.goes_on(9, delivered, {THERE: 5, ("there", 8): 1})
    assert (journal.next_session, journal.delivered) == (9, delivered)
    marks = [[Event.DELIVERED, "there", 8, 2], [Event.DELIVERED, *OWN, 3]]
    assert said(journal)[0] == marks
    assert journal.open().number == 9


def test_a_frame_that_the_log_refused_says_all_again_but_who_published() -> None:
    journal = Journal(OWN)
    record = journal.open()
    record.note(Operation.PUBREC, 8)
    record.owed(())
    journal.publishes(record, 0, 8)
    journal.was_refused()
    assert said(journal) == ([[Event.OWED, 1, []]], [[1, [[Operation.PUBREC, 8]]]], [])
    assert (journal.precedes, journal.is_empty, journal.written) == (True, False, 0)


def test_moves_tell_how_many_events_come_before_and_in_which_order_they_were() -> None:
    journal = Journal(OWN)
    one, other = journal.open(), journal.open()
    journal.has_delivered(OWN, 3)
    one.leaves({SHARED: ("g", "a/#")})
    journal.ended(one)
    other.inherits(OWN, (1, 1), (2, (), ()), None)
    one.taken(OWN, (2, 2), SHARED)
    frame = Frame.decode(journal.frame())
    moves = [(move.before, move.step, move.number, move.kind) for move in frame.moves()]
    assert moves == [
        (1, 1, 1, Operation.LEAVES),
        (2, 3, 2, Operation.INHERITS),
        (2, 4, 1, Operation.TAKEN),
    ]
    assert frame.moves()[2] == Move(2, 4, 1, Operation.TAKEN, ["here", 1, (2, 2), SHARED])
    journal.has_written()
    one.leaves({})
    assert [(m.before, m.step) for m in Frame.decode(journal.frame()).moves()] == [(0, 1)]


def test_a_frame_is_read_as_it_was_written_and_its_operations_are_taken_out_once() -> None:
    journal = Journal(OWN)
    one, other = journal.open(), journal.open()
    journal.marked(MARK)
    one.note(Operation.PUBREC, 8)
    other.note(Operation.PUBCOMP, 9)
    journal.publishes(one, 0, 7)
    frame = Frame.decode(journal.frame())
    assert frame == Frame(
        [(Event.CLOCK, *MARK)],
        [(1, [(Operation.PUBREC, 8)]), (2, [(Operation.PUBCOMP, 9)])],
        [(1, 0, 7)],
    )
    assert frame.marks() == [MARK]
    assert [frame.take_operations(1) for _ in range(2)] == [[(Operation.PUBREC, 8)], []]
    assert frame.take_operations(2) == [(Operation.PUBCOMP, 9)]


def test_a_record_knows_since_when_its_client_is_away() -> None:
    journal = Journal(OWN)
    record = journal.open()
    known = [record.away_us]
    journal.away(record, 77)
    known.append(record.away_us)
    journal.opened(record, CLIENT, 60)
    known.append(record.away_us)
    assert known == [None, 77, None]
