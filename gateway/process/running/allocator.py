"""Tells glibc's allocator to keep what is freed, for the next turn needs it again.

A read, a batch and a write are hundreds of kilobytes each, made and freed in every turn under
load. By default glibc gives such memory back to the kernel at once, and the next turn pays a page
fault for every 4 KiB of it: with messages of 1 KiB that was near half of the processor time. What
is kept so is a few megabytes.
"""

from __future__ import annotations

import ctypes

MMAP_THRESHOLD_BYTES = 4 << 20
"""Only more than this is taken from the kernel, and given back, by itself."""
TRIM_THRESHOLD_BYTES = 16 << 20
"""The kernel gets back what is more than this at the end of the heap."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


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
