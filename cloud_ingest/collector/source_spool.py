"""The spool of a collector that makes its batches itself, of what another system has."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Coroutine

from cloud_ingest.collector import keeping as spool_keeping
from cloud_ingest.collector.settings import OriginSection
from gateway import replaced_file
from gateway.configuration.config import LogSection
from gateway.links.commit import GroupCommit

STATUS_INTERVAL_S = 1.0


class SourceSpool:
    """An open spool, what is synced in it, and what is told of it.

    Raises:
        ConfigError: it would not be synced.
        LogError: it can't be opened.

    """

    def __init__(self, own: OriginSection, log: LogSection) -> None:
        self._own = own
        self.log = spool_keeping.opened(own.spool_dir, own.keeps_for, log)
        self.commit = GroupCommit(self.log, sync=True)

    async def fill(
        self, reading: Coroutine[None, None, None], status: Callable[[], dict[str, object]]
    ) -> None:
        """Read until cancelled, then close; `status.json` tells of the spool and of the reading."""
        task = asyncio.create_task(reading, name="reading")
        try:
            while not task.done():
                self._write(status())
                spool_keeping.keep(self.log, self._own.keeps_for)
                with contextlib.suppress(OSError):
                    self.log.trim()
                await asyncio.wait([task], timeout=STATUS_INTERVAL_S)
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.commit.drain()
            self.log.close()

    def _write(self, status: dict[str, object]) -> None:
        found = {
            "pid": os.getpid(),
            "id": self._own.id,
            **status,
            "log_failure": self.log.failure,
            "refusals": dict(self.commit.refusals.counts),
        }
        with contextlib.suppress(OSError):  # a full disk is what it would tell of
            path = self._own.spool_dir / "status.json"
            replaced_file.replace(path, json.dumps(found).encode())
