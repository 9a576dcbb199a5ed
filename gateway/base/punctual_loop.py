"""uvloop's event loop, with timers that never ring before their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Final, TypeVarTuple

import uvloop

Ts = TypeVarTuple("Ts")

HALF_A_MILLISECOND_S: Final = 0.0005


class PunctualLoop(uvloop.Loop):
    """uvloop's loop, which waits for the next whole millisecond where its own takes the nearest.

    Every other timer of its own rings up to half a millisecond early. Whoever asks then what is due
    hears that nothing is, sets the timer anew, and is called again at once: ten times in a row,
    until the millisecond is over.
    """

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back in so many seconds, in the next round if that is none; `call_at` asks this."""
        waits_s = delay + HALF_A_MILLISECOND_S if delay > 0 else delay
        return super().call_later(waits_s, callback, *args, context=context)
