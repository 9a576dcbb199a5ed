"""A gateway's Resource Directory: registry, service, watches, its clock and its file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.base.in_turns import SHORT_PAUSE_S, others_first
from gateway.base.lasting_clock import Clocks, KernelClocks, LastingClock
from gateway.base.watched_tasks import WatchedTasks
from gateway.coap.directory.file import NAME, DirectoryFile
from resource_directory.digest import DigestTimes, DirectoryDigest
from resource_directory.journal import RegistrationJournal
from resource_directory.registration import Registration
from resource_directory.registry import Registry, RegistryLimits
from resource_directory.service import DirectoryService
from resource_directory.watches import Watches

LAST_WRITE_S = 10.0
"""The time within which what is left is written, or is not."""
SWEEP_S = 10.0
"""Longest pause between two looks at what has expired; look-ups do not depend on it."""


class GatewayDirectory:
    """The directory, whose registrations and their locations outlive the process.

    Its clock is one that outlives the process too: for a machine without a battery clock a lifetime
    counts the time that the machine was off only if the wall clock is known to have been right
    before and after (`gateway.base.lasting_clock`).

    Args:
        state_dir: where its file is.
        epoch: the gateway's boot epoch. New locations begin with it, so that none that was given
            out before the last write, and lost in a kill, becomes another endpoint's.
        limits: of registrations.
        expired: called when registrations have expired, for those who watch.
        clocks: of the machine.
        watched: begins anew what fails; nobody else's, for it ends with the directory.

    """

    def __init__(
        self,
        state_dir: Path,
        epoch: int,
        limits: RegistryLimits | None = None,
        *,
        expired: Callable[[], None] = lambda: None,
        clocks: Clocks | None = None,
        watched: WatchedTasks | None = None,
    ) -> None:
        self._clock = LastingClock(clocks or KernelClocks(), epoch)
        self._expired = expired
        self._watched = watched or WatchedTasks()
        watches, changes = Watches(), RegistrationJournal()
        self._digest = DirectoryDigest()
        self._has_gone = asyncio.Event()
        listeners = (watches, changes, self._digest, self)
        self.registry = Registry(f"/rd/{epoch}-", limits, listeners)
        self.service = DirectoryService(self.registry, watches)
        self._file = DirectoryFile(state_dir / NAME, self.registry, changes, self._clock)
        self._writing: asyncio.Task[None] | None = None

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        """Have what a large registration leaves behind freed soon; a `RegistryListener`."""
        if before is not None and not self.registry.is_tidy:
            self._has_gone.set()

    def renewed(self, registration: Registration) -> None:
        """Do nothing: it leaves nothing behind."""

    def now(self) -> float:
        """Return the directory's time, seconds."""
        return self._clock.now_us() / 1e6

    async def recall(self) -> None:
        """Take up what the last life registered; to be called before anybody asks."""
        await self._file.recall()

    @property
    def offers(self) -> bytes:
        """A digest of what it has."""
        return self._digest.take()

    def start(self, told: Callable[[bytes], None] = lambda _offers: None) -> None:
        """Expire and write from now on.

        Args:
            told: takes the digest when there is something new.

        """
        start = self._watched.start
        self._writing = start("directory file", self._file.run)
        start("directory expiry", self._expire)
        start("directory digest", partial(self._tell_offers, told))

    async def stop(self) -> None:
        """Write what is left, and end."""
        self._file.end()
        self._watched.begin_last()
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=LAST_WRITE_S)
        await self._watched.stop()

    async def _tell_offers(self, told: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        times = DigestTimes(loop.time())
        while True:
            await asyncio.sleep(times.due - loop.time())
            if times.take(loop.time(), is_news=self._digest.is_news):
                told(self.offers)

    async def _expire(self) -> None:
        """Free what has expired, in slices (A12)."""
        while True:
            self._has_gone.clear()
            now = self.now()
            if self.registry.expire(now):
                self._expired()
                await others_first(SHORT_PAUSE_S)
                continue
            next_at = self.registry.next_timer()
            pause_s = SWEEP_S if next_at is None else next_at - now
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(SWEEP_S, pause_s))):
                    await self._has_gone.wait()
