"""Listeners to commits: the fleet's tables. What they can't take never keeps rows waiting.

Storage that fails is tried again with what comes next. Of facts with which they fail those of the
gateways at fault are left out, which halving finds; all of it is counted and said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from deltalake.exceptions import DeltaError

from cloud_ingest.evidence.facts import BatchFacts, Numbers, gateways_of, only_of
from cloud_ingest.evidence.signs import IngestSigns
from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.state import StateError
from cloud_ingest.fleet.way_out_thread import WayOutThread
from cloud_ingest.fleet.writer import FleetWriter
from cloud_ingest.ingest import set_aside
from cloud_ingest.ingest.facts_notes import FactsNotes, QueryFacts
from cloud_ingest.ingest.halving import STORAGE_ERRORS
from cloud_ingest.ingest.set_aside import AsideCounts
from cloud_ingest.tables.delta import TableError
from cloud_ingest.tables.store import TableStore

MAX_UNTOLD: Final = 100
"""Micro-batches that wait for the fleet's tables; of more, the oldest are never told."""
MAX_TRIALS: Final = 200
"""Of parts of one micro-batch, to find who is at fault; then all that is left is left out."""


class Follower(Protocol):
    """Takes the facts of each micro-batch once; of one that it has had, it drops them."""

    def after(self, facts: BatchFacts) -> None:
        """Take them."""

    def progressed(self, collected_us: int, now_us: int) -> None:
        """Learn until when a collector heard all that there was, and what the job's clock says."""

    def ingest_says(self, signs: IngestSigns, now_us: int) -> None:
        """Learn what the job sees of itself and of its collectors."""

    def tick(self, now_us: int) -> bool:
        """Write what time alone has changed."""

    def ingest_ends(self) -> None:
        """Learn that the job ends and was not killed; write what has not been written."""

    def tables_have(self, all_numbers: Iterable[Numbers]) -> None:
        """Learn which numbers have come, where who told of them is gone."""

    def close(self) -> None:
        """Write what has not been written."""

    def try_out(self, facts: BatchFacts) -> None:
        """Fail as `after` would, and change nothing."""


class FactsTeller:
    """Tells a follower of every commit, also of one after which the job died.

    What can't be told yet waits, in order, and is noted on the disk, so that the next job tells it.
    It waits in memory alone only while the disk takes no note. That holds, too, while there is no
    follower: it is made when what it is made of can be read, and its first writes succeed.

    Args:
        tables: the folder of all tables.
        follow: makes who is told, of what is kept on disk, for the batches of one query.
        last_batch: the last batch that a query has committed.
        all_numbers: all that the tables have; a follower is told of them when it is new.
        aside: counts what can't be told.

    """

    def __init__(
        self,
        tables: TableStore,
        follow: Callable[[str], Follower],
        last_batch: Callable[[str], int],
        all_numbers: Callable[[], Iterable[Numbers]],
        aside: AsideCounts,
    ) -> None:
        self._notes = FactsNotes(tables)
        self._follow = follow
        self._last_batch = last_batch
        self._all_numbers = all_numbers
        self._aside = aside
        self._query = ""
        self._follower: Follower | None = None
        self._followed_query = ""
        self._owes_numbers = True
        self._has_read_notes = False
        self._untold: list[QueryFacts] = []
        self._pending: QueryFacts | None = None
        """Of a commit that comes next, or was made although it failed."""
        self._is_noted = True

    def begin(self, query: str) -> None:
        """Tell of the batches of a query from now on, and before them what is not told yet.

        Args:
            query: the name under which batches are numbered.

        """
        if query == self._query:
            return
        pending, self._pending, self._query = self._pending, None, query
        if pending is not None and self._last_batch(pending.query) >= pending.facts.batch_id:
            self._untold.append(pending)
        self._tell()

    def before_commit(self, facts: BatchFacts) -> None:
        """Keep the facts of a commit that comes next, and those that are not told yet."""
        self._pending = QueryFacts(self._query, facts)
        self._note()

    def committed(self, facts: BatchFacts) -> None:
        """Tell of a commit that is made."""
        self._pending = None
        self._untold.append(QueryFacts(self._query, facts))
        gone = self._untold[:-MAX_UNTOLD]
        if gone:
            why = f"the fleet's tables are behind by {MAX_UNTOLD} micro-batches"
            self._aside.note(set_aside.FACTS, why, len(gone))
            del self._untold[: len(gone)]
        self._tell()

    def committed_before(self, batch_id: int) -> None:
        """Tell of a commit that was made, if whoever made it did not come to tell of it."""
        pending = self._pending
        if pending is not None and pending.facts.batch_id == batch_id:
            self.committed(pending.facts)
        else:
            self._tell()

    def nothing_came(self, heard_until_us: int | None, now_us: int, signs: IngestSigns) -> bool:
        """Tell of time that passed, until when a collector heard all that there was, and of signs.

        Returns:
            Whether all of it was told.

        """
        self._tell()
        if self._follower is None:
            return False
        try:
            self._follower.ingest_says(signs, now_us)
            if heard_until_us is not None:
                self._follower.progressed(heard_until_us, now_us)
            self._follower.tick(now_us)
        except Exception as error:  # it is tried again
            self._set_aside(set_aside.FLEET, error)
            return False
        return True

    def ingest_ends(self) -> None:
        """Tell that the job ends.

        Raises:
            TableError: the fleet's tables can't be written.

        """
        with _named():
            if self._follower is not None:
                self._follower.ingest_ends()

    def _tell(self) -> None:
        """Tell what is not told yet, as far as the disk lets us."""
        try:
            self._read_notes()
            while self._untold:
                query, facts = self._untold[0]
                follower = self._follower_of(query)
                try:
                    follower.after(facts)
                except STORAGE_ERRORS:
                    raise
                except Exception as error:  # a follower that failed may have taken half of it
                    self._tell_without(query, facts, error)
                del self._untold[0]
            follower = self._follower_of(self._query)
            if self._owes_numbers:
                follower.tables_have(self._all_numbers())
                self._owes_numbers = False
        except Exception as error:  # rows do not wait for it; it is tried again
            self._set_aside(set_aside.FLEET, error)
            if self._untold and not self._is_noted:
                self._note()

    def _read_notes(self) -> None:
        """Take up, once, what was noted before this process."""
        if self._has_read_notes:
            return
        noted = self._notes.read()
        told = [one for one in noted if self._last_batch(one.query) >= one.facts.batch_id]
        self._untold[:0] = told
        self._has_read_notes = True

    def _follower_of(self, query: str) -> Follower:
        """Make who is told of a query's batches, if it is not there yet."""
        if self._follower is not None and self._followed_query != query:
            self._follower.close()
            self._follower = None
        if self._follower is None:
            self._follower, self._followed_query = self._follow(query), query
            self._owes_numbers = True
        return self._follower

    def _tell_without(self, query: str, facts: BatchFacts, error: Exception) -> None:
        """Tell what can be told of facts.

        Raises:
            OSError, DeltaError, StateError: storage does not let us; they are told again.

        """
        self._follower = None
        good = self._good(self._follower_of(query), facts)
        self._set_aside(set_aside.FACTS, error, len(gateways_of(facts)) - len(good))
        try:
            self._follower_of(query).after(only_of(facts, good))
        except STORAGE_ERRORS:
            raise
        except Exception as failure:  # it fails with nothing, too
            self._set_aside(set_aside.FACTS, failure)
            self._follower = None

    def _good(self, follower: Follower, facts: BatchFacts) -> frozenset[str]:
        """Return the gateways of whom the follower can be told, each beside those before it."""
        good: frozenset[str] = frozenset()
        left = [sorted(gateways_of(facts))]
        for _ in range(MAX_TRIALS):
            if not left:
                break
            some = left.pop()
            try:
                follower.try_out(only_of(facts, good | frozenset(some)))
            except STORAGE_ERRORS:
                raise
            except Exception:  # of whatever kind: who is at fault is looked for in each half
                half = len(some) // 2
                left += [some[half:], some[:half]] if half else []
            else:
                good |= frozenset(some)
        return good

    def _note(self) -> None:
        pending = [] if self._pending is None else [self._pending]
        self._is_noted = False
        try:
            self._read_notes()  # it would be written over
            self._notes.write(self._query, [*self._untold, *pending])
            self._is_noted = True
        except Exception as error:  # if the job dies now they are never told
            self._set_aside(set_aside.FLEET, error)

    def _set_aside(self, what: str, error: Exception, count: int = 1) -> None:
        self._aside.note(what, f"the fleet's tables: {type(error).__name__}: {error}", count)


def teller(
    tables: TableStore,
    rules: AlertRules | None,
    last_batch: Callable[[str], int],
    all_numbers: Callable[[], Iterable[Numbers]],
    aside: AsideCounts,
    way_out: WayOutThread | None = None,
) -> FactsTeller:
    """Return the teller of the fleet's tables.

    Args:
        tables: the folder of all tables.
        rules: when alerts are raised.
        last_batch: the last batch that a query has committed.
        all_numbers: all that the tables have.
        aside: counts what can't be told.
        way_out: is told of alerts.

    """

    def follow(query: str) -> Follower:
        options = dict(tables.options)
        return FleetWriter(tables.uri, options, query=query, rules=rules, way_out=way_out)

    return FactsTeller(tables, follow, last_batch, all_numbers, aside)


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except TableError:
        raise
    except (StateError, DeltaError, OSError) as error:
        raise TableError(f"the fleet's tables: {error}") from error
