"""Upkeep over time: silent clients, wills, the end of sessions, limits on the whole.

Limits on what all clients hold together are looked at here and not where each byte is kept: an
account that is a sweep old costs the data path nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.broker.inbound.connections import Connections
from gateway.broker.inbound.disconnections import Disconnections
from gateway.broker.inbound.peer import Peer
from gateway.broker.limits import NO_LONGER_LOGGED, NOT_QUEUED, NOT_READ, Budget, Limits
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.wills import Wills
from gateway.mqtt import ReasonCode

SWEEP_S: Final = 0.5
TURN_S: Final = 0.01
"""Sessions that end together are ended for so long at a time."""
LATE_S: Final = 1.0
"""A sweep that is later than that was held up, and with it all that clients sent meanwhile."""
BUFFERS_LOOK_S: Final = 0.05
"""The buffers of all connections are looked at so often while clients do not read."""


class Upkeep:
    """Looks after connections and sessions.

    Args:
        connections: all that are open.
        disconnections: ends those of silent clients.
        sessions: those of all clients.
        wills: those of all clients.
        budget: what the queues of all sessions hold.
        refusals: is told what was dropped, and of what failed.
        now: the loop's clock, in seconds.

    Attributes:
        buffers_bytes: what all connections hold, as of the last look.

    """

    def __init__(
        self,
        connections: Connections,
        disconnections: Disconnections,
        sessions: Sessions,
        wills: Wills,
        budget: Budget,
        refusals: CountedLines,
        now: Callable[[], float],
    ) -> None:
        self._now = now
        self._connections = connections
        self._disconnections = disconnections
        self._sessions = sessions
        self._wills = wills
        self._budget = budget
        self._refusals = refusals
        self._failures = Failures(refusals)
        self._limits: Limits = budget.limits
        self.buffers_bytes = 0
        self._looked_s = 0.0
        self._sweep_at_s = math.inf
        self._held_up: list[Session] = []
        """Sessions for whose queues the log could not be read."""

    def clients_do_not_read(self, now_s: float) -> None:
        """A client does not read any more: see before long what all buffers hold."""
        if now_s - self._looked_s >= BUFFERS_LOOK_S:
            self._look_at_buffers(now_s)

    def _look_for_sleep(self, now_s: float) -> None:
        """Look whether this sweep is late: the machine slept, or the process could not go on.

        No client was silent for that time: what it sent is still to be read, and one on this very
        machine slept as well.
        """
        late_s, self._sweep_at_s = now_s - self._sweep_at_s, now_s + SWEEP_S
        if late_s >= LATE_S:
            for peer in self._connections:
                channel = peer.channel
                channel.heard_at_s = min(now_s, channel.heard_at_s + late_s)

    def sweep(self, now_s: float) -> bool:
        """Look at all that is due now, and return whether that was all.

        If not, sessions are left that should end: look again before long.
        """
        tried = self._failures.tried
        self._look_for_sleep(now_s)
        self._look_at_connections(now_s)
        tried("wills that are due", lambda: self._wills.publish_due(now_s))
        self._sessions.forget_comings(now_s)
        is_done = self._end_overdue(now_s)
        sessions = list(self._sessions.values())
        self._wills.add_up(sessions)
        self._budget.unreleased = sum([len(session.incoming) for session in sessions])
        tried("look at all buffers", lambda: self._look_at_buffers(now_s))
        self._tell_of_drops()
        self._read_again(sessions, now_s)
        return is_done

    def _end_overdue(self, now_s: float) -> bool:
        """End sessions whose client did not come back in time, and return whether that was all of
        them."""
        for session in self._sessions.overdue(now_s):
            tried = self._failures.tried
            tried("end of a session", partial(self._sessions.expire, session), session)
            if self._now() > now_s + TURN_S:
                return False
        return True

    def _tell_of_drops(self) -> None:
        if self._budget.dropped:
            dropped, self._budget.dropped = self._budget.dropped, 0
            self._refusals.count(NOT_QUEUED, "sessions", dropped)
        if self._budget.trimmed:
            trimmed, self._budget.trimmed = self._budget.trimmed, 0
            self._refusals.count(NO_LONGER_LOGGED, "sessions", trimmed)

    def _read_again(self, sessions: list[Session], now_s: float) -> None:
        """Go on with queues for which the log could not be read."""
        if self._budget.unread:
            unread, self._budget.unread = self._budget.unread, 0
            self._refusals.count(NOT_READ, "sessions", unread, level=logging.ERROR)
            self._held_up = [one for one in sessions if one.outgoing.backlog.is_held_up]
        if self._held_up:
            for session in self._held_up:
                again = partial(session.go_on, now_s)
                self._failures.tried("queue that was held up", again, session)
            self._held_up = [one for one in self._held_up if one.outgoing.backlog.is_held_up]

    def _look_at_connections(self, now_s: float) -> None:
        for peer in self._connections:
            if now_s < peer.quiet_until_s and not peer.channel.is_closing:
                continue  # as nearly all are, each time
            try:
                self._look_at(peer, now_s)
            except Exception as error:  # the others are looked at all the same
                self._failures.failed("look at a connection", error, str(peer))

    def _look_at(self, peer: Peer, now_s: float) -> None:
        channel, limits = peer.channel, self._limits
        session = peer.session
        if channel.is_closing:
            if now_s - channel.closing_at_s > limits.close_s:
                channel.abort()
        elif session is None:
            if now_s - channel.heard_at_s > limits.connect_s:
                self._refusals.count("connection without CONNECT", channel.address)
                channel.abort()
        else:
            keep_alive_s = peer.keep_alive_s or math.inf
            peer.quiet_until_s = channel.heard_at_s + 1.5 * keep_alive_s  # [MQTT-3.1.2-22]
            if (
                now_s > peer.quiet_until_s
                # A client that is not read from can't be heard, unless that is its own doing.
                and (channel.is_paused or not channel.is_stalled)
                # Nor does one speak that waits for its CONNACK, while the disk holds that up.
                and (channel.is_answered or not channel.unsafe_bytes)
            ):
                self._disconnections.disconnect(session, ReasonCode.KEEP_ALIVE_TIMEOUT)

    def _look_at_buffers(self, now_s: float) -> None:
        """Close those that hold the most, if all connections together hold too much."""
        limit = self._limits.all_buffers_bytes
        self._looked_s = now_s
        total = sum([peer.buffered_bytes for peer in self._connections])
        if total > limit:
            held = [(peer.buffered_bytes, peer) for peer in self._connections]
            held.sort(key=lambda pair: pair[0], reverse=True)
            for size, peer in held:
                self._refusals.count("connection that held most of too much in buffers", str(peer))
                peer.channel.abort()
                total -= size
                if total <= limit:
                    break
        self.buffers_bytes = total
