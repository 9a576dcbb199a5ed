"""Return of memory that this process no longer uses, as a gateway wants it.

*The garbage collector* is kept from stopping the event loop for long. A full collection looks at
every container there is: half a second with a million messages and routes, and all clients wait.
What survives one is therefore taken out of the next ones' sight, so that each looks at what came
since. Cycles that form among it later are found only while there is little of it; the broker's own
objects, of which there can be much, leave no cycles behind.

*glibc's allocator* keeps what is freed, for the next turn needs it again. A read, a batch and a
write are hundreds of kilobytes each, made and freed in every turn under load. By default glibc
gives such memory back to the kernel at once, and the next turn pays a page fault for every 4 KiB of
it: with messages of 1 KiB that was near half of the processor time. What is kept so is a few
megabytes.
"""

from __future__ import annotations

import ctypes
import gc

YOUNG = 10_000
"""Containers made, less those freed, between two collections of the youngest. Python's own 700 is
less than one read's messages: they would be gone over again and again while on their way."""
FROZEN_MAX = 50_000
"""So many survivors are still looked at again: some tens of milliseconds."""
MMAP_THRESHOLD_BYTES = 4 << 20
"""Only more than this is taken from the kernel, and given back, by itself."""
TRIM_THRESHOLD_BYTES = 16 << 20
"""The kernel gets back what is more than this at the end of the heap."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def spare_the_loop() -> None:
    """Set the collector up for this process; call it once all is imported."""
    gc.set_threshold(YOUNG, 5, 2)
    if _around not in gc.callbacks:
        gc.callbacks.append(_around)


def _around(phase: str, info: dict[str, int]) -> None:
    if info["generation"] != 2:
        return
    if phase == "start":
        if gc.get_freeze_count() < FROZEN_MAX:
            gc.unfreeze()
    else:
        gc.freeze()


def keep_what_is_freed() -> bool:
    """Set both thresholds of this process; whether the C library has them (musl's has not)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        and mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    )
