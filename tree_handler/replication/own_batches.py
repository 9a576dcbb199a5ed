"""Batches that this gateway numbers: its own clients', and messages to other gateways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, Epoch, Flags, Header, Row
from tree_handler.retained.proof import RetainedProofs

_KIND = Flags.LOGGED | Flags.CONTROL
"""The flags of which an origin numbers each combination apart."""

MadeBatch = tuple[bytes, Header]


@dataclass(slots=True)
class OwnBatches:
    """The batches of one boot epoch.

    Args:
        origin: this gateway's id.
        epoch: its boot epoch.
        seal: proves that they are this gateway's; None where nobody seals.
        proofs: proves what is retained of them, likewise.

    Attributes:
        has_told_epochs: the log has a message of this epoch that tells where earlier ones ended.

    """

    origin: str
    epoch: int
    seal: batch.Seal | None = None
    proofs: RetainedProofs | None = None
    _next: dict[int, int] = field(default_factory=dict)
    has_told_epochs: bool = False
    _unsaid: tuple[int, int] | None = None
    """Numbers whose messages stay here, which neighbours have not been told of."""

    def is_own(self, header: Header) -> bool:
        """Return whether this gateway made a batch in this epoch."""
        return header.origin == self.origin and header.epoch == self.epoch

    def has_made(self, header: Header) -> bool:
        """Return whether a batch is one of this epoch whose numbers were given before.

        The log has lost it then, and somebody brings it back or says that it is lost.
        """
        if header.origin != self.origin or header.epoch != self.epoch or not header.numbered:
            return False
        return header.last < self._next.get(Flags.LOGGED | header.flags & Flags.CONTROL, 1)

    @property
    def next_logged(self) -> int:
        """The number that the next logged message of this gateway's clients gets."""
        return self._next.get(Flags.LOGGED, 1)

    def last_of(self, stream: Epoch) -> int:
        """Return the last logged number of a stream of this epoch; 0 if none, and for others'."""
        origin, epoch = stream
        if epoch != self.epoch:
            return 0
        if origin == self.origin:
            return self._next.get(Flags.LOGGED, 1) - 1
        if origin == CONTROL_PREFIX + self.origin:
            return self._next.get(Flags.LOGGED | Flags.CONTROL, 1) - 1
        return 0

    def make(
        self, rows: Sequence[Row], flags: int, origin_time_us: int, address: bytes = b""
    ) -> MadeBatch:
        """Make the next batch; for its ``address`` see `batch.make`.

        Raises:
            BatchError: no messages, or too large.

        """
        first = self._next.get(flags & _KIND, 1)
        if self.proofs is not None and flags & (_KIND | Flags.LOCAL) == Flags.LOGGED:
            rows = self.proofs.prove_rows(rows, (self.origin, self.epoch), first)
        return batch.make(
            self.origin,
            self.epoch,
            first,
            rows,
            flags=flags,
            origin_time_us=origin_time_us,
            seal=self.seal,
            address=address,
        )

    def takes(self, header: Header) -> bool:
        """Take the numbers of a batch that is in the log, or of QoS 0 on its way, if it is this
        epoch's and new; return whether it is."""
        if header.origin != self.origin or header.epoch != self.epoch or self.has_made(header):
            return False
        self._next[header.flags & _KIND] = header.last + 1
        self.has_told_epochs |= header.control and header.logged
        return True

    def unsaid_before(self, header: Header) -> list[MadeBatch]:
        """Return the statements that others need before a logged batch of clients' goes on its way.

        A batch that stays here is remembered for the next; more than one range never is.
        """
        said = self._unsaid
        if said is None and not header.local:
            return []
        if header.local:
            if said is None or said[1] + 1 == header.first:
                self._unsaid = header.first if said is None else said[0], header.last
                return []
            self._unsaid = header.first, header.last
            return self._statements(said)
        return self.unsaid()

    def unsaid(self) -> list[MadeBatch]:
        """Return the statements that are due in any case."""
        said, self._unsaid = self._unsaid, None
        return [] if said is None else self._statements(said)

    def _statements(self, said: tuple[int, int]) -> list[MadeBatch]:
        stream = (self.origin, self.epoch)
        return [batch.passed(stream, *part, seal=self.seal) for part in parts(*said)]


def parts(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut a range into what a statement can hold."""
    for start in range(first, last + 1, batch.MAX_PASSED):
        yield start, min(last, start + batch.MAX_PASSED - 1)
