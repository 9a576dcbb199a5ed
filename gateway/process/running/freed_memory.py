"""Return of memory that this process no longer uses, as a gateway wants it.

*The garbage collector* is kept from stopping the event loop for long. A full collection looks at
every container there is: half a second with a million messages and routes, and all clients wait.
What survives one is therefore taken out of the next ones' sight, so that each looks at what came
since. What comes and goes in a gateway leaves no cycles behind, so its memory is free at once; a
cycle that forms all the same, in a library say, would never be found among so much. So all is
looked at again when there is half as much again as after the last such look, and not soon after it.

*glibc's allocator* keeps what is freed, for the next turn needs it again. A read, a batch and a
write are hundreds of kilobytes each, made and freed in every turn under load. By default glibc
gives such memory back to the kernel at once, and the next turn pays a page fault for every 4 KiB of
it: with messages of 1 KiB that was near half of the processor time. What is kept so is a few
megabytes. Behind many clients or messages that came and went much more is free between what is
not: once a minute all of that is given back, which costs the turns that follow a few page faults.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import math
import time
from collections.abc import Callable

YOUNG = 10_000
"""Containers made, less those freed, between two collections of the youngest. Python's own 700 is
less than one read's messages: they would be gone over again and again while on their way."""
FROZEN_MAX = 50_000
"""So many survivors are still looked at again: some tens of milliseconds."""
GROWTH = 1.5
"""With so many times as many as after the last look at all, there may be what nobody has."""
LOOK_AGAIN_S = 600.0
"""Between two looks at all, where there are many survivors."""
MMAP_THRESHOLD_BYTES = 4 << 20
"""Only more than this is taken from the kernel, and given back, by itself."""
TRIM_THRESHOLD_BYTES = 16 << 20
"""The kernel gets back what is more than this at the end of the heap."""
GIVE_BACK_S = 60.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


class FullCollections:
    """Decides which full collections look at all there is: one of `gc.callbacks`.

    Args:
        now: a clock that nobody sets, in seconds.

    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._looks_at_all = True
        self._looked_s = -math.inf
        self._survivors = 0
        """After the last look at all, less those that were let go of since."""

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Called by the collector, before and after each collection."""
        if info["generation"] != 2:
            return
        if phase == "start":
            frozen = gc.get_freeze_count()
            self._survivors = min(self._survivors, frozen)
            self._looks_at_all = frozen < FROZEN_MAX or self._has_grown(frozen)
            if self._looks_at_all:
                gc.unfreeze()
            return
        gc.freeze()
        if self._looks_at_all:
            self._looked_s = self._now()
            self._survivors = gc.get_freeze_count()

    def _has_grown(self, frozen: int) -> bool:
        is_time = self._now() >= self._looked_s + LOOK_AGAIN_S
        return is_time and frozen >= GROWTH * self._survivors


def spare_the_loop() -> None:
    """Set the collector up for this process; call it once all is imported."""
    gc.set_threshold(YOUNG, 5, 2)
    if not any(isinstance(one, FullCollections) for one in gc.callbacks):
        gc.callbacks.append(FullCollections(time.monotonic))


def keep_what_is_freed() -> bool:
    """Set both thresholds of this process, and return whether the C library has them (musl's has
    not)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        and mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    )


async def give_back(every_s: float = GIVE_BACK_S) -> None:
    """Give the kernel back what is free on the heap, again and again; end where glibc is not."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    while True:
        await asyncio.sleep(every_s)
        trim(0)
