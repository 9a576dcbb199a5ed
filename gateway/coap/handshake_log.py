"""Who comes to the CoAP port over DTLS, goes, or does not get in: in the log, and bounded.

Who it was, from where and what was not taken: a device with an old certificate is found by that
line. Each host has a few lines and all together have some; the rest is told as numbers. Those who
fail and those who come in have lines of their own, so that neither hides the others.
"""

from __future__ import annotations

import logging
from collections import Counter

from dtls.datagrams import PeerAddress, host_of, join_host_port
from dtls.endpoint import TOO_MANY
from dtls.identity import PeerIdentity
from gateway.printable import printable
from gateway.timers import Alarm, Timers
from tree_handler.rate_limit import RateLimit

LINES_AT_ONCE = 60
LINES_PER_S = 1.0
"""Of all hosts together."""
HOST_LINES_AT_ONCE = 20
HOST_LINES_PER_S = 1 / 10
"""Of one host."""
SUM_UP_S = 10.0
"""So long after a line was left out all that were are told as a number."""
REASON_CHARACTERS_MAX = 300

_log = logging.getLogger(__name__)


class HandshakeLog:
    """Tells of sessions, and of handshakes that failed.

    Args:
        timers: the event loop.

    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._failures, self._sessions = _Lines(), _Lines()
        # Where many give way to others, one line says so: the rest is for those with a reason.
        self._crowds = RateLimit(1 / SUM_UP_S, 1)
        self._unsaid: Counter[str] = Counter()
        self._summary: Alarm | None = None

    def failed(self, address: PeerAddress, reason: str) -> None:
        """A handshake with a peer came to nothing."""
        now_s = self._timers.time()
        if reason == TOO_MANY and not self._crowds.allow("", now_s):
            self._leave_out("failed")
        elif self._failures.has_one(address, now_s):
            told = printable(reason[:REASON_CHARACTERS_MAX])
            _log.warning("no session with %s: %s", _where(address), told)
        else:
            self._leave_out("failed")

    def established(self, address: PeerAddress, identity: PeerIdentity) -> None:
        """A peer has shown who it is."""
        if self._sessions.has_one(address, self._timers.time()):
            _log.info("session with %s at %s", identity, _where(address))
        else:
            self._leave_out("began")

    def ended(self, address: PeerAddress, identity: PeerIdentity, reason: str) -> None:
        """Its session is over."""
        if self._sessions.has_one(address, self._timers.time()):
            _log.info("session with %s ended: %s", identity, reason)
        else:
            self._leave_out("ended")

    def close(self) -> None:
        """Tell what was left out until now."""
        if self._summary is not None:
            self._summary.cancel()
            self._sum_up()

    def _leave_out(self, what: str) -> None:
        self._unsaid[what] += 1
        if self._summary is None:
            self._summary = self._timers.call_later(SUM_UP_S, self._sum_up)

    def _sum_up(self) -> None:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self._unsaid.items()))
        self._unsaid.clear()
        self._summary = None
        _log.warning("more sessions over DTLS than lines: another %s", counts)


class _Lines:
    """How many lines hosts have."""

    def __init__(self) -> None:
        self._all = RateLimit(LINES_PER_S, LINES_AT_ONCE)
        self._of_host = RateLimit(HOST_LINES_PER_S, HOST_LINES_AT_ONCE)

    def has_one(self, address: PeerAddress, now_s: float) -> bool:
        """Whether there is a line for a host, which is then taken."""
        if self._all.is_over("", now_s):
            return False
        host = host_of(address).hex()
        if self._of_host.is_over(host, now_s):
            return False
        self._of_host.count(host, now_s)
        self._all.count("", now_s)
        return True


def _where(address: PeerAddress) -> str:
    return join_host_port(address.sockaddr[0], address.sockaddr[1])
