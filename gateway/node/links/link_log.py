"""Log of links that come and go, and of what the tree makes of it: bounded, however often.

A neighbour may dial and leave many times a second, and change its mind about the root with each
packet; that fills no log, and hides no line about another one.
"""

from __future__ import annotations

import logging
from typing import Final

from gateway.base.event_log.bounded_lines import Allowance, LeftOut, LineShares
from gateway.base.timers import Timers
from gateway.node.links.link import Link

EVERYBODY: Final = Allowance(at_once=300, per_s=1.0)
EACH: Final = Allowance(at_once=20, per_s=0.1)
"""Of one neighbour; the tree has as many."""

_log = logging.getLogger(__name__)


class LinkLog:
    """Tells of links in the log.

    Args:
        timers: the event loop.

    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lines = LineShares(EVERYBODY, EACH)
        self._left_out = LeftOut(timers, _sum_up)

    def up(self, link: Link) -> None:
        """A link has come up."""
        if self._may_say("links up", link.peer_id):
            _log.info("link %d to %s (%s) is up", link.number, link.peer_id, link.address)

    def down(self, link: Link, why: str) -> None:
        """A link has ended."""
        if self._may_say("links down", link.peer_id):
            _log.info("link %d to %s is down: %s", link.number, link.peer_id, why)

    def changed(self, why: str) -> None:
        """The tree has changed at this gateway."""
        if self._may_say("changes of the tree", ""):
            _log.info("tree: %s", why)

    def close(self) -> None:
        """Tell what was left out until now."""
        self._left_out.close()

    def _may_say(self, what: str, who: str) -> bool:
        if self._lines.has_one(who, self._timers.time()):
            return True
        self._left_out.count(what)
        return False


def _sum_up(counts: str) -> None:
    _log.info("more links and changes than lines: another %s", counts)
