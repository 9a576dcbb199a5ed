"""Who comes to the broker and goes, in the log: bounded, however many come and go at once.

A line for each connect and each end of a connection is what an operator looks for first, and what
fills a disk when a fleet of clients loses its network again and again. So each client has a few
lines and all together have some; what goes beyond that is counted and told in one line.
"""

from __future__ import annotations

import logging
from collections import Counter

from gateway.broker.hooks import Client
from gateway.printable import printable
from gateway.timers import Alarm, Timers
from tree_handler.rate_limit import RateLimit

LINES_AT_ONCE = 60
LINES_PER_S = 1.0
"""Of all clients together."""
CLIENT_LINES_AT_ONCE = 8
CLIENT_LINES_PER_S = 1 / 30
"""Of one client identifier."""
CLIENTS_MAX = 10_000
SUM_UP_S = 10.0
"""So long after a line was left out all that were are told as numbers."""
WHY_CHARACTERS_MAX = 300

_log = logging.getLogger(__name__)


class ClientLog:
    """Tells of clients in the log: `hooks.Events`.

    Args:
        timers: the event loop.

    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lines = RateLimit(LINES_PER_S, LINES_AT_ONCE)
        self._of_client = RateLimit(CLIENT_LINES_PER_S, CLIENT_LINES_AT_ONCE, CLIENTS_MAX)
        self._unsaid: Counter[str] = Counter()
        self._summary: Alarm | None = None

    def connected(self, client: Client) -> None:
        """A client has been accepted."""
        if self._may_say("connected", client):
            _log.info("%s: connected", client.introduced())

    def disconnected(self, client: Client, why: str) -> None:
        """A client has gone."""
        if self._may_say("disconnected", client):
            told = printable(why[:WHY_CHARACTERS_MAX])
            _log.info("%s: disconnected, %s", client.introduced(), told)

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        """Nothing is said of subscriptions."""

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        """Nor of their end."""

    def close(self) -> None:
        """Tell what was left out until now."""
        if self._summary is not None:
            self._summary.cancel()
            self._sum_up()

    def _may_say(self, what: str, client: Client) -> bool:
        """Whether a line may be written; if not, it is counted."""
        now_s, client_id = self._timers.time(), client.client_id
        if not (self._of_client.is_over(client_id, now_s) or self._lines.is_over("", now_s)):
            self._of_client.count(client_id, now_s)
            self._lines.count("", now_s)
            return True
        self._unsaid[what] += 1
        if self._summary is None:
            self._summary = self._timers.call_later(SUM_UP_S, self._sum_up)
        return False

    def _sum_up(self) -> None:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self._unsaid.items()))
        self._unsaid.clear()
        self._summary = None
        _log.info("more clients than lines: another %s", counts)
