"""A query that ends is begun again where that helps, and what killed jobs left in /tmp goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from cloud_ingest.job.beginnings import DISK_FULL, MOST_PAUSE_S, TRIES, Beginnings, asked_to_end
from cloud_ingest.job.command import SparkGoneError, ended
from cloud_ingest.job.scratch import LOCK, scratch
from cloud_ingest.spool.segments import SpoolError
from cloud_ingest.tables.delta import TableError

GONE = "[STREAM_FAILED] Query [id = x] terminated with exception:  SQLSTATE: XXKST\n=== Streaming"
FULL = "py4j: cloud_ingest.tables.delta.TableError: /tables: No space left on device\n\tat x"
OTHER = "cloud_ingest.tables.delta.OtherWriterError: /tables: another job writes these tables"
DAMAGED = "cloud_ingest.spool.segments.SpoolError: spool x.log, byte 7: is missing"


class Waits(threading.Event):
    """Waits for no time, and notes for how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited.append(timeout)
        return self.is_set()


class Queries:
    """Queries that end with one error after the other, and then without one."""

    def __init__(self, *errors: str) -> None:
        self.left = list(errors)
        self.begun = 0

    def begin(self) -> Queries:
        self.begun += 1
        return self

    def awaitTermination(self) -> None:  # noqa: N802  # Spark's own name
        if self.left:
            raise PySparkException(self.left.pop(0))


def beginnings(**settings: Any) -> tuple[Beginnings, Waits, list[str]]:
    waits, said = Waits(), list[str]()
    return Beginnings(asked=waits, say=said.append, **settings), waits, said


def test_a_query_whose_source_was_killed_is_begun_again_and_one_line_says_so() -> None:
    queries = Queries(GONE)
    again, waits, said = beginnings()
    ended(queries.begin, again=again)
    assert (queries.begun, waits.waited) == (2, [1.0])
    assert said == [
        "a process of Spark's is gone: the query is begun again in 1 s, try 1 of 5",
    ]


def test_a_query_that_ends_again_and_again_ends_the_job() -> None:
    queries = Queries(*[GONE] * 100)
    again, waits, _ = beginnings()
    with pytest.raises(PySparkException, match="STREAM_FAILED"):
        ended(queries.begin, again=again)
    assert waits.waited == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert queries.begun == TRIES + 1


def test_tries_are_counted_anew_once_something_was_taken() -> None:
    taken = iter(range(1, 1_000))
    queries = Queries(*[GONE] * 50)
    again, waits, _ = beginnings(taken=lambda: next(taken))
    ended(queries.begin, again=again)
    assert queries.begun == 51
    assert set(waits.waited) == {1.0}


def test_a_job_that_follows_waits_for_storage_as_long_as_it_takes_and_another_ends() -> None:
    queries = Queries(*[FULL] * 50)
    again, waits, said = beginnings(follows=True)
    ended(queries.begin, again=again)
    assert queries.begun == 51
    assert max(waits.waited) == waits.waited[-1] == MOST_PAUSE_S
    assert said[0] == ("/tables: No space left on device: the query is begun again in 1 s")
    with pytest.raises(TableError, match="No space left"):
        ended(Queries(FULL).begin)


@pytest.mark.parametrize(("text", "kind"), [(OTHER, TableError), (DAMAGED, SpoolError)])
def test_what_no_waiting_mends_ends_the_job_at_once(text: str, kind: type[Exception]) -> None:
    again, waits, _ = beginnings(follows=True)
    with pytest.raises(kind):
        ended(Queries(text).begin, again=again)
    assert waits.waited == []


def test_a_job_that_is_asked_to_end_begins_nothing_again() -> None:
    queries = Queries(GONE)
    again, waits, _ = beginnings()
    waits.set()
    ended(queries.begin, again=again)
    assert queries.begun == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_a_job_to_end_and_is_anothers_again_after(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)
    with asked_to_end() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), number)
        assert asked.wait(60)
    assert signal.getsignal(number) is before


# -- /tmp ------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


KILLED = """
import os, signal, tempfile
tempfile.tempdir = {place!r}
from cloud_ingest.job.scratch import scratch
with scratch("spark") as folder:
    (folder / "home").mkdir()
    (folder / "home" / "jars").symlink_to("/")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_job_left_goes_at_the_next_start_and_nothing_else(place: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED.format(place=str(place))], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = place.iterdir()
    for name in ("hedgerow-spark-of-before", "hedgerow-again-1", "spark-1"):
        (place / name).mkdir()
    (place / "hedgerow-spark-link").symlink_to(left)
    with scratch("spark") as folder, scratch("spark") as other:
        assert not left.exists()
        assert folder.is_dir()  # that of one who lives stays
        assert other.is_dir()
    assert {path.name for path in place.iterdir()} == {
        *("hedgerow-spark-of-before", "hedgerow-again-1", "spark-1", "hedgerow-spark-link"),
    }


def test_what_another_user_left_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-c", KILLED.format(place=str(place))], check=False)
    (left,) = place.iterdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with scratch("spark"):
        assert left.exists()


@pytest.mark.parametrize("error", [Py4JNetworkError("gone"), ConnectionResetError("gone")])
def test_without_spark_s_java_process_the_job_ends_and_says_so(error: Exception) -> None:
    def begin() -> None:
        raise error

    with pytest.raises(SparkGoneError, match=r"^Spark's Java process is gone$"):
        ended(begin)


def test_an_error_that_is_not_spark_s_ends_the_job_as_it_is() -> None:
    def begin() -> None:
        raise ZeroDivisionError

    again, waits, _ = beginnings(follows=True)
    with pytest.raises(ZeroDivisionError):
        ended(begin, again=again)
    assert waits.waited == []


def test_a_job_that_is_asked_to_end_while_it_waits_to_begin_again_ends() -> None:
    queries = Queries(OTHER)
    again, waits, _ = beginnings()

    def wait(query: Queries) -> None:
        try:
            query.awaitTermination()
        except PySparkException as error:
            raise AskedMeanwhile(str(error), waits) from error

    ended(queries.begin, wait, again)
    assert queries.begun == 1


class AskedMeanwhile(PySparkException):
    """A failure while whose text is read the job is asked to end."""

    def __init__(self, text: str, asked: Waits) -> None:
        super().__init__(text)
        self._asked = asked

    def __str__(self) -> str:
        self._asked.set()
        return super().__str__()


def test_a_disk_of_the_checkpoint_that_is_full_is_named_so() -> None:
    text = f"java.io.IOException: {DISK_FULL}\n\tat x"
    with pytest.raises(TableError, match=r"^a disk is full: .* \(the checkpoint's, or Spark's own"):
        ended(Queries(text).begin)
    again, _, said = beginnings(follows=True)
    ended(Queries(text).begin, again=again)
    assert said == [f"{DISK_FULL}: the query is begun again in 1 s"]


def test_looking_for_what_was_left_and_a_folder_that_is_done_with_hold_no_file_open(
    place: Path,
) -> None:
    def held() -> list[str]:
        links = (each for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        return [found for each in links if str(place) in (found := str(each.readlink()))]

    for name in ("hedgerow-spark-a", "hedgerow-spark-b"):
        (place / name).mkdir()
        (place / name / LOCK).touch()
    (place / "hedgerow-spark-c").mkdir()
    with scratch("spark") as folder, scratch("spark") as other:
        assert {path.name for path in place.iterdir()} == {
            "hedgerow-spark-c",
            folder.name,
            other.name,
        }
        assert folder.name.startswith("hedgerow-spark-")
        assert (folder / LOCK).stat().st_mode & 0o777 == 0o600
        assert len(held()) == 2  # one of each, locked
    assert not held()
    assert [path.name for path in place.iterdir()] == ["hedgerow-spark-c"]
