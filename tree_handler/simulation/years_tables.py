"""Bounds on a gateway's tables after years: what bounds each, and what does not.

Every table that can be reached from the cores is bounded by the gateways that live and the topics
that there are, but for those named here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import CONTROL_PREFIX, NOTE_PREFIX
from tree_handler.replication.search import MAX_REMEMBERED
from tree_handler.retained.proof import MAX_BELIEVED
from tree_handler.retained.versions import BUCKETS
from tree_handler.seal import MAX_VOUCHED
from tree_handler.simulation.table_sizes import table_sizes
from tree_handler.simulation.years_gateway import KEPT_LIVES, YearsGateway

STREAMS_OF_ONE: Final = 2 * (KEPT_LIVES + 3) + 4
"""Streams that may be known of one gateway: of clients and between gateways, of as many lives as
are kept, the present one, one that waits and one of which the log has something; and notes."""
_PREFIXES: Final = CONTROL_PREFIX + NOTE_PREFIX
SLACK: Final = 16
"""Rows that any table may have for what is under way."""

BY_STREAM: Final = (
    ".have",
    ".kept_from",
    ".changed",
    "._delivery._done",
    ".came",
    ".unlike",
)
"""Tables of streams. Of a gateway that has gone the last lives stay as well: it may have been cut
off and come back in the life in which it went, and what it had sent must not come twice."""
BY_ORIGIN: Final = (".order._epochs", ".order._opened", ".order._named", ".picture.over")
"""Tables with one entry for all streams of a gateway; of those that have gone, likewise."""
FIXED: Final = {
    "._searches._over": MAX_REMEMBERED,
    ".retained._believed": MAX_BELIEVED,
    "._proofs._believed": MAX_BELIEVED,
    ".seals._vouched": MAX_VOUCHED,
    "._unproven": BUCKETS,
    "._hashes": BUCKETS,
    "versions._topics": BUCKETS,
}
"""Tables of a size that does not follow from who is there: the oldest goes, or they are arrays."""


@dataclass(frozen=True, slots=True)
class FleetSize:
    """The size of a fleet and of what it retains.

    Attributes:
        living: gateways that are in the fleet, off or not.
        ever: gateways that ever were.
        topics: on which anything was ever retained; a heap of them may have twice as many rows.

    """

    living: int
    ever: int
    topics: int

    def most(self, way: str) -> int:
        """Return how many items the tables at a place may have."""
        for ending, most in FIXED.items():
            if way.endswith(ending):
                return most
        if way.endswith(BY_STREAM):
            return STREAMS_OF_ONE * self.ever
        if way.endswith(BY_ORIGIN):
            return 2 * self.ever + SLACK
        return 2 * self.living + 2 * self.topics + SLACK


def too_large(gateway: YearsGateway, lives: FleetSize) -> Iterator[str]:
    """Tell which tables of a gateway have more items than there is reason for."""
    for way, size in table_sizes(gateway.cores()).items():
        if size > (most := lives.most(way)):
            yield f"{gateway.gateway_id} keeps {size} items in {way}, at most {most} are due"
    streams = Counter(name.lstrip(_PREFIXES) for name, _ in gateway.replication.have)
    for origin, count in streams.items():
        if count > STREAMS_OF_ONE:
            yield f"{gateway.gateway_id} knows {count} streams of {origin}"
