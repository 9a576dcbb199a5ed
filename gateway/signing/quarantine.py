"""Batches that were refused, for an operator to look at: who handed them over, and why they were.

Each is a file of the state folder: a line of JSON (time, neighbour, batch, why), and behind it the
batch's bytes. There are at most `MAX_FILES`; the oldest goes. Of one neighbour and reason only a
few are kept at a time, so that a flood of them neither wears a card out nor drives out what others
handed over.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gateway import replaced_file
from tree_handler.proof import Verdict
from tree_handler.rate_limit import RateLimit
from tree_handler.replication.actions import Refuse

FOLDER = "quarantine"
MAX_FILES = 64
MAX_BYTES = 64 * 1024
"""Kept of one batch: its first bytes."""
KEPT_PER_S = 0.1
KEPT_AT_ONCE = 8
"""Of one neighbour, for each reason."""
SAY_INTERVAL_S = 1.0
_MODE = 0o600

_log = logging.getLogger(__name__)


class Quarantine:
    """What one gateway keeps of what it refused.

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

    def _say(self, refuse: Refuse, peer_id: str) -> None:
        why = _WHY[refuse.verdict]
        _log.warning("%s, handed over by %s, is refused: %s", refuse.header, peer_id, why)
        others = self._refused.total() - 1
        if others:
            told = ", ".join(f"{who} {n} ({what})" for (who, what), n in self._refused.items())
            _log.warning("batches refused since that was said last, by neighbour: %s", told)
        self._refused.clear()

    def _keep(self, refuse: Refuse, peer_id: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = sorted(self._folder.glob("*.batch"))
        for old in there[: max(0, len(there) - MAX_FILES + 1)]:
            old.unlink(missing_ok=True)
        number = int(there[-1].stem.partition("-")[0]) + 1 if there else 1
        told = {
            "time_s": round(time.time(), 3),
            "neighbour": peer_id,
            "batch": str(refuse.header),
            "why": refuse.verdict.value,
            "bytes": len(refuse.frame),
        }
        data = json.dumps(told).encode() + b"\n" + refuse.frame[:MAX_BYTES]
        replaced_file.replace(self._folder / f"{number:010d}-{peer_id}.batch", data, mode=_MODE)


_WHY = {
    Verdict.FORGED: "its origin has not signed it",
    Verdict.UNSIGNED: "it is not signed",
    Verdict.UNKNOWN: "the certificate of who signed it is not known here, or counts no more",
}
