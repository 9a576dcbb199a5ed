"""Runs one gateway process as a service: signals, readiness and the watchdog."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from gateway import allocator, garbage, sd_notify
from gateway.config import GatewaySettings
from gateway.process import GatewayProcess


async def serve(
    settings: GatewaySettings, read: Callable[[], GatewaySettings] | None = None
) -> None:
    """Run a gateway until SIGTERM or SIGINT; SIGHUP reads neighbours and access again.

    Args:
        settings: a checked configuration.
        read: reads it again.

    Raises:
        ConfigError: it can't start.

    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    hung_up = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    process = GatewayProcess(settings, stopping.set, read)
    garbage.spare_the_loop()
    allocator.keep_what_is_freed()
    await process.start()
    reloading = asyncio.create_task(_reload(process, hung_up), name="reload")
    try:
        sd_notify.notify("READY=1")
        interval_s = sd_notify.watchdog_interval_s()
        while True:
            try:
                await asyncio.wait_for(stopping.wait(), interval_s)
            except TimeoutError:
                sd_notify.notify("WATCHDOG=1")
            else:
                return
    finally:
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)
        await process.stop()


async def _reload(process: GatewayProcess, hung_up: asyncio.Event) -> None:
    while True:
        await hung_up.wait()
        hung_up.clear()
        await process.reload()
