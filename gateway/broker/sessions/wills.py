"""Wills: what is published when a client goes without saying so (section 3.1.2.5)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from gateway.broker.outbound.message import Message
from gateway.mqtt import PropertyId, Will

if TYPE_CHECKING:
    from gateway.broker.hooks import Client
    from gateway.broker.server import BrokerCore


def delay_s(will: Will) -> int:
    """How long it waits for the client to come back (section 3.1.3.2.2)."""
    return int(will.properties.get(PropertyId.WILL_DELAY_INTERVAL, 0))


def size_bytes(will: Will) -> int:
    """What it counts for against the limit on all wills."""
    return len(will.topic) + len(will.payload)


def message(will: Will, now_s: float) -> Message:
    """The message to publish now; its expiry counts from now on (section 3.1.3.2.4)."""
    properties = dict(will.properties)
    properties.pop(PropertyId.WILL_DELAY_INTERVAL, None)
    return Message(
        *(will.topic, will.topic.encode(), will.payload, will.qos, will.retain),
        properties,
        now_s,
    )


def left_standing(core: BrokerCore, client: Client, will: Will) -> None:
    """Publish a will that stood when the process before ended, for its client has gone with it.

    One with a delay waits for the client, whose session is there again, for what is left of it.
    What the client may publish is asked anew.
    """
    permissions = core.hooks.permissions
    verdict = True if permissions is None else permissions.may_publish(client, will.topic)
    if isinstance(verdict, Awaitable):
        core.start_task(_decided(core, client, will, verdict))
    else:
        _leave(core, client, will, allowed=verdict)


async def _decided(core: BrokerCore, client: Client, will: Will, verdict: Awaitable[bool]) -> None:
    _leave(core, client, will, allowed=await verdict)


def _leave(core: BrokerCore, client: Client, will: Will, *, allowed: bool) -> None:
    session = core.sessions.get(client.client_id)
    if not allowed:
        core.refused("will to a forbidden topic", str(client))
        assert core.durable is not None
        core.durable.wills.ended(client.client_id)
        core.durable.write()
    elif session is None:
        core.accept(message(will, core.now()), client.client_id)
    elif session.connection is None:
        session.will = (session.away_since_s + delay_s(will), will)
        core.upkeep.delayed.add(session)
        if not delay_s(will):
            core.publish_will(session)
