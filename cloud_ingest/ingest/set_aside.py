"""Rows and files set aside so that others go on: counted, and said when the count has doubled."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from cloud_ingest.ingest.tasks import reason

MESSAGES: Final = "messages"
"""Went to quarantine since a task fails with them."""
BATCHES: Final = "batches"
"""Went to quarantine, as bytes, since the driver fails with them."""
FACTS: Final = "facts"
"""Rows, or parts of a micro-batch, of which the fleet's tables learn nothing."""
FLEET: Final = "writes of the fleet's tables"
"""Failed, and are tried again."""
UPKEEP: Final = "upkeep"
"""Times that files could not be joined or deleted, or a snapshot not be written."""

_log = logging.getLogger(__name__)


class AsideCounts:
    """Counts of what one run of the job has set aside.

    Attributes:
        counts: by what it is.

    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, what: str, why: str, count: int = 1) -> None:
        """Count it; say it with the reason if as much again has come since it was said last."""
        before = self.counts[what]
        self.counts[what] += count
        if before.bit_length() != self.counts[what].bit_length():
            line = " ".join(reason(why).split())
            _log.warning("set aside: %d %s by now: %s", self.counts[what], what, line)
