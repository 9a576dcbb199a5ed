"""Work on the event loop that would take too long at once: a slice of it in each turn."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

SLICE_S: Final = 0.003
"""So long at a time, before others have their turn."""


def slice_ends_s() -> float:
    """Return until when a slice lasts that begins now, for `others`."""
    return perf_counter() + SLICE_S


async def others(until_s: float) -> float:
    """Let others have their turn if it is time; return until when the next one of this is."""
    if perf_counter() < until_s:
        return until_s
    await asyncio.sleep(0)
    return slice_ends_s()
