"""Requests of our own commands to one gateway at once: it has room for them at any limits."""

from __future__ import annotations

from typing import Final

from coap_engine.held_bodies import OVERHEAD_BYTES

ASKED_AT_ONCE: Final = 16
"""Gateways that a command asks for at the same time, through one."""
ANSWER_BYTES: Final = 64 << 10
"""An answer is rarely longer: a gateway's own status in a fleet of a thousand."""


def held_bytes_least(body_bytes: int) -> int:
    """Return how many bytes of bodies one peer has room for at least.

    Those are one body that is as long as any may be, and all that a command of ours asks for at
    the same time.

    Args:
        body_bytes: how long a body may be.

    """
    own = ASKED_AT_ONCE * (ANSWER_BYTES + 2 * OVERHEAD_BYTES)
    return max(body_bytes + 8 * OVERHEAD_BYTES, own)
