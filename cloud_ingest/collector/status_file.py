"""`status.json` in a spool's folder: how a collector is, for whoever looks and for the job.

It is written by a thread, since a disk may take long, and what it can't take is counted and said:
the next one says so, once there is room.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.base import replaced_file
from gateway.base.event_log.counted_lines import CountedLines

NAME: Final = "status.json"
INTERVAL_S = 1.0
NOT_WRITTEN: Final = "status.json that can't be written"

_log = logging.getLogger(__name__)


class StatusFile:
    """The file of one collector.

    Args:
        spool: the folder it stands in.
        refusals: what the disk did not take is counted there.

    """

    def __init__(self, spool: Path, refusals: CountedLines) -> None:
        self._path = spool / NAME
        self._refusals = refusals
        self._failed = 0
        """Times in a row."""

    async def write(self, status: Mapping[str, object]) -> None:
        """Write it anew; a disk that does not take it is waited for, and nobody else is.

        Args:
            status: what it says, ready for JSON.

        """
        data = json.dumps(dict(status)).encode()
        try:
            await asyncio.to_thread(replaced_file.replace, self._path, data)
        except OSError as error:
            self._refusals.counts[NOT_WRITTEN] += 1
            self._failed += 1
            if self._failed == 1:  # it is tried each second: a line each would be too many
                _log.warning(
                    "%s: %s: it is not written until it can be", self._path, error.strerror
                )
            return
        if self._failed:
            _log.warning("%s: it is written again; %d times it was not", self._path, self._failed)
            self._failed = 0
