"""Wills that stood when the process before ended: their clients have gone with it."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.tasks import Tasks
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.standing_wills import SavedWill
from gateway.broker.hooks import TopicPermissions
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.wills import Wills


class WillRecovery:
    """Publishes them, or has them wait for what is left of their delay.

    Args:
        durable: knows which of a client's is the latest.
        sessions: those that are there again.
        wills: publishes.
        permissions: are asked anew what a client may publish; None for all.
        tasks: wait for an answer that takes time.
        failures: is told of a will that can't be dealt with, which costs no other.
        refusals: counts those that are forbidden by now.

    """

    def __init__(
        self,
        durable: DurablePersistence,
        sessions: Sessions,
        wills: Wills,
        permissions: TopicPermissions | None,
        tasks: Tasks,
        failures: Failures,
        refusals: CountedLines,
    ) -> None:
        self._durable = durable
        self._sessions = sessions
        self._wills = wills
        self._permissions = permissions
        self._tasks = tasks
        self._failures = failures
        self._refusals = refusals

    def deal_with(self, one: SavedWill) -> None:
        """Ask what becomes of one of them."""
        is_latest = self._durable.wills.is_latest(one)
        step = partial(self._ask, one, is_latest=is_latest)
        self._failures.tried("will that stood", step, one.topic)

    def _ask(self, one: SavedWill, *, is_latest: bool) -> None:
        permissions = self._permissions
        verdict = True if permissions is None else permissions.may_publish(one.client, one.topic)
        if isinstance(verdict, Awaitable):
            self._tasks.start(self._leave_late(one, verdict, is_latest=is_latest))
        else:
            self._leave(one, allowed=verdict, is_latest=is_latest)

    async def _leave_late(
        self, one: SavedWill, verdict: Awaitable[bool], *, is_latest: bool
    ) -> None:
        self._leave(one, allowed=await verdict, is_latest=is_latest)

    def _leave(self, one: SavedWill, *, allowed: bool, is_latest: bool) -> None:
        session = self._sessions.get(one.client_id)
        if not allowed:
            self._refusals.count("will to a forbidden topic", str(one.client))
            self._durable.will_given_up(one)
            self._durable.write()
        elif not is_latest:  # the log refused it, and then its client had another
            self._wills.publish_left(one)
        elif session is None:
            self._wills.publish_of(one.client_id, one.will)
        elif session.channel is None:
            session.will = one.will
            self._wills.wait(session, session.away_since_s)
