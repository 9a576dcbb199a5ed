"""What is due with time: silent clients, wills, the end of sessions, what limits on the whole say.

Limits on what all clients hold together are looked at here and not where each byte is kept: an
account that is a sweep old costs the data path nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.broker.limits import NO_LONGER_LOGGED, NOT_QUEUED
from gateway.broker.sessions import wills
from gateway.mqtt import ReasonCode

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.server import BrokerCore
    from gateway.broker.sessions.session import Session

SWEEP_S = 0.5
_TURN_S = 0.01
"""Sessions that end together are ended for so long at a time."""
UNRELEASED_WHEN_CROWDED = 100
BUFFERS_LOOK_S = 0.05
"""The buffers of all connections are looked at so often while clients do not read."""


class Upkeep:
    """Sweeps over a broker's connections and sessions again and again.

    Attributes:
        delayed: sessions whose will is still to be published.
        wills_bytes: of all wills, as of the last sweep and with those that came since.
        unreleased: QoS 2 messages of all sessions that are not released, as of the last sweep.
        unreleased_max: QoS 2 messages that a session may leave unreleased now.
        buffers_bytes: what all connections hold, as of the last look.

    """

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self.delayed: set[Session] = set()
        self.wills_bytes = 0
        self.unreleased = 0
        self.unreleased_max = core.limits.unreleased_messages
        self.buffers_bytes = 0
        self._looked_s = 0.0
        self._timer = self._loop.call_later(SWEEP_S, self.sweep)

    def stop(self) -> None:
        """Sweep no more."""
        self._timer.cancel()

    def clients_do_not_read(self) -> None:
        """A client does not read any more: see before long what all buffers hold."""
        now_s = self._core.now()
        if now_s - self._looked_s >= BUFFERS_LOOK_S:
            self._look_at_buffers(now_s)

    def sweep(self) -> None:
        """Look at all that is due now, and again before long."""
        self._timer.cancel()
        core = self._core
        now_s = core.now()
        self._timer = self._loop.call_later(SWEEP_S, self.sweep)
        for connection in list(core.connections):
            self._look_at(connection, now_s)
        for session in [s for s in self.delayed if s.will is not None and s.will[0] <= now_s]:
            core.publish_will(session)
        self._end_sessions(now_s)
        self._add_up()
        self._look_at_buffers(now_s)
        if core.budget.dropped:
            dropped, core.budget.dropped = core.budget.dropped, 0
            core.refusals.count(NOT_QUEUED, "sessions", now_s, dropped)
        if core.budget.trimmed:
            trimmed, core.budget.trimmed = core.budget.trimmed, 0
            core.refusals.count(NO_LONGER_LOGGED, "sessions", now_s, trimmed)
        core.retention.expire(now_s)
        if core.durable is not None:
            core.durable.sweep(now_s)
        core.gathers_unlogged = core.hooks.carries_unlogged()
        core.turns.kick()

    def _look_at(self, connection: Connection, now_s: float) -> None:
        core = self._core
        silent_s = now_s - connection.heard_at_s
        if connection.is_closing:
            if now_s - connection.closing_at_s > core.limits.close_s:
                connection.abort()
        elif connection.session is None:
            if silent_s > core.limits.connect_s:
                core.refused("connection without CONNECT", connection.address)
                connection.abort()
        elif (
            0 < 1.5 * connection.keep_alive_s < silent_s  # [MQTT-3.1.2-22]
            # A client that is not read from can't be heard, unless that is its own doing.
            and (connection.is_paused or not connection.is_stalled)
        ):
            connection.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT)

    def _end_sessions(self, now_s: float) -> None:
        core = self._core
        for session in [s for s in core.offline if (s.ends_at_s or 0) <= now_s]:
            core.end(session)
            core.traffic.sessions_expired += 1
            if core.now() - now_s > _TURN_S:
                self._timer.cancel()
                self._timer = self._loop.call_later(_TURN_S, self.sweep)
                return

    def _add_up(self) -> None:
        core = self._core
        self.wills_bytes = sum(
            wills.size_bytes(one.will) for one in core.connections if one.will is not None
        ) + sum(wills.size_bytes(one.will[1]) for one in self.delayed if one.will is not None)
        limits = core.limits
        self.unreleased = sum(len(session.incoming) for session in core.sessions.values())
        self.unreleased_max = limits.unreleased_messages
        if self.unreleased > limits.all_unreleased_messages:
            self.unreleased_max = min(self.unreleased_max, UNRELEASED_WHEN_CROWDED)

    def _look_at_buffers(self, now_s: float) -> None:
        """Close those that hold the most, if all connections together hold too much."""
        core = self._core
        limit = core.limits.all_buffers_bytes
        self._looked_s = now_s
        held = [(one.buffered_bytes, one) for one in core.connections]
        total = sum(size for size, _ in held)
        if total > limit:
            held.sort(key=lambda pair: pair[0], reverse=True)
            for size, connection in held:
                core.refused("connection that held most of too much in buffers", str(connection))
                connection.abort()
                total -= size
                if total <= limit:
                    break
        self.buffers_bytes = total
