"""Keeps the garbage collector from stopping the event loop for long.

A full collection looks at every container there is: half a second with a million messages and
routes, and all clients wait. What survives one is therefore taken out of the next ones' sight, so
that each looks at what came since. Cycles that form among it later are found only while there is
little of it; the broker's own objects, of which there can be much, leave no cycles behind.
"""

from __future__ import annotations

import gc

YOUNG = 10_000
"""Containers made, less those freed, between two collections of the youngest. Python's own 700 is
less than one read's messages: they would be gone over again and again while on their way."""
FROZEN_MAX = 50_000
"""So many survivors are still looked at again: some tens of milliseconds."""


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
