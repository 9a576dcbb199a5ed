"""Notes, beside the tables, of facts that the fleet's tables may not have yet.

A batch is known by its query and number, so what is noted twice is told once. Facts of the query
that runs stand in `OWN`, in the form of all versions. Those of queries before it, which are left
only where a disk was full or failing as the query began, stand in `BEFORE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.tables.delta import TableError, named_errors
from cloud_ingest.tables.store import TableStore

OWN: Final = "_ledger/facts"
BEFORE: Final = "_ledger/facts-before"

REMEDY: Final = (
    "it is damaged or of a later version. No row depends on it: move it away, and the fleet's "
    "tables go on without what it tells of its micro-batches"
)
"""The remedy for notes that can't be read."""

_Form = TypeVar("_Form")


class QueryFacts(NamedTuple):
    """The facts of one batch.

    Attributes:
        query: whose batch it is.
        facts: what it tells.

    """

    query: str
    facts: BatchFacts


class FactsNotes:
    """The notes of one set of tables; one process writes them at a time.

    Args:
        tables: the folder of all tables.

    """

    def __init__(self, tables: TableStore) -> None:
        self._tables = tables
        self._has_before = True
        """True if `BEFORE` may hold any."""

    def read(self) -> list[QueryFacts]:
        """Return what is noted: of commits, and of one that was to be made.

        Raises:
            TableError: it can't be read.

        """
        with named_errors(self._tables):
            before, own = self._tables.read(BEFORE), self._tables.read(OWN)
        found: list[QueryFacts] = []
        if before is not None:
            found += self._decoded(BEFORE, before, list[QueryFacts])
        self._has_before = bool(found)
        if own is not None:
            found += self._own(own)
        return found

    def write(self, query: str, noted: Sequence[QueryFacts]) -> None:
        """Note facts in place of all that is noted.

        Args:
            query: the query that runs.
            noted: the facts, in order.

        Raises:
            OSError: they can't be written; what was noted of earlier queries is kept.

        """
        before = [one for one in noted if one.query != query]
        if before:
            self._write_before(before)
        own = [one.facts for one in noted if one.query == query]
        self._tables.write(OWN, msgspec.msgpack.encode((query, own)))
        if self._has_before and not before:
            self._write_before([])

    def _write_before(self, noted: Sequence[QueryFacts]) -> None:
        self._tables.write(BEFORE, msgspec.msgpack.encode(noted))
        self._has_before = bool(noted)

    def _own(self, data: bytes) -> list[QueryFacts]:
        try:
            query, noted = msgspec.msgpack.decode(data, type=tuple[str, list[BatchFacts]])
        except msgspec.DecodeError:  # a version before noted one at a time
            query, one = self._decoded(OWN, data, tuple[str, BatchFacts])
            noted = [one]
        return [QueryFacts(query, facts) for facts in noted]

    def _decoded(self, name: str, data: bytes, form: type[_Form]) -> _Form:
        try:
            return msgspec.msgpack.decode(data, type=form)
        except msgspec.DecodeError as error:
            raise TableError(f"{self._tables.uri}/{name}: {error}: {REMEDY}") from error
