"""A clock for what ends with time: it goes on while the machine sleeps.

The event loop's clock (CLOCK_MONOTONIC) stands still while a machine is suspended. A message that
was to be carried out within a minute would still be so after a night, and a request that came
before it. So nothing may be counted by both: they are apart by all the time that the machine has
slept since it started.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial


def steady_clock() -> Callable[[], float]:
    """Return the kernel's clock since boot, in seconds; where there is none, the event loop's."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return time.monotonic
    return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
