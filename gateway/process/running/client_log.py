"""Log of clients that come and go: bounded, however many do at once.

A line for each connect and each end of a connection is what an operator looks for first, and what
fills a disk when a fleet of clients loses its network again and again.
"""

from __future__ import annotations

import logging

from gateway.base.event_log.bounded_lines import Allowance, LeftOut, LineShares
from gateway.base.printable import printable
from gateway.base.timers import Timers
from gateway.broker.hooks import Client

EVERYBODY = Allowance(at_once=60, per_s=1.0)
CLIENT = Allowance(at_once=8, per_s=1 / 30)
"""Of one client identifier."""
CLIENTS_MAX = 10_000
WHY_CHARACTERS_MAX = 300

_log = logging.getLogger(__name__)


class ClientLog:
    """Tells of clients in the log: `hooks.Events`.

    Args:
        timers: the event loop.

    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lines = LineShares(EVERYBODY, CLIENT, CLIENTS_MAX)
        self._left_out = LeftOut(timers, _sum_up)

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
        self._left_out.close()

    def _may_say(self, what: str, client: Client) -> bool:
        """Return whether a line may be written; if not, it is counted."""
        if self._lines.has_one(client.client_id, self._timers.time()):
            return True
        self._left_out.count(what)
        return False


def _sum_up(counts: str) -> None:
    _log.info("more clients than lines: another %s", counts)
