"""Who is told of each commit: the fleet's tables. What they can't take never keeps rows waiting.

Storage that fails is tried again with what comes next. Of facts with which they fail those of the
gateways at fault are left out, which halving finds; all of it is counted and said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import msgspec
from deltalake.exceptions import DeltaError

from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.state import StateError
from cloud_ingest.fleet.way_out_thread import WayOutThread
from cloud_ingest.fleet.writer import FleetWriter
from cloud_ingest.ingest import set_aside
from cloud_ingest.ingest.facts import BatchFacts, Numbers, gateways_of, only_of
from cloud_ingest.ingest.halving import STORAGE_ERRORS
from cloud_ingest.ingest.set_aside import AsideCounts
from cloud_ingest.ingest.signs import IngestSigns
from cloud_ingest.tables.delta import TableError, named_errors
from cloud_ingest.tables.store import TableStore

FACTS: Final = "_ledger/facts"
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

    Args:
        tables: the folder of all tables.
        query: the name under which batches are numbered.
        follow: makes who is told, of what is kept on disk.
        aside: counts what can't be told.

    """

    def __init__(
        self, tables: TableStore, query: str, follow: Callable[[], Follower], aside: AsideCounts
    ) -> None:
        self._tables = tables
        self._query = query
        self._follow = follow
        self._aside = aside
        self._follower = follow()
        self._untold: list[BatchFacts] = []

    def before_commit(self, facts: BatchFacts) -> None:
        """Keep the facts of a commit that comes next, and those that are not told yet."""
        try:
            note_facts(self._tables, self._query, [*self._untold, facts])
        except Exception as error:  # if the job dies now they are never told
            self._note(set_aside.FLEET, error)

    def committed(self, facts: BatchFacts) -> None:
        """Tell of a commit that is made."""
        self._untold.append(facts)
        gone = self._untold[:-MAX_UNTOLD]
        if gone:
            why = f"the fleet's tables are behind by {MAX_UNTOLD} micro-batches"
            self._aside.note(set_aside.FACTS, why, len(gone))
            del self._untold[: len(gone)]
        self._tell()

    def committed_before(self, batch_id: int) -> None:
        """Tell once more of a commit that was made, if the job died before it had told of it."""
        query, noted = noted_facts(self._tables)
        for facts in noted:
            if query == self._query and facts.batch_id <= batch_id:
                self.committed(facts)

    def nothing_came(self, heard_until_us: int | None, now_us: int, signs: IngestSigns) -> bool:
        """Tell of time that passed, until when a collector heard all that there was, and of signs.

        Returns:
            Whether all of it was told.

        """
        self._tell()
        try:
            self._follower.ingest_says(signs, now_us)
            if heard_until_us is not None:
                self._follower.progressed(heard_until_us, now_us)
            self._follower.tick(now_us)
        except Exception as error:  # it is tried again
            self._note(set_aside.FLEET, error)
            return False
        return True

    def ingest_ends(self) -> None:
        """Tell that the job ends.

        Raises:
            TableError: the fleet's tables can't be written.

        """
        with _named():
            self._follower.ingest_ends()

    def tables_have(self, all_numbers: Iterable[Numbers]) -> None:
        """Tell of all numbers that have come: facts of some may be gone, or the follower's state.

        Raises:
            OSError, DeltaError: the follower can't keep it.

        """
        self._follower.tables_have(all_numbers)

    def close(self) -> None:
        """Tell of the end.

        Raises:
            TableError: the fleet's tables can't be written.

        """
        with _named():
            self._follower.close()

    def _tell(self) -> None:
        while self._untold:
            try:
                self._follower.after(self._untold[0])
            except STORAGE_ERRORS as error:
                self._note(set_aside.FLEET, error)
                return
            except Exception as error:  # a follower that failed may have taken half of it
                if not self._is_told_without(self._untold[0], error):
                    return
            del self._untold[0]

    def _is_told_without(self, facts: BatchFacts, error: Exception) -> bool:
        """Tell what can be told of facts; return whether storage let us."""
        try:
            self._follower = self._follow()
            good = self._good(facts)
            self._note(set_aside.FACTS, error, len(gateways_of(facts)) - len(good))
            self._follower.after(only_of(facts, good))
        except (*STORAGE_ERRORS, StateError) as failure:
            self._note(set_aside.FLEET, failure)
            return False
        except Exception as failure:  # it fails with nothing, too
            self._note(set_aside.FACTS, failure)
            self._follower = self._follow()
        return True

    def _good(self, facts: BatchFacts) -> frozenset[str]:
        """The gateways of whom the follower can be told, each beside those before it."""
        good: frozenset[str] = frozenset()
        left = [sorted(gateways_of(facts))]
        for _ in range(MAX_TRIALS):
            if not left:
                break
            some = left.pop()
            try:
                self._follower.try_out(only_of(facts, good | frozenset(some)))
            except STORAGE_ERRORS:
                raise
            except Exception:  # of whatever kind: who is at fault is looked for in each half
                half = len(some) // 2
                left += [some[half:], some[:half]] if half else []
            else:
                good |= frozenset(some)
        return good

    def _note(self, what: str, error: Exception, count: int = 1) -> None:
        self._aside.note(what, f"the fleet's tables: {type(error).__name__}: {error}", count)


def teller(
    tables: TableStore,
    query: str,
    rules: AlertRules | None,
    last_batch: Callable[[str], int],
    aside: AsideCounts,
    way_out: WayOutThread | None = None,
) -> FactsTeller:
    """The teller of the fleet's tables; what a job died before it told is told.

    Args:
        tables: the folder of all tables.
        query: the name under which batches are numbered.
        rules: when alerts are raised.
        last_batch: the last batch that a query has committed.
        aside: counts what can't be told.
        way_out: is told of alerts.

    Raises:
        TableError: what the fleet's tables are folded from can't be read.

    """
    noted_query, noted = noted_facts(tables)
    told = [facts for facts in noted if last_batch(noted_query) >= facts.batch_id]
    if noted_query != query and told:
        before = _teller(tables, noted_query, rules, aside, way_out)
        for facts in told:
            before.committed(facts)
        before.close()
    made = _teller(tables, query, rules, aside, way_out)
    if noted_query == query:
        for facts in told:
            made.committed(facts)
    return made


def _teller(
    tables: TableStore,
    query: str,
    rules: AlertRules | None,
    aside: AsideCounts,
    way_out: WayOutThread | None,
) -> FactsTeller:
    def follow() -> Follower:
        options = dict(tables.options)
        return FleetWriter(tables.uri, options, query=query, rules=rules, way_out=way_out)

    with _named():
        return FactsTeller(tables, query, follow, aside)


def noted_facts(tables: TableStore) -> tuple[str, list[BatchFacts]]:
    """Return facts of the last commits, or of one that was to be made, and whose query's they are.

    Raises:
        TableError: they can't be read.

    """
    with named_errors(tables):
        data = tables.read(FACTS)
    if data is None:
        return "", []
    try:
        return msgspec.msgpack.decode(data, type=tuple[str, list[BatchFacts]])
    except msgspec.DecodeError:
        try:
            query, facts = msgspec.msgpack.decode(data, type=tuple[str, BatchFacts])  # of before
        except msgspec.DecodeError as error:
            raise TableError(f"{tables.uri}/{FACTS}: {error}") from error
        return query, [facts]


def note_facts(tables: TableStore, query: str, facts: Sequence[BatchFacts]) -> None:
    """Note facts that the fleet's tables may not have yet; see `noted_facts`.

    Raises:
        OSError: they can't be written.

    """
    tables.write(FACTS, msgspec.msgpack.encode((query, facts)))


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except TableError:
        raise
    except (StateError, DeltaError, OSError) as error:
        raise TableError(f"the fleet's tables: {error}") from error
