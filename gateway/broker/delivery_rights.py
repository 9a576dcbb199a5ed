"""Rights of a session's client to receive topics, asked before a message is handed over."""

from __future__ import annotations

from collections.abc import Awaitable

from gateway.base.tasks import Tasks
from gateway.broker.hooks import TopicPermissions
from gateway.broker.outbound.routes import KnownRoutes
from gateway.broker.sessions.session import Session


class DeliveryRights:
    """Asks the rules, and has a topic routed anew when a decision on it comes late.

    Args:
        permissions: the rules; None where all may receive all.
        known_routes: those that stand on the decisions.
        tasks: wait for the decisions that take time.

    """

    def __init__(
        self, permissions: TopicPermissions | None, known_routes: KnownRoutes, tasks: Tasks
    ) -> None:
        self._permissions = permissions
        self._known_routes = known_routes
        self._tasks = tasks

    def may_deliver(self, session: Session, topic: str) -> bool:
        """Return whether a session's client may receive a topic; not while that is undecided."""
        if self._permissions is None:
            return True
        verdict = self._permissions.may_deliver(session.client, topic)
        if isinstance(verdict, bool):
            return verdict
        self._tasks.start(self._decided_late(verdict, topic))
        return False

    async def _decided_late(self, verdict: Awaitable[bool], topic: str) -> None:
        if await verdict:
            self._known_routes.touched(topic)
