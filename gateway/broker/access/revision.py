"""What changes for clients that are there when passwords, certificates or the policy change."""

from __future__ import annotations

from collections.abc import Callable

from gateway.broker.access.policy import ClientAccess
from gateway.broker.hooks import Client
from gateway.broker.server import BrokerCore
from gateway.broker.sessions.session import Session
from gateway.broker.topics import split_share
from gateway.mqtt import ReasonCode


def recheck(
    core: BrokerCore,
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
    core.routes.clear()
    for connection in list(core.connections):
        connection.forget_decisions()
        if connection.session is None and not connection.is_closing:
            connection.abort()  # what is being decided about it is decided by the old rules
    for session in list(core.sessions.values()):
        if not may_stay(session.client):
            _expel(core, session)
        elif (access := rules_of(session.client)) is not None:
            _restrict(core, session, access)


def _expel(core: BrokerCore, session: Session) -> None:
    _drop_will(core, session)
    if session.connection is not None:
        core.refused("client that may not stay", str(session.client))
        session.connection.disconnect(ReasonCode.NOT_AUTHORIZED, "no longer allowed")


def _restrict(core: BrokerCore, session: Session, access: ClientAccess) -> None:
    connection = session.connection
    will = connection.will if connection is not None else None
    if will is None and session.will is not None:
        will = session.will[1]
    if will is not None and not access.may_publish(will.topic):
        core.refused("will to a forbidden topic", str(session.client))
        _drop_will(core, session)
    for topic_filter in list(session.subscriptions):
        if not access.may_subscribe(split_share(topic_filter)[1]):
            core.refused("subscription to a forbidden filter", str(session.client))
            core.unsubscribe(session, topic_filter)


def _drop_will(core: BrokerCore, session: Session) -> None:
    if core.durable is not None:
        core.durable.wills.ended(session.client_id)
    session.will = None
    if session.connection is not None:
        session.connection.will = None
