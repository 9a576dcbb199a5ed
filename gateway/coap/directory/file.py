"""The file in which the Resource Directory's registrations outlive the process.

What has changed is appended about a second later and renewals half a minute later, off the event
loop. When most of the file is out of date it is written anew as a whole. After a kill the last
second may be missing, after a power cut no more than that: who registered in it registers again
when its lifetime ends, at the latest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from gateway.base.in_turns import SHORT_PAUSE_S, others_first
from gateway.base.kept_file import READS, KeptFile, is_at_fault, naming
from gateway.base.lasting_clock import LastingClock, Mark
from gateway.base.replaced_file import replace
from resource_directory import journal
from resource_directory.errors import DirectoryError
from resource_directory.journal import KeptRecords, RegistrationJournal
from resource_directory.registration import Registration
from resource_directory.registry import Registry

NAME = "resource-directory"
WRITE_S = 1.0
"""Between two looks at what has to be written."""
RENEWALS_S = 30.0
"""Renewals alone are not written more often."""
AGAIN_S = 60.0
"""A disk that took nothing is tried again."""
MARK_S = 900.0
"""The clocks are noted so often where nothing else is written."""
WRITTEN_AT_ONCE = 2_000
PUT_IN_AT_ONCE = 500
"""So much is encoded, or put in, before others get their turn (`resource_directory.journal`)."""
SLACK_BYTES = 256 << 10
"""A file is written anew if it has grown to double and this more."""
PIECE_BYTES = 1 << 20
"""So much of the file is read at a time."""

_ROOM = "limits are those of [coap.directory], less where there is little memory"
_WITHOUT = "endpoints that are missing register again when their lifetime ends, at the latest"

_log = logging.getLogger(__name__)


class DirectoryFile:
    """Keeps a registry in a file.

    Args:
        path: where it is; its folder is there.
        registry: what is kept.
        changes: one of the registry's listeners.
        clock: which the registry counts by; it goes on from what the file says.

    """

    def __init__(
        self, path: Path, registry: Registry, changes: RegistrationJournal, clock: LastingClock
    ) -> None:
        self._path = path
        self._state = KeptFile(path, _WITHOUT)
        self._registry = registry
        self._changes = changes
        self._clock = clock
        self._bytes = 0
        self._whole_bytes = 0
        self._must_rewrite = False
        self._written_at = time.monotonic()
        self._is_failing = False
        self._unread = ""
        self._ending = asyncio.Event()

    async def recall(self) -> None:
        """Put what the file has into the registry; damage is set aside, and what it cost is logged.

        Raises:
            OSError: the file can't be read now, or set aside; it stays as it is.

        """
        with naming(self._path), contextlib.ExitStack() as stack:
            found = await asyncio.to_thread(self._found, stack)
            if found is None:
                self._must_rewrite = True
            else:
                await self._take_up(*found)

    def _found(self, stack: contextlib.ExitStack) -> tuple[BinaryIO, KeptRecords] | None:
        """Return the file, opened, and where what stands in it; None if it is missing or set aside.

        It is never in memory as a whole.
        """
        for left in reversed(range(READS)):
            try:
                file = stack.enter_context(self._path.open("rb"))
                return file, journal.read(iter(partial(file.read, PIECE_BYTES), b""))
            except FileNotFoundError:
                self._state.miss()
                return None
            except OSError as error:
                if not is_at_fault(error):
                    raise
                if not left:
                    self._state.give_up(str(error))
        return None

    async def _take_up(self, file: BinaryIO, recovered: KeptRecords) -> None:
        self._bytes = self._whole_bytes = file.tell()
        if recovered.is_damaged:
            self._state.give_up(f"{recovered.lost_bytes} of {self._bytes} bytes are no records")
        elif recovered.lost_bytes:
            _log.warning("%s: left out %d torn bytes", self._path, recovered.lost_bytes)
        await self._restore(recovered, partial(self._part, file.fileno()))
        if self._unread:
            self._state.give_up(self._unread)
        self._must_rewrite = (
            bool(self._unread)
            or recovered.is_damaged
            or recovered.lost_bytes > 0
            or recovered.records > 2 * len(self._registry) + 1_000
        )

    async def run(self) -> None:
        """Write what changes, until `end`; the last write is done then."""
        is_last = False
        while not is_last:
            pause_s = AGAIN_S if self._is_failing else WRITE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._ending.wait()
            is_last = self._ending.is_set()
            since_s = time.monotonic() - self._written_at
            is_due = since_s >= (RENEWALS_S if len(self._changes) else MARK_S)
            if self._changes.has_news or self._must_rewrite or is_last or is_due:
                await self.write()

    def end(self) -> None:
        """Let `run` write what is left and end."""
        self._ending.set()

    async def write(self) -> None:
        """Write what has changed; if the disk takes nothing all is written when it does."""
        try:
            if self._must_rewrite or self._bytes > 2 * self._whole_bytes + SLACK_BYTES:
                await self._rewrite()
            else:
                await self._append()
        except OSError as error:
            if not self._is_failing:
                _log.error("resource directory: %s: %s", self._path, error.strerror)
            self._must_rewrite = self._is_failing = True
        except Exception:
            self._must_rewrite = True  # what was noted is noted no more
            raise
        else:
            self._is_failing = False

    def _part(self, fd: int, at: int, length: int) -> bytes:
        """Return a part of the file, or nothing in place of what the disk does not give."""
        for left in reversed(range(READS)):
            try:
                return os.pread(fd, length, at)
            except OSError as error:
                if not is_at_fault(error):
                    raise
                if not left:
                    self._unread = str(error)
        return b""

    async def _restore(self, recovered: KeptRecords, body: Callable[[int, int], bytes]) -> None:
        if recovered.mark is not None and len(recovered.mark) == len(Mark._fields):
            lasting_us, epoch, boot, boot_us, wall_us, is_synchronised = recovered.mark
            self._clock.go_on_from(
                Mark(lasting_us, epoch, boot, boot_us, wall_us, bool(is_synchronised))
            )
        now = self._clock.now_us() / 1e6
        left_out, first, work = 0, "", 0
        for registration in recovered.registrations(body, now):
            try:
                self._registry.restore(registration)
            except DirectoryError as error:
                self._changes.left_out(registration)
                left_out += 1
                first = first or f"{registration.endpoint}: {error}"
            work += journal.work_of(registration)
            if work >= PUT_IN_AT_ONCE:
                work = 0
                await others_first(SHORT_PAUSE_S)
        self._changes.clear()
        for location in recovered.unreadable:
            left_out += 1
            first = first or f"{location}: its record can't be read"
        if left_out:
            what = "resource directory: %d registrations are left out (%s; %s), the first is %s"
            _log.error(what, left_out, _ROOM, _WITHOUT, first)
        if len(self._registry):
            _log.info("resource directory: %d registrations go on", len(self._registry))

    async def _append(self) -> None:
        pieces: list[bytes] = []
        while len(self._changes):
            pieces += self._changes.take(self._registry, WRITTEN_AT_ONCE, _not_kept)
            await others_first(SHORT_PAUSE_S)
        data = b"".join((*pieces, self._mark()))
        await asyncio.to_thread(_append, self._path, data)
        self._bytes += len(data)

    async def _rewrite(self) -> None:
        # What changes meanwhile is noted, and appended behind it.
        self._changes.clear()
        pieces: list[bytes] = []
        locations = iter([one.location for one in self._registry.registrations()])
        write = partial(journal.some_of, self._registry, locations, WRITTEN_AT_ONCE, _not_kept)
        while (some := write()) is not None:
            pieces += some
            await others_first(SHORT_PAUSE_S)
        data = b"".join((*pieces, self._mark()))
        await asyncio.to_thread(replace, self._path, data, is_durable=True, mode=0o600)
        self._bytes = self._whole_bytes = len(data)
        self._must_rewrite = False
        self._state.is_kept()

    def _mark(self) -> bytes:
        self._written_at = time.monotonic()
        return journal.clocks(tuple(map(int, self._clock.mark())))


def _not_kept(registration: Registration, error: Exception) -> None:
    told = registration.endpoint, _WITHOUT
    _log.error("resource directory: %r is not kept (%s)", *told, exc_info=error)


def _append(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "ab") as file:
        file.write(data)
        file.flush()
        os.fdatasync(descriptor)
