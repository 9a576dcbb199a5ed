"""The job's command from its arguments to its exit code, with a stand-in for Spark."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cloud_ingest.arguments import add_ingest
from cloud_ingest.job import command as job
from cloud_ingest.job import java
from cloud_ingest.job.micro_batches import IngestSettings
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.tables.delta import IngestTable, TableError
from cloud_ingest.tables.schemas import QUARANTINE
from cloud_ingest.tables.store import TableStore


class Spark:
    """Stands in for the session and its query; both do nothing."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.started: list[tuple[Any, ...]] = []
        self.asked_for: tuple[Any, ...] = ()
        self.shipped: list[str] = []
        self.stops = self.looks = 0
        self.at_start: Callable[[], object] = lambda: None
        self.at_look: Callable[[int], bool] = lambda number: True
        self.is_busy_at_stop: bool | None = None
        self._ingest: Any = None

    @contextlib.contextmanager
    def session(self, runtime: object, master: str, conf: dict[str, str]) -> Iterator[Spark]:
        self.asked_for = runtime, master, conf
        self.at_start()
        yield self

    def addPyFile(self, path: str) -> None:  # noqa: N802
        assert Path(path).is_file()
        self.shipped.append(Path(path).name)

    def start(self, spark: object, ingest: Any, *given: Any, **more: Any) -> Spark:
        assert spark is self
        self._ingest = ingest
        self.started.append((*given, more))
        return self

    def awaitTermination(self, timeout_s: float) -> bool:  # noqa: N802
        assert timeout_s == job.ENDED_LOOK_S
        self.looks += 1
        return self.at_look(self.looks)

    def stop(self) -> None:
        self.stops += 1
        self.is_busy_at_stop = self._ingest.busy.locked()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    found = Spark()
    monkeypatch.setattr(job.java, "provide", lambda environment: "Java 17")
    monkeypatch.setattr(job, "session", found.session)
    monkeypatch.setattr(job, "start", found.start)
    nothing = SimpleNamespace(prepare=lambda: None)
    monkeypatch.setattr(job, "SparkTasks", lambda context: nothing)
    return found


@pytest.fixture
def words(spool: Any, tmp_path: Path) -> list[str]:
    """Arguments of a job over a spool that holds nothing yet."""
    return ["--spool", str(spool.folder), "--tables", str(tmp_path / "tables")]


def test_a_job_reads_what_is_there_and_ends(
    spark: Spark, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = ["--conf", "spark.a=b=c", "--conf", "spark.d=", "--max-bytes", "77"]
    assert job.main([*words, *conf, "--json", str(tmp_path / "fleet.json")]) == 0
    spool, tables = tmp_path / "spool", tmp_path / "tables"
    checkpoint = f"file://{tables}/_checkpoint-ingest"
    assert spark.started == [([spool], checkpoint, {"trigger_s": None, "max_bytes": 77})]
    assert spark.asked_for == ("Java 17", "local[*]", {"spark.a": "b=c", "spark.d": ""})
    assert (spark.looks, spark.stops, spark.shipped) == (1, 0, [])
    told = capsys.readouterr()
    assert told.err == ""
    lines = told.out.splitlines()
    assert lines[0] == f"spool {spool}: nothing to read yet"
    assert re.fullmatch(r"Spark \S+ on local\[\*\], Java 17", lines[1])
    assert lines[2:] == [
        f"tables {tables}: telemetry, quarantine",
        "no gateway has been heard yet",
    ]
    text = (tmp_path / "fleet.json").read_text()
    none = dict.fromkeys(("messages", "duplicates", "gaps", "undecodable"), 0)
    assert json.loads(text) == {"gateways": [], "totals": none, "set_aside": {}}
    assert text.endswith("}\n")


def test_a_cluster_is_sent_our_packages(spark: Spark, words: list[str]) -> None:
    assert job.main([*words, "--master", "spark://h:1", "--name", "other"]) == 0
    assert spark.shipped == ["hedgerow.zip"]
    assert spark.started[0][1].endswith("/tables/_checkpoint-other")


def test_a_checkpoint_stands_where_it_is_told_to(
    spark: Spark, words: list[str], tmp_path: Path
) -> None:
    assert job.main([*words, "--checkpoint", str(tmp_path / "x" / ".." / "c")]) == 0
    assert spark.started[0][1] == f"file://{tmp_path}/c"


def test_a_job_that_follows_goes_on_until_it_is_asked_to_end_between_two_micro_batches(
    spark: Spark, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_after: list[object] = []
    monkeypatch.setattr(job.upkeep, "compact", lambda *given, **more: looked_after.append(given))

    def look(number: int) -> bool:
        if number == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        assert number <= 3
        return False

    spark.at_look = look
    assert job.main([*words, "--follow", "--trigger-s", "0.5", "--compact"]) == 0
    assert spark.started[0][2] == {"trigger_s": 0.5, "max_bytes": 256 << 20}
    assert (spark.looks, spark.stops, spark.is_busy_at_stop) == (3, 1, True)
    assert not looked_after


def test_a_job_that_is_asked_to_end_while_spark_starts_begins_no_query(
    spark: Spark, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spark.at_start = lambda: os.kill(os.getpid(), signal.SIGINT)
    assert job.main([*words, "--compact"]) == 0
    assert spark.started == []

    def stopped_too() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    spark.at_start = stopped_too
    assert job.main(words) == 0
    assert capsys.readouterr().err == ""


def test_java_that_ends_while_spark_starts_is_told_in_one_line_and_what_else_is_raised_as_it_is(
    spark: Spark, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(text: str) -> Callable[[], None]:
        def raise_it() -> None:
            raise RuntimeError(text)

        return raise_it

    spark.at_start = fail("[JAVA_GATEWAY_EXITED] Java gateway process exited")
    assert job.main(words) == 1
    assert capsys.readouterr().err == "Java ended while Spark was starting\n"
    spark.at_start = fail("odd")
    with pytest.raises(RuntimeError, match="odd"):
        job.main(words)


@pytest.mark.parametrize(
    ("error", "code"), [(java.JavaChoiceError("no choice"), 2), (java.JavaError("no Java"), 6)]
)
def test_without_a_java_that_fits_nothing_begins(
    spark: Spark,
    words: list[str],
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def provide(environment: object) -> str:
        raise error

    monkeypatch.setattr(job.java, "provide", provide)
    assert job.main(words) == code
    told = capsys.readouterr()
    prefix = "cloud_ingest.job.command: " if code == 2 else ""
    assert (told.out, told.err) == ("", f"{prefix}{error}\n")
    assert spark.asked_for == ()


def test_figures_are_served_meanwhile_and_a_port_that_is_taken_keeps_nobody_from_the_work(
    spark: Spark, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.main([*words, "--metrics", "127.0.0.1:0"]) == 0
    assert re.search(r"^metrics at port [1-9]\d*$", capsys.readouterr().out, re.MULTILINE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert job.main([*words, "--metrics", address]) == 0
    told = capsys.readouterr()
    why = "Address already in use; the job goes on without"
    assert told.err == f"--metrics {address}: {why}\n"
    assert "metrics at port" not in told.out
    assert len(spark.started) == 2


def test_a_result_that_can_not_be_written_is_told_at_the_end(
    spark: Spark, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "folder" / "fleet.json"
    result.parent.mkdir()
    spark.at_start = result.parent.rmdir
    assert job.main([*words, "--json", str(result)]) == 1
    told = capsys.readouterr()
    assert told.err == f"{result}: No such file or directory\n"
    assert told.out.endswith("no gateway has been heard yet\n")


@pytest.mark.parametrize(("more", "code"), [([], 1), (["--follow"], 0)])
def test_a_spool_that_was_emptied_is_told_and_fails_a_job_that_ends(
    spark: Spark,
    words: list[str],
    tmp_path: Path,
    more: list[str],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert job.main(words) == 0
    offsets = tmp_path / "tables" / "_checkpoint-ingest" / "offsets"
    offsets.mkdir(parents=True)
    spool = tmp_path / "spool"
    (offsets / "0").write_text(f"v1\n{{}}\n{json.dumps({str(spool): [500, '', '']})}")
    capsys.readouterr()
    spark.started.clear()
    assert job.main([*words, *more]) == code
    assert f"spool {spool}: holds nothing, though 500 bytes" in capsys.readouterr().err
    assert len(spark.started) == 1


# -- what the parts are told -----------------------------------------------------------------------


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_ingest(parser)
    return parser.parse_args(words)


def settings_of(
    monkeypatch: pytest.MonkeyPatch, tables: Path, given: argparse.Namespace
) -> IngestSettings:
    """Return what a job would ingest with."""
    found: list[IngestSettings] = []

    def ingest(settings: IngestSettings) -> None:
        found.append(settings)
        raise TableError("so far and no further")

    monkeypatch.setattr(job, "Ingest", ingest)
    assert job.run_with(given, "hedgerow ingest") == 1
    (settings,) = found
    assert settings.tables.uri == str(tables)
    return settings


def test_a_job_that_is_told_little_ingests_with_the_defaults(
    spark: Spark, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings_of(monkeypatch, tmp_path / "tables", options(*words))
    assert found == IngestSettings(found.tables, tree="hedgerow", limits=LedgerLimits())


def test_what_a_job_is_told_is_what_it_ingests_with(
    spark: Spark, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, mappings = tmp_path / "rules.toml", tmp_path / "mappings.toml"
    rules.write_text("[hot]\nopens-cel = 91.0\n")
    mappings.write_text(
        '[[mapping]]\ntopic = "a"\nformat = "json"\nmeasurements = [{sensor = "s", value = "$.t"}]'
    )
    given = options(*words, "--name", "n", "--tree", "t", "--alerts", str(rules))
    given.mappings, given.way_out = mappings, SimpleNamespace(take=lambda records: None)
    given.gateway_gaps, given.gateway_lives, given.total_gaps = 1, 2, 3
    found = settings_of(monkeypatch, tmp_path / "tables", given)
    assert (found.name, found.tree, found.limits) == ("n", "t", LedgerLimits(1, 2, 3))
    assert found.rules is not None and found.rules.of("g", None).hot.opens_cel == 91.0
    assert [each.topic for each in found.mappings] == ["a"]
    assert found.way_out is not None and found.way_out.is_free()


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (["--compact"], ["compact", "clean None 168"]),
        (["--keep-days", "0"], ["clean 0 168"]),
        (["--keep-days", "3", "--vacuum-hours", "5"], ["clean 3 5"]),
        (["--compact", "--follow", "--keep-days", "3"], ["compact beside", "clean 3 168"]),
        (["--again"], []),
    ],
)
def test_tables_are_looked_after_as_told(
    words: list[str], done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def compact(tables: TableStore, *, looks_inside: bool) -> None:
        found.append("compact" if looks_inside else "compact beside")

    def clean(tables: TableStore, settings: Any) -> None:
        found.append(f"clean {settings.keep_days} {settings.vacuum_hours}")

    monkeypatch.setattr(job.upkeep, "compact", compact)
    monkeypatch.setattr(job.upkeep, "clean", clean)
    assert job.main(["--tables", str(tmp_path / "tables"), *words]) == 0
    assert found == done


def test_what_is_unsure_in_quarantine_is_told_only_where_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = TableStore(str(tmp_path / "tables"))
    IngestTable(store.at("quarantine"), QUARANTINE)
    for unsure, told in ((0, ""), (3, ", 3 are left that telemetry may have already")):
        run = SimpleNamespace(run=lambda: SimpleNamespace(moved=1, left=2, unsure=unsure))  # noqa: B023
        monkeypatch.setattr(job, "QuarantineReread", lambda *given: run)  # noqa: B023
        assert job.main(["--tables", store.uri, "--again"]) == 0
        assert capsys.readouterr().out == (
            f"quarantine: 1 messages are in telemetry now, 2 can't be read{told}\n"
        )
