"""The wall clock in the whole units that messages, records and tables have, and how it goes."""

from __future__ import annotations

import time


def now_us() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1_000


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def ahead_s() -> float:
    """Return the wall clock less the monotonic one, in seconds: another once it has been set."""
    return time.time() - time.monotonic()
