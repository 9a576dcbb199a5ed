"""Facts of a micro-batch wait while a disk is full, and reach the fleet's tables once, in order."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from cloud_ingest.evidence.facts import BatchFacts, Numbers, Statement, gateways_of
from cloud_ingest.evidence.signs import IngestSigns
from cloud_ingest.fleet.state import StateError
from cloud_ingest.ingest import after_commit, set_aside
from cloud_ingest.ingest.after_commit import FactsTeller
from cloud_ingest.ingest.facts_notes import BEFORE, OWN, FactsNotes, QueryFacts
from cloud_ingest.ingest.set_aside import AsideCounts
from cloud_ingest.tables.delta import TableError
from cloud_ingest.tables.store import TableStore

NO_ROOM = OSError(errno.ENOSPC, "No space left on device")
NOTHING = IngestSigns(())
Told = tuple[str, int]


class Fleet:
    """The part that outlives the job: the fleet's tables, and the last commit of each query."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.numbers_told = 0
        self.committed: dict[str, int] = {}
        self.opens: Exception | None = None
        self.takes: Exception | None = None

    def follow(self, query: str) -> Follower:
        if self.opens is not None:
            raise self.opens
        return Follower(self, query)

    def last_batch(self, query: str) -> int:
        return self.committed.get(query, -1)


class Follower:
    """Takes each batch of a query once."""

    def __init__(self, fleet: Fleet, query: str) -> None:
        self._fleet = fleet
        self._query = query

    def after(self, facts: BatchFacts) -> None:
        if self._fleet.takes is not None:
            raise self._fleet.takes
        if (self._query, facts.batch_id) not in self._fleet.told:
            self._fleet.told.append((self._query, facts.batch_id))

    def try_out(self, facts: BatchFacts) -> None:
        """Nothing of it is at fault."""

    def tables_have(self, all_numbers: Iterable[Numbers]) -> None:
        self._fleet.numbers_told += 1

    def progressed(self, collected_us: int, now_us: int) -> None:
        """No test looks at it."""

    def ingest_says(self, signs: IngestSigns, now_us: int) -> None:
        """Likewise."""

    def tick(self, now_us: int) -> bool:
        return False

    def ingest_ends(self) -> None:
        """Likewise."""

    def close(self) -> None:
        """Likewise."""


class Job:
    """One life of the job over a fleet."""

    def __init__(self, fleet: Fleet, folder: Path, query: str = "q") -> None:
        self.fleet = fleet
        self.aside = AsideCounts()
        store = TableStore(str(folder))
        self.teller = FactsTeller(store, fleet.follow, fleet.last_batch, lambda: (), self.aside)
        self.query = query
        self.teller.begin(query)

    def begin(self, query: str) -> None:
        self.query = query
        self.teller.begin(query)

    def notes_and_commits(self, number: int) -> BatchFacts:
        """Make a commit, and be stopped before anybody is told of it."""
        facts = BatchFacts(batch_id=number)
        self.teller.before_commit(facts)
        self.fleet.committed[self.query] = number
        return facts

    def take(self, *numbers: int) -> None:
        for number in numbers:
            self.teller.committed(self.notes_and_commits(number))


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@contextmanager
def refused_notes() -> Iterator[None]:
    """The tables' disk takes no small file."""
    with pytest.MonkeyPatch.context() as full:

        def refuse(*_: object) -> None:
            raise NO_ROOM

        full.setattr(TableStore, "write", refuse)
        yield


@pytest.mark.parametrize("why", [NO_ROOM, StateError("damaged"), RuntimeError("a bug")])
def test_what_comes_before_the_fleets_tables_can_be_opened_is_told_then(
    fleet: Fleet, tmp_path: Path, why: Exception
) -> None:
    fleet.opens = why
    job = Job(fleet, tmp_path)
    job.take(0, 1)
    assert not job.teller.nothing_came(None, 0, NOTHING)
    fleet.opens = None
    assert job.teller.nothing_came(None, 0, NOTHING)
    assert fleet.told == [("q", 0), ("q", 1)]
    assert fleet.numbers_told == 1
    assert set_aside.FACTS not in job.aside.counts


def test_what_could_not_be_told_before_a_kill_is_told_by_the_next_job(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.opens = NO_ROOM
    Job(fleet, tmp_path).take(0, 1)
    Job(fleet, tmp_path).take(2)
    fleet.opens = None
    Job(fleet, tmp_path).take(3)
    assert fleet.told == [("q", number) for number in range(4)]


def test_a_commit_that_was_made_and_told_as_failed_is_told_though_no_note_was_taken(
    fleet: Fleet, tmp_path: Path
) -> None:
    with refused_notes():
        job = Job(fleet, tmp_path)
        job.notes_and_commits(0)  # and its batch comes again
    job.teller.committed_before(0)
    assert fleet.told == [("q", 0)]


def test_a_note_that_was_refused_is_taken_as_soon_as_there_is_room(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.takes = NO_ROOM
    with refused_notes():
        job = Job(fleet, tmp_path)
        job.take(0)
    job.teller.nothing_came(None, 0, NOTHING)  # killed behind this
    fleet.takes = None
    Job(fleet, tmp_path)
    assert fleet.told == [("q", 0)]


def test_a_commit_that_was_not_made_is_not_told(fleet: Fleet, tmp_path: Path) -> None:
    job = Job(fleet, tmp_path)
    job.take(0)
    job.teller.before_commit(BatchFacts(batch_id=1))  # killed before the commit
    Job(fleet, tmp_path)
    assert fleet.told == [("q", 0)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_facts_of_a_query_whose_checkpoint_is_gone_are_told_under_its_name(
    fleet: Fleet, tmp_path: Path, is_killed: bool
) -> None:
    fleet.takes = NO_ROOM
    job = Job(fleet, tmp_path, "q0")
    job.take(0, 1)
    for query in ("q1", "q2"):
        if is_killed:
            job = Job(fleet, tmp_path, query)
        else:
            job.begin(query)
        job.take(0)
    fleet.takes = None
    if is_killed:
        job = Job(fleet, tmp_path, "q2")
    job.take(1, 2)
    assert fleet.told == [("q0", 0), ("q0", 1), ("q1", 0), ("q2", 0), ("q2", 1), ("q2", 2)]
    assert [one.query for one in FactsNotes(TableStore(str(tmp_path))).read()] == ["q2"]
    assert set_aside.FACTS not in job.aside.counts


def test_what_was_noted_is_never_written_over_unread(fleet: Fleet, tmp_path: Path) -> None:
    fleet.takes = NO_ROOM
    Job(fleet, tmp_path).take(0)
    (tmp_path / BEFORE).mkdir(parents=True)  # the notes can't be read
    Job(fleet, tmp_path).take(1)
    (tmp_path / BEFORE).rmdir()
    fleet.takes = None
    Job(fleet, tmp_path)
    assert ("q", 0) in fleet.told


@pytest.mark.parametrize("told", [[BatchFacts(batch_id=1)], BatchFacts(batch_id=1)])
def test_notes_of_earlier_versions_are_read_and_written_in_their_form(
    tmp_path: Path, told: object
) -> None:
    store = TableStore(str(tmp_path))
    store.write(OWN, msgspec.msgpack.encode(("q", told)))
    notes = FactsNotes(store)
    noted = notes.read()
    assert noted == [QueryFacts("q", BatchFacts(batch_id=1))]
    notes.write("q", noted)
    assert store.read(OWN) == msgspec.msgpack.encode(("q", [BatchFacts(batch_id=1)]))
    assert store.read(BEFORE) is None


@pytest.mark.parametrize("name", [OWN, BEFORE])
def test_damaged_notes_say_what_to_do_and_once_that_is_done_the_job_tells_on(
    fleet: Fleet, tmp_path: Path, name: str
) -> None:
    store = TableStore(str(tmp_path))
    for damaged in (b"", b"\x00damaged", msgspec.msgpack.encode(["q", 7])):
        store.write(name, damaged)
        with pytest.raises(TableError, match=f"{name}: .*: move it away, and the fleet's tables"):
            FactsNotes(store).read()
    job = Job(fleet, tmp_path)
    job.take(0)
    assert (fleet.told, store.read(name)) == ([], damaged), "it is not written over"
    (tmp_path / name).rename(tmp_path / "away")
    job.take(1)
    assert fleet.told == [("q", 0), ("q", 1)]


def test_a_job_says_of_damaged_notes_what_to_do(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    TableStore(str(tmp_path)).write(OWN, b"damaged")
    job = Job(fleet, tmp_path)
    assert job.aside.counts[set_aside.FLEET] >= 1
    assert f"{tmp_path}/{OWN}: " in caplog.text
    assert "move it away" in caplog.text


def test_a_commit_that_was_made_in_silence_is_told_before_what_another_query_commits(
    fleet: Fleet, tmp_path: Path
) -> None:
    job = Job(fleet, tmp_path, "q0")
    job.notes_and_commits(0)
    job.begin("q1")
    job.take(0)
    assert fleet.told == [("q0", 0), ("q1", 0)]
    job.teller.before_commit(BatchFacts(batch_id=1))  # it is not made
    job.begin("q2")
    job.take(0)
    assert fleet.told == [("q0", 0), ("q1", 0), ("q2", 0)]


def test_so_many_commits_wait_to_be_told_and_of_more_the_oldest_is_left_out_and_counted(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(after_commit, "MAX_UNTOLD", 3)
    fleet.takes = NO_ROOM
    job = Job(fleet, tmp_path)
    job.take(0, 1, 2)
    assert set_aside.FACTS not in job.aside.counts
    job.take(3, 4)
    assert job.aside.counts[set_aside.FACTS] == 2
    assert "the fleet's tables are behind by 3 micro-batches" in caplog.text
    fleet.takes = None
    job.teller.nothing_came(None, 0, NOTHING)
    assert fleet.told == [("q", 2), ("q", 3), ("q", 4)]


@pytest.mark.parametrize("failing", ["ingest_says", "progressed", "tick"])
def test_time_that_could_not_be_told_is_counted_and_the_next_is(
    fleet: Fleet, tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(fleet, tmp_path)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise NO_ROOM

        patch.setattr(Follower, failing, fail)
        assert not job.teller.nothing_came(1, 2, NOTHING)
        assert job.aside.counts == {set_aside.FLEET: 1}
    assert job.teller.nothing_came(1, 2, NOTHING)
    assert job.aside.counts == {set_aside.FLEET: 1}


def test_time_that_passed_is_told_with_until_when_a_collector_heard(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[object, ...]] = []
    for name in ("ingest_says", "progressed", "tick"):
        monkeypatch.setattr(Follower, name, lambda _, *what, name=name: told.append((name, *what)))
    job = Job(fleet, tmp_path)
    assert job.teller.nothing_came(None, 5, NOTHING)
    assert job.teller.nothing_came(0, 6, NOTHING)
    assert told == [
        *[("ingest_says", NOTHING, 5), ("tick", 5)],
        *[("ingest_says", NOTHING, 6), ("progressed", 0, 6), ("tick", 6)],
    ]


def facts_of(number: int, *gateways: str) -> BatchFacts:
    said = tuple(Statement(name, 1, 1, 1, 1, "status", b"") for name in gateways)
    return BatchFacts(batch_id=number, statements=said)


def test_whoever_can_not_be_told_of_is_left_out_and_the_others_are_told(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[list[str]] = []

    def take(_: Follower, facts: BatchFacts) -> None:
        names = sorted(gateways_of(facts))
        if "bad" in names or "worse" in names:
            raise RuntimeError("a bug")
        taken.append(names)

    monkeypatch.setattr(Follower, "try_out", take)
    monkeypatch.setattr(Follower, "after", take)
    job = Job(fleet, tmp_path)
    job.fleet.committed["q"] = 0
    job.teller.committed(facts_of(0, "a", "bad", "c", "d", "worse"))
    assert taken[-1] == ["a", "c", "d"]
    assert job.aside.counts == {set_aside.FACTS: 2}


def test_facts_that_fail_though_nobody_is_at_fault_are_left_out_and_the_next_are_told(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.takes = RuntimeError("a bug")
    job = Job(fleet, tmp_path)
    job.take(0)
    assert job.aside.counts[set_aside.FACTS] >= 1
    fleet.takes = None
    job.take(1)
    assert fleet.told == [("q", 1)]


def test_where_storage_fails_while_somebody_at_fault_is_looked_for_all_is_told_later(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.takes = RuntimeError("a bug")
    job = Job(fleet, tmp_path)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise NO_ROOM

        patch.setattr(Follower, "try_out", fail)
        job.fleet.committed["q"] = 0
        job.teller.committed(facts_of(0, "a", "b"))
        assert job.aside.counts == {set_aside.FLEET: 1}
    fleet.takes = None
    assert job.teller.nothing_came(None, 0, NOTHING)
    assert fleet.told == [("q", 0)]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TableError("as it is"), "^as it is$"),
        (NO_ROOM, "^the fleet's tables: .*No space left on device$"),
        (StateError("damaged"), "^the fleet's tables: damaged$"),
    ],
)
def test_an_end_that_can_not_be_told_is_an_error_of_a_table(
    fleet: Fleet, tmp_path: Path, error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Follower) -> None:
        raise error

    monkeypatch.setattr(Follower, "ingest_ends", fail)
    job = Job(fleet, tmp_path)
    with pytest.raises(TableError, match=why):
        job.teller.ingest_ends()
