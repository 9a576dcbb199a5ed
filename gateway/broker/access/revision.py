"""What changes for clients that are there when passwords, certificates or the policy change."""

from __future__ import annotations

from collections.abc import Callable

from gateway.broker.access.policy import ClientAccess
from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Client
from gateway.broker.sessions.session import Session
from gateway.mqtt import ReasonCode
from tree_handler.routing.topic_filters import proper


def recheck(
    core: DataPlane,
    may_stay: Callable[[Client], bool],
    rules_of: Callable[[Client], ClientAccess | None],
) -> None:
    """Forget every decision, and apply the rules of now to all sessions.

    Who may no longer connect is disconnected and its will dropped; its session waits for it to
    come back with what is asked now. Wills and subscriptions that no rule allows any more end.

    Args:
        core: the broker.
        may_stay: whether a client would still be let in.
        rules_of: what a policy lets a client do; None where there is none.

    """
    core.forget_decisions()
    for session in list(core.sessions.values()):
        if not may_stay(session.client):
            if session.channel is not None:
                core.refusals.count("client that may not stay", str(session.client))
            core.expel(session, ReasonCode.NOT_AUTHORIZED, "no longer allowed")
        elif (access := rules_of(session.client)) is not None:
            _restrict(core, session, access)


def _restrict(core: DataPlane, session: Session, access: ClientAccess) -> None:
    if session.will is not None and not access.may_publish(session.will.topic):
        core.refusals.count("will to a forbidden topic", str(session.client))
        core.wills.void(session)
    for topic_filter in list(session.subscriptions):
        if not access.may_subscribe(proper(topic_filter)):
            core.refusals.count("subscription to a forbidden filter", str(session.client))
            core.subscriptions.remove(session, topic_filter)
