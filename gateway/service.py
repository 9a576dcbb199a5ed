"""Runs one gateway process as a service: signals, readiness and the watchdog."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from gateway import allocator, garbage, sd_notify
from gateway.config import ConfigError, GatewaySettings
from gateway.process import GatewayProcess

_log = logging.getLogger(__name__)

MAX_LIVES = 4
"""So often a gateway starts in one process: again if a neighbour knows of a later life of it. One
that is told so after each start shares its id with another gateway."""


async def serve(
    settings: GatewaySettings, read: Callable[[], GatewaySettings] | None = None
) -> None:
    """Run a gateway until SIGTERM or SIGINT; SIGHUP reads neighbours and access again.

    Args:
        settings: a checked configuration.
        read: reads it again.

    Raises:
        ConfigError: it can't start, or another gateway seems to run under its id.

    """
    stopping, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    hung_up = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    garbage.spare_the_loop()
    allocator.keep_what_is_freed()
    for _ in range(MAX_LIVES):
        again.clear()
        process = GatewayProcess(settings, stopping.set, read, again.set)
        await process.start()
        sd_notify.notify("READY=1")
        reloading = asyncio.create_task(_reload(process, hung_up), name="reload")
        try:
            await _until_any(stopping, again)
        finally:
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
            await process.stop()
        if stopping.is_set():
            return
    raise ConfigError("gateway.id", "another gateway runs under this id, with a later boot epoch")


async def _until_any(*events: asyncio.Event) -> None:
    """Wait for one of the events, and tell the watchdog meanwhile that all is well."""
    interval_s = sd_notify.watchdog_interval_s()
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        while True:
            done, _ = await asyncio.wait(
                waiting, timeout=interval_s, return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                return
            sd_notify.notify("WATCHDOG=1")
    finally:
        for task in waiting:
            task.cancel()


async def _reload(process: GatewayProcess, hung_up: asyncio.Event) -> None:
    """Read again at each SIGHUP: whatever comes of one, the next is served."""
    while True:
        await hung_up.wait()
        hung_up.clear()
        (error,) = await asyncio.gather(process.reload(), return_exceptions=True)
        if error is not None:
            _log.error("the reload failed, the next is served: %r", error, exc_info=error)
