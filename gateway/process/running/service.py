"""Runs one gateway process as a service: signals, readiness and the watchdog."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from gateway.base.printable import said
from gateway.base.watched_tasks import WatchedTasks
from gateway.process.configuration.config import GatewaySettings
from gateway.process.running import freed_memory, mapped_code, sd_notify
from gateway.process.running.gateway_process import GatewayProcess
from gateway.process.running.trial_watch import TrialWatch
from gateway.process.state_folder import state_format
from gateway.process.state_folder.life import Renewals

_log = logging.getLogger(__name__)

PRIVATE = 0o077
"""The umask of a gateway: messages, sessions and keys that it writes are nobody else's to read."""

SWITCH_S = 0.0005
"""A thread that wants Python's lock asks the one that has it after so long. By Python's own 5 ms, a
message would wait 5 ms for the event loop or for the disk, whenever both have work."""


async def serve(settings: GatewaySettings, trial: TrialWatch) -> bool:
    """Run a gateway until SIGTERM or SIGINT; SIGHUP reads neighbours and access again.

    Args:
        settings: a checked configuration.
        trial: reads it again, and hears whether the gateway comes up by it.

    Returns:
        Whether the program is to start anew, as SIGUSR2 asks for.

    Raises:
        ConfigError: it can't start.

    """
    os.umask(PRIVATE)
    state_format.claim(settings.gateway.state_dir)
    stopping, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    hung_up, anew = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    loop.add_signal_handler(signal.SIGUSR2, anew.set)
    sys.setswitchinterval(SWITCH_S)
    freed_memory.spare_the_loop()
    freed_memory.keep_what_is_freed()
    renewals = Renewals(again.set)
    beside = WatchedTasks()
    beside.start("watchdog", _beat)
    beside.start("freed memory", freed_memory.give_back)
    try:
        while not stopping.is_set() and not anew.is_set():
            again.clear()
            process = GatewayProcess(settings, stopping.set, trial.at_reload, renewals)
            await process.start()
            # Now, and not while clients wait. It touches code of all kinds of objects, which the
            # next does not: it looks at what came since.
            gc.collect()
            mapped_code.give_back()
            sd_notify.tell_ready()
            process.watched.start("reload", partial(_reload, process, hung_up, trial))
            process.watched.start("certificates", partial(_follow, settings, hung_up.set))
            try:
                await _until_any(stopping, again, anew)
            finally:
                if stopping.is_set():
                    sd_notify.notify("STOPPING=1")
                await process.watched.stop()
                await process.stop()
    finally:
        await beside.stop()
    return anew.is_set() and not stopping.is_set()


async def _follow(settings: GatewaySettings, changed: Callable[[], None]) -> None:
    """Follow the fleet's certificates, if the configuration says where they come from."""
    if settings.keys.service is None:
        return
    from gateway.process.access.enrolment_follower import follower  # noqa: PLC0415  # for who follows one

    found = follower(settings, changed)
    if found is not None:
        await found.run()


async def _until_any(*events: asyncio.Event) -> None:
    """Wait for one of the events."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _beat() -> None:
    """Tell the watchdog that all is well, from one life of the gateway to the next."""
    interval_s = sd_notify.watchdog_interval_s()
    while interval_s is not None:
        sd_notify.notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


async def _reload(process: GatewayProcess, hung_up: asyncio.Event, trial: TrialWatch) -> None:
    """Read again at each SIGHUP: whatever comes of one, the next is served."""
    await trial.come_up()
    while True:
        await hung_up.wait()
        hung_up.clear()
        (came,) = await asyncio.gather(process.reload(), return_exceptions=True)
        if isinstance(came, BaseException):
            process.watched.tell("reload", said(came))
            _log.error("the reload failed, the next is served: %r", came, exc_info=came)
            came = said(came)
        if came:
            trial.fails(came)
        await trial.come_up()
