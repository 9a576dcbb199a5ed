"""Batches and retained messages that were refused, for an operator to look at, and why they were.

Each is a file of the state folder: a line of JSON (time, neighbour, batch, why), and behind it the
batch's bytes. There are at most `MAX_FILES`; the oldest goes. Of one neighbour and reason only a
few are kept at a time, so that a flood of them neither wears a card out nor drives out what others
handed over.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgpack

from gateway.base import replaced_file
from light_dataclasses import dataclass
from tree_handler.proof import Verdict
from tree_handler.rate_limit import RateLimit
from tree_handler.replication.actions import Refuse
from tree_handler.retained.sync_state import RefusedRetained

FOLDER = "quarantine"
MAX_FILES = 64
MAX_BYTES = 64 * 1024
"""Kept of one batch: its first bytes."""
KEPT_PER_S = 0.1
KEPT_AT_ONCE = 8
"""Of one neighbour, for each reason."""
SAY_INTERVAL_S = 1.0
MAX_TOPIC = 80
"""Shown of the topic of a retained message."""
_MODE = 0o600
_NAME = re.compile(r"\d{10}-.*\.batch", re.ASCII | re.DOTALL)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Refused:
    what: str
    data: bytes
    verdict: Verdict


class Quarantine:
    """A folder that keeps what one gateway refused.

    Args:
        state_dir: the gateway's.
        clock: in seconds; never goes back.

    """

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = state_dir / FOLDER
        self._clock = clock
        self._kept = RateLimit(KEPT_PER_S, KEPT_AT_ONCE)
        self._refused: Counter[tuple[str, str]] = Counter()
        """Since it was said last, by neighbour and reason."""
        self._said_at = -math.inf

    def take(self, refuse: Refuse, peer_id: str) -> None:
        """A batch was refused that this neighbour handed over."""
        self._take(_Refused(str(refuse.header), refuse.frame, refuse.verdict), peer_id)

    def take_retained(self, refused: RefusedRetained, peer_id: str) -> None:
        """A retained message was refused that this neighbour told of."""
        told = refused.retained
        what = f"retained message of {told.version.origin} on {told.topic[:MAX_TOPIC]!r}"
        data = msgpack.packb(told.proven_row())
        self._take(_Refused(what, data, refused.verdict), peer_id)

    def _take(self, refuse: _Refused, peer_id: str) -> None:
        now = self._clock()
        self._refused[peer_id, refuse.verdict.value] += 1
        if now - self._said_at >= SAY_INTERVAL_S:
            self._said_at = now
            self._say(refuse, peer_id)
        if self._kept.allow(f"{peer_id} {refuse.verdict.value}", now):
            try:
                self._keep(refuse, peer_id)
            except OSError as error:
                _log.warning("a refused batch is not kept: %s", error)

    def _say(self, refuse: _Refused, peer_id: str) -> None:
        why = _WHY[refuse.verdict]
        _log.warning("%s, handed over by %s, is refused: %s", refuse.what, peer_id, why)
        others = self._refused.total() - 1
        if others:
            told = ", ".join(f"{who} {n} ({what})" for (who, what), n in self._refused.items())
            _log.warning("batches refused since that was said last, by neighbour: %s", told)
        self._refused.clear()

    def _keep(self, refuse: _Refused, peer_id: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = sorted(one for one in self._folder.iterdir() if _NAME.fullmatch(one.name))
        for old in there[: max(0, len(there) - MAX_FILES + 1)]:
            old.unlink(missing_ok=True)
        number = int(there[-1].stem.partition("-")[0]) + 1 if there else 1
        told = {
            "time_s": round(time.time(), 3),
            "neighbour": peer_id,
            "batch": refuse.what,
            "why": refuse.verdict.value,
            "bytes": len(refuse.data),
        }
        data = json.dumps(told).encode() + b"\n" + refuse.data[:MAX_BYTES]
        replaced_file.replace(self._folder / f"{number:010d}-{peer_id}.batch", data, mode=_MODE)


_WHY = {
    Verdict.FORGED: "its origin has not signed it",
    Verdict.UNSIGNED: "it is not signed",
    Verdict.NOT_ALLOWED: "its origin is a collector, which publishes nothing",
    Verdict.UNKNOWN: "the certificate of who signed it is not known here, or counts no more",
}
