"""Requests of our own commands to one gateway at once: it has room for them (`limits`)."""

from __future__ import annotations

from typing import Final

ASKED_AT_ONCE: Final = 16
"""Gateways that a command asks for at the same time, through one."""
ANSWER_BYTES: Final = 64 << 10
"""An answer is rarely longer: a gateway's own status in a fleet of a thousand."""
