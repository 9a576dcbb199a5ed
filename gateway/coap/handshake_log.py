"""Log of peers that come to the CoAP port over DTLS, go, or do not get in: bounded.

Who it was, from where and what was not taken: a device with an old certificate is found by that
line. Each host has a few lines and all together have some; the rest is told as numbers. Those who
fail and those who come in have lines of their own, so that neither hides the others.
"""

from __future__ import annotations

import logging

from dtls.datagrams import PeerAddress, host_of, join_host_port
from dtls.endpoint import TOO_MANY
from dtls.identity import PeerIdentity
from gateway.base.event_log.bounded_lines import SUM_UP_S, Allowance, LeftOut, LineShares
from gateway.base.printable import printable
from gateway.base.timers import Timers
from tree_handler.rate_limit import RateLimit

EVERYBODY = Allowance(at_once=60, per_s=1.0)
HOST = Allowance(at_once=20, per_s=1 / 10)
REASON_CHARACTERS_MAX = 300

_log = logging.getLogger(__name__)


class HandshakeLog:
    """Tells of sessions, and of handshakes that failed.

    Args:
        timers: the event loop.

    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._failures, self._sessions = LineShares(EVERYBODY, HOST), LineShares(EVERYBODY, HOST)
        # Where many give way to others, one line says so: the rest is for those with a reason.
        self._crowds = RateLimit(1 / SUM_UP_S, 1)
        self._left_out = LeftOut(timers, _sum_up)

    def failed(self, address: PeerAddress, reason: str) -> None:
        """A handshake with a peer came to nothing."""
        now_s = self._timers.time()
        if reason == TOO_MANY and not self._crowds.allow("", now_s):
            self._left_out.count("failed")
        elif self._failures.has_one(_host(address), now_s):
            told = printable(reason[:REASON_CHARACTERS_MAX])
            _log.warning("no session with %s: %s", _where(address), told)
        else:
            self._left_out.count("failed")

    def established(self, address: PeerAddress, identity: PeerIdentity) -> None:
        """A peer has shown who it is."""
        if self._sessions.has_one(_host(address), self._timers.time()):
            _log.info("session with %s at %s", identity, _where(address))
        else:
            self._left_out.count("began")

    def ended(self, address: PeerAddress, identity: PeerIdentity, reason: str) -> None:
        """Its session is over."""
        if self._sessions.has_one(_host(address), self._timers.time()):
            _log.info("session with %s ended: %s", identity, reason)
        else:
            self._left_out.count("ended")

    def close(self) -> None:
        """Tell what was left out until now."""
        self._left_out.close()


def _sum_up(counts: str) -> None:
    _log.warning("more sessions over DTLS than lines: another %s", counts)


def _host(address: PeerAddress) -> str:
    return host_of(address).hex()


def _where(address: PeerAddress) -> str:
    return join_host_port(address.sockaddr[0], address.sockaddr[1])
