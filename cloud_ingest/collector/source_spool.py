"""The spool of a collector that makes its batches itself, of what another system has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine

from cloud_ingest.collector import keeping as spool_keeping
from cloud_ingest.collector import status_file
from cloud_ingest.collector.settings import OriginSection
from cloud_ingest.collector.status_file import StatusFile
from gateway.node.links.commit import GroupCommit
from gateway.process.configuration.config import LogSection


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
        self._file = StatusFile(own.spool_dir, self.commit.refusals)

    async def fill(
        self, reading: Coroutine[None, None, None], status: Callable[[], dict[str, object]]
    ) -> None:
        """Read until cancelled, then close; `status.json` tells of the spool and of the reading."""
        task = asyncio.create_task(reading, name="reading")
        try:
            while not task.done():
                await self._file.write(self._status(status()))
                spool_keeping.keep(self.log, self._own.keeps_for, self.commit.refusals)
                self._trim()
                await asyncio.wait([task], timeout=status_file.INTERVAL_S)
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.commit.drain()
            self.log.close()

    def _trim(self) -> None:
        try:
            self.log.trim()
        except OSError as error:
            self.commit.refusals.count("segment of the log that can't be deleted", str(error))

    def _status(self, status: dict[str, object]) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "id": self._own.id,
            **status,
            "log_failure": self.log.failure,
            "refusals": dict(self.commit.refusals.counts),
        }
