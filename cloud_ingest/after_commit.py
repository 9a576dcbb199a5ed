"""Who is told of each commit: the fleet's tables, where that part is installed."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import msgspec

from cloud_ingest.facts import BatchFacts
from cloud_ingest.store import TableStore

FACTS = "_ledger/facts"
_WRITER = "cloud_ingest.fleet.writer"


class Follower(Protocol):
    """Takes the facts of each micro-batch once; of one that it has had, it drops them."""

    def after(self, facts: BatchFacts) -> None:
        """Take them."""


class FactsTeller:
    """Tells a follower of every commit, also of one after which the job died.

    Args:
        tables: the folder of all tables.
        query: the name under which batches are numbered.
        follower: who is told.

    """

    def __init__(self, tables: TableStore, query: str, follower: Follower) -> None:
        self._tables = tables
        self._query = query
        self._follower = follower

    def before_commit(self, facts: BatchFacts) -> None:
        """Keep the facts of a commit that comes next.

        Raises:
            OSError: they can't be written.

        """
        self._tables.write(FACTS, msgspec.msgpack.encode((self._query, facts)))

    def committed(self, facts: BatchFacts) -> None:
        """Tell of a commit that is made."""
        self._follower.after(facts)

    def committed_before(self, batch_id: int) -> None:
        """Tell once more of a commit that was made, if the job died before it had told of it."""
        data = self._tables.read(FACTS)
        if data is None:
            return
        query, facts = msgspec.msgpack.decode(data, type=tuple[str, BatchFacts])
        if (query, facts.batch_id) == (self._query, batch_id):
            self._follower.after(facts)


def teller(tables: TableStore, query: str) -> FactsTeller | None:
    """The teller of the fleet's tables; None where that part is not there."""
    try:
        module: Any = importlib.import_module(_WRITER)
    except ModuleNotFoundError as error:
        if error.name is None or not _WRITER.startswith(error.name):
            raise
        return None
    follower: Follower = module.FleetWriter(tables.uri, dict(tables.options), query=query)
    return FactsTeller(tables, query, follower)
