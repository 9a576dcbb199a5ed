"""Judgement of batches that come: taken, known, refused or against the rules.

What is known already is dropped before its seal is looked at: that costs nothing, and nothing comes
of it. All else must be sealed by its origin where this gateway looks at seals. A batch that is not
is no fault of whoever carries it, as far as anybody can prove: the link stays, and the batch is
left to the shell, which keeps some of such batches for an operator to look at (`Refuse`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.proof import Verdict
from tree_handler.replication.actions import Append, Refuse, ReplicationAction
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.counters import Counters
from tree_handler.replication.delivery import Deliver
from tree_handler.replication.epochs_over import is_over
from tree_handler.replication.flooding import Flooding
from tree_handler.replication.own_batches import OwnBatches
from tree_handler.replication.unlogged import Unlogged
from tree_handler.seal import Seals

MAX_GAPS: Final = 10_000
"""In the numbers of one name, in all its lives. Its origin alone can make so many; what would be
one more is not taken until some have closed. All of them are looked at in each round of repair, and
told to each new neighbour, who has room for `neighbour_picture.MAX_TOLD_RANGES` of everybody's."""
FARTHEST: Final = 1 << 44
"""No life counts so far: that takes a busy gateway decades, and a gap up to there some thousand
notes in the log (`batch.MAX_PASSED`)."""
MAX_LIVES: Final = 4_096
"""Streams of one name that are remembered at a time; an origin that says more is not listened to
under new ones until some are forgotten."""

MAX_FORGED: Final = 1_000
"""Batches that a neighbour floods and that their origins have not signed: an honest one would have
taken none, and looking at each costs more than sending it. With one more its link ends."""


def known(have: Intervals, header: Header) -> bool:
    """De-duplication: whether every message of a batch is here already."""
    return have.covers(header.first, header.last)


@dataclass(slots=True)
class Arrivals:
    """A gate for batches of other gateways: each is taken, refused or dropped before the log.

    Args:
        have: what it covers, by stream.
        own: what it has made itself.
        flooding: its links.
        neighbours: what they have told.
        counters: those of replication.
        seals: checks who made a batch; None where nobody seals.

    """

    have: Mapping[Epoch, Intervals]
    own: OwnBatches
    flooding: Flooding
    neighbours: AntiEntropy
    counters: Counters
    seals: Seals | None
    _unlogged: Unlogged = field(default_factory=Unlogged)

    def take(
        self, frame: bytes, header: Header, source: int | None, link: int | None, *, repair: bool
    ) -> list[ReplicationAction]:
        """Take a batch.

        Args:
            frame: its bytes.
            header: what `batch.check` made of them.
            source: the link that it is not passed on over, as in `Append`.
            link: the one it came over.
            repair: whether it was asked for.

        Raises:
            ProtocolError: not to leave another gateway, of this gateway's own epoch, or one forged
                batch too many.

        """
        if header.local:
            self.counters.malformed += 1
            raise ProtocolError("batch that was not to leave its gateway", str(header))
        if self._is_known(header):
            self.counters.duplicates += not header.passed
            return []
        if (refuse := self.refusal(frame, header, link)) is not None:
            if (
                source is not None
                and refuse.verdict is Verdict.FORGED
                and self.flooding.count_forged(source) > MAX_FORGED
            ):
                raise ProtocolError("one forged batch too many", str(header))
            return [refuse]
        if not header.numbered:
            self._unlogged.is_new(header)
            self.counters.received += header.count
            sent = self.flooding.flood(frame, header, source)
            return [*sent, Deliver(frame, header, header.first)]
        if self.own.is_own(header) and not self._has_lost(header):
            # Nobody else numbers for this epoch: a second gateway runs under this id.
            self.counters.malformed += 1
            raise ProtocolError("batch of this gateway's own epoch that it never made", str(header))
        if not self.has_room(header):
            return []
        if repair and not header.passed:
            self.counters.repaired += header.count
        return [Append(frame, header, source)]

    def refusal(self, frame: bytes, header: Header, link: int | None) -> Refuse | None:
        """Return what to do with a batch that its seal does not prove; None if it does."""
        if self.seals is None:
            return None
        verdict = self.seals.check(frame, header)
        if verdict is Verdict.PROVEN:
            return None
        if verdict is Verdict.UNKNOWN:
            self.counters.unknown += 1
            if link is not None:
                self.neighbours.offered(link, header)
        else:
            self.counters.forged += 1
            if link is not None:
                self.neighbours.refused(link, header)
        return Refuse(frame, header, link, verdict)

    def _is_known(self, header: Header) -> bool:
        if not header.numbered:
            return self.own.is_own(header) or self._unlogged.is_known(header)
        have = self.have.get(header.stream)
        return is_over(self.have, header.stream) if have is None else known(have, header)

    def _has_lost(self, header: Header) -> bool:
        """Return whether it is one of this epoch that the log had."""
        have = self.have.get(header.stream)
        is_here = have is not None and have.covers(header.first, header.last)
        return self.own.has_made(header) and not is_here

    def has_room(self, header: Header) -> bool:
        """Return whether there is room to know that these numbers are here; count those without.

        An origin makes as many gaps and lives as it likes, and says what it passes over.
        """
        have, name = self.have.get(header.stream), header.stream[0]
        if header.last > FARTHEST:
            has_room = False
        elif have is None:
            has_room = sum(stream[0] == name for stream in self.have) < MAX_LIVES
        else:
            fills = header.first - 1 in have or header.last + 1 in have
            has_room = fills or self._ranges_of(name) < MAX_GAPS
        self.counters.left_out += not has_room
        return has_room

    def _ranges_of(self, name: str) -> int:
        return sum(len(numbers) for stream, numbers in self.have.items() if stream[0] == name)
