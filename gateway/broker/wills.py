"""Wills: what is published when a client goes without saying so (section 3.1.2.5)."""

from __future__ import annotations

from gateway.broker.message import Message
from gateway.broker.packets import PropertyId, Will


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
