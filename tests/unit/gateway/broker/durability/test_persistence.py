"""A broker that forgets all at its end: it waits for nothing, and knows of nothing before."""

from __future__ import annotations

from gateway.broker.durability.persistence import Persistence


def test_a_broker_that_forgets_waits_for_nothing_and_knows_of_no_time_before() -> None:
    forgets = Persistence(("gw", 1))
    stream = ("other", 7)
    forgets.has_delivered(stream, 9)
    assert forgets.delivered(stream) == 0
    assert (forgets.own, forgets.logged, forgets.numbers_messages) == (("gw", 1), None, False)
    times = (forgets.lasting_ahead_s(), forgets.accepted_us(), forgets.waited_s(stream, 5))
    assert times == (0.0, 0, 0.0)
    assert (forgets.precede([]), forgets.write(), forgets.is_refused) == (None, None, False)
    assert (forgets.last_frame, forgets.is_safe(5)) == (0, True)
    assert forgets.will_published("c") is None
