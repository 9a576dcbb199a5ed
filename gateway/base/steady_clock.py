"""A clock for what ends with time: as the event loop's, but it goes on while the machine sleeps.

The loop's clock (CLOCK_MONOTONIC) stands still while a machine is suspended. A message that was to
be carried out within a minute would still be so after a night, and a request that came before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def steady_clock(
    awake: Callable[[], float] = time.monotonic, always: Callable[[], float] | None = None
) -> Callable[[], float]:
    """Return a clock, in seconds: the loop's, and the time for which the machine slept since now.

    Args:
        awake: the loop's clock.
        always: one that goes on; that of the kernel since boot if it is not given, where it is.

    """
    if always is not None:
        goes_on, behind_s = always, always() - awake()
        return lambda: goes_on() - behind_s
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return awake
    # It is asked several times for each read of a client: one call, and no more.
    look, boot = time.clock_gettime, time.CLOCK_BOOTTIME
    behind_s = look(boot) - awake()
    return lambda: look(boot) - behind_s
