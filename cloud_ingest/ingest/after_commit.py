"""Who is told of each commit: the fleet's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec
from deltalake.exceptions import DeltaError

from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.state import StateError
from cloud_ingest.fleet.writer import FleetWriter
from cloud_ingest.ingest.facts import BatchFacts
from cloud_ingest.tables.delta import TableError, named_errors
from cloud_ingest.tables.store import TableStore

FACTS = "_ledger/facts"


class Follower(Protocol):
    """Takes the facts of each micro-batch once; of one that it has had, it drops them."""

    def after(self, facts: BatchFacts) -> None:
        """Take them."""

    def progressed(self, collected_us: int, now_us: int) -> None:
        """Learn until when a collector heard all that there was, and what the job's clock says."""

    def tick(self, now_us: int) -> bool:
        """Write what time alone has changed."""

    def close(self) -> None:
        """Write what has not been written."""


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
            TableError: they can't be written.

        """
        with named_errors(self._tables):
            self._tables.write(FACTS, msgspec.msgpack.encode((self._query, facts)))

    def committed(self, facts: BatchFacts) -> None:
        """Tell of a commit that is made.

        Raises:
            TableError: the fleet's tables can't be written; the batch may come again.

        """
        with _named():
            self._follower.after(facts)

    def committed_before(self, batch_id: int) -> None:
        """Tell once more of a commit that was made, if the job died before it had told of it.

        Raises:
            TableError: likewise.

        """
        noted = _noted(self._tables)
        if noted is not None and (noted[0], noted[1].batch_id) == (self._query, batch_id):
            self.committed(noted[1])

    def nothing_came(self, heard_until_us: int | None, now_us: int) -> None:
        """Tell of time that passed, and until when a collector heard all that there was.

        Raises:
            TableError: likewise.

        """
        with _named():
            if heard_until_us is not None:
                self._follower.progressed(heard_until_us, now_us)
            self._follower.tick(now_us)

    def close(self) -> None:
        """Tell of the end.

        Raises:
            TableError: likewise.

        """
        with _named():
            self._follower.close()


def teller(
    tables: TableStore,
    query: str,
    rules: AlertRules | None,
    last_batch: Callable[[str], int],
) -> FactsTeller:
    """The teller of the fleet's tables; what another query's job died before it told is told.

    Args:
        tables: the folder of all tables.
        query: the name under which batches are numbered.
        rules: when alerts are raised.
        last_batch: the last batch that a query has committed.

    Raises:
        TableError: what the fleet's tables are folded from can't be read.

    """
    noted = _noted(tables)
    if noted is not None and noted[0] != query and last_batch(noted[0]) >= noted[1].batch_id:
        before = _teller(tables, noted[0], rules)
        before.committed(noted[1])
        before.close()
    return _teller(tables, query, rules)


def _teller(tables: TableStore, query: str, rules: AlertRules | None) -> FactsTeller:
    with _named():
        follower = FleetWriter(tables.uri, dict(tables.options), query=query, rules=rules)
    return FactsTeller(tables, query, follower)


def _noted(tables: TableStore) -> tuple[str, BatchFacts] | None:
    """The facts of the last commit, or of one that was to be made."""
    data = tables.read(FACTS)
    return None if data is None else msgspec.msgpack.decode(data, type=tuple[str, BatchFacts])


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except TableError:
        raise
    except (StateError, DeltaError, OSError) as error:
        raise TableError(f"the fleet's tables: {error}") from error
