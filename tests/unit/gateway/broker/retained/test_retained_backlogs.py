"""Sessions that are owed retained messages: what subscriptions brought meanwhile is settled."""

from __future__ import annotations

from gateway.broker.durability.journal import Journal
from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits
from gateway.broker.retained.retained_backlog import BacklogFilter, RetainedBacklog
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.sessions.session import Session


def session(name: str) -> Session:
    limits = Limits()
    return Session(Client(name, None, "", 5), limits, Budget(limits))


def owed() -> RetainedBacklog:
    return RetainedBacklog((BacklogFilter("t/#", 1, 0),), set())


def test_a_topic_that_is_retained_anew_is_settled_for_all_who_are_owed_and_the_next_checkpoint_says_so() -> (  # noqa: E501
    None
):
    journal = Journal(("gw", 1))
    lasting, other, settled, away = (session(name) for name in "abcd")
    record = journal.open()
    lasting.keep_record(record)
    backlogs = RetainedBacklogs()
    for one in (lasting, other, settled):
        backlogs.owe(one, owed())
    backlogs.settled(settled)
    backlogs.settled(away)
    assert record.version == 0
    backlogs.replaced("t/1")
    backlogs.replaced("t/2")
    given = [None if one.owed is None else one.owed.given for one in (lasting, other, settled)]
    assert given == [{"t/1", "t/2"}, {"t/1", "t/2"}, None]
    assert record.version == journal.written + 1
    more = owed()
    backlogs.owe(lasting, more)
    assert lasting.owed is more
    backlogs.settled(other)
    backlogs.replaced("t/3")
    assert (more.given, other.owed) == ({"t/3"}, None)
