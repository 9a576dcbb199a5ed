"""The presence of a shared subscription's members when their gateway accepts a message."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.turns import Turns
from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.channel import Channel, PendingWrites
from gateway.broker.sessions.presence import foremost
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.statistics.traffic import Traffic
from tree_handler.sharing.claims import DURABLE, ONLINE


def member(*, is_there: bool, expiry_s: int, qos: int = 1) -> tuple[Session, Subscription]:
    limits = Limits()
    session = Session(Client.away("c", None, None, 5), limits, Budget(limits), None)
    session.expiry_s = expiry_s
    if is_there:
        lines = CountedLines(logging.getLogger(__name__), lambda: 0.0)
        turns = Turns(lambda: False)
        session.channel = Channel(PendingWrites(turns, limits, lines, Traffic(), lambda: 0.0))
    return session, Subscription(qos, False, False, 0)


async def test_who_is_there_comes_before_who_waits_and_one_that_is_there_is_enough() -> None:
    there, lasts = member(is_there=True, expiry_s=0), member(is_there=False, expiry_s=60)
    assert foremost([]) == 0
    assert foremost([member(is_there=False, expiry_s=60, qos=0)]) == 0
    assert foremost([lasts]) == DURABLE
    assert foremost([lasts, there]) == ONLINE
    looked_at = 0

    def many() -> Iterator[tuple[Session, Subscription]]:
        nonlocal looked_at
        for _ in range(10_000):
            looked_at += 1
            yield there

    assert foremost(many()) == ONLINE
    assert looked_at == 1
