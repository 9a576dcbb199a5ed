"""The settings with which Spark is started and ended, without starting it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cloud_ingest.job import session as sessions
from cloud_ingest.job.java import Java

JAVA = Java(Path("/java"), Path("/java/bin/java"), 17, "PATH")
TOLD = ("JAVA_HOME", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_HOME")


class Spark:
    """Stands in for PySpark, for Java's process, and for the archive of its classes.

    Args:
        ends: the code with which Java ends; None: it does not end by itself.
        writes: whether Java writes its classes.

    """

    def __init__(self, ends: int | None = 0, writes: bool = False) -> None:
        self.calls: list[str] = []
        self.environment: dict[str, str | None] = {}
        self.settings: Mapping[str, Any] = {}
        self.master = self.name = ""
        self.archive_conf: Mapping[str, str] | None = None
        self.options, self.home, self.is_written = "-XX:Archive", Path("/home-of-spark"), writes
        self._ends = ends
        self.returncode: int | None = None
        self.builder = self
        self.sparkContext = SimpleNamespace(_gateway=self, _accumulatorServer=None)
        self.proc = self
        self.stdin = SimpleNamespace(close=lambda: self.calls.append("input closed"))

    @contextlib.contextmanager
    def class_archive(self, java: Java, conf: Mapping[str, str], *_: object) -> Iterator[Any]:
        assert java is JAVA
        self.archive_conf = conf
        yield self

    def appName(self, name: str) -> Spark:  # noqa: N802
        self.name = name
        return self

    def __call__(self, master: str) -> Spark:
        self.master = master
        return self

    def config(self, map: Mapping[str, Any]) -> Spark:  # noqa: A002
        self.settings = map
        return self

    def getOrCreate(self) -> Spark:  # noqa: N802
        self.environment = {name: os.environ.get(name) for name in TOLD}
        return self

    def stop(self) -> None:
        self.calls.append("stopped")
        raise ConnectionError("its process is gone")

    def shutdown(self) -> None:
        self.calls.append("shut down")
        raise ConnectionError("its process is gone")

    def wait(self, timeout: float | None = None) -> None:
        self.calls.append(f"waited {timeout:g} s" if timeout else "waited")
        if self._ends is None:
            self._ends = -9
            raise subprocess.TimeoutExpired("java", timeout or 0)
        self.returncode = self._ends

    def kill(self) -> None:
        self.calls.append("killed")

    def keep(self) -> None:
        self.calls.append("kept")


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TOLD:
        monkeypatch.delenv(name, raising=False)


def started(
    monkeypatch: pytest.MonkeyPatch, spark: Spark, master: str, conf: dict[str, str] | None = None
) -> Spark:
    before = dict(os.environ)
    stands_in = SimpleNamespace(builder=SimpleNamespace(master=spark))
    monkeypatch.setattr(sessions, "SparkSession", stands_in)
    monkeypatch.setattr(sessions, "SparkContext", SimpleNamespace(_gateway=1, _jvm=1))
    monkeypatch.setattr(sessions, "class_archive", spark.class_archive)
    with sessions.session(JAVA, master, conf) as found:
        assert found is spark  # type: ignore[comparison-overlap]  # which stands in for it
        assert dict(os.environ) == before
        assert not spark.calls
    return spark


def test_a_session_of_this_process_is_closed_to_the_network_and_has_the_kept_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark = started(monkeypatch, Spark(), "local[2]")
    assert (spark.master, spark.name) == ("local[2,4]", "hedgerow")
    assert spark.settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert spark.settings["spark.driver.host"] == "127.0.0.1"
    assert spark.settings["spark.driver.extraJavaOptions"].endswith(" -XX:Archive")
    assert "-Duser.timezone=UTC" in spark.settings["spark.driver.extraJavaOptions"]
    assert spark.archive_conf == {}
    assert spark.environment == {
        "JAVA_HOME": "/java",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": "/home-of-spark",
    }


@pytest.mark.parametrize(
    ("given", "master"),
    [
        ("local", "local"),
        ("local[*]", "local[*,4]"),
        ("local[9999]", "local[9999,4]"),
        ("local[2,3]", "local[2,3]"),
        ("local[10000]", "local[10000]"),
    ],
)
def test_a_task_of_this_process_is_tried_as_often_as_a_cluster_tries_it(
    monkeypatch: pytest.MonkeyPatch, given: str, master: str
) -> None:
    assert started(monkeypatch, Spark(), given).master == master


def test_a_session_of_a_cluster_is_reached_from_its_workers_and_takes_their_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark = started(monkeypatch, Spark(), "spark://host:7077")
    assert spark.master == "spark://host:7077"
    assert not [name for name in spark.settings if name in ("spark.driver.host",)]
    assert "spark.driver.bindAddress" not in spark.settings
    assert spark.archive_conf is None
    assert spark.environment["SPARK_LOCAL_IP"] is spark.environment["SPARK_HOME"] is None
    assert spark.environment["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/there/python3")
    spark = started(monkeypatch, Spark(), "spark://host:7077")
    assert spark.environment["PYSPARK_PYTHON"] == "/there/python3"
    spark = started(monkeypatch, Spark(), "local[1]")
    assert spark.environment["PYSPARK_PYTHON"] == sys.executable


def test_a_spark_of_the_machine_has_no_kept_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    spark = started(monkeypatch, Spark(ends=0), "local[1]")
    assert spark.archive_conf is None
    assert spark.environment["SPARK_HOME"] == "/opt/spark"
    assert spark.settings["spark.driver.extraJavaOptions"].endswith('" ')
    assert "kept" not in spark.calls


def test_what_is_set_goes_before_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"spark.driver.host": "10.0.0.1", "spark.x": "y"}
    spark = started(monkeypatch, Spark(), "local[1]", conf)
    assert spark.archive_conf == conf
    assert {name: spark.settings[name] for name in conf} == conf
    assert spark.settings["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("ends", "is_kept"),
    [(0, True), (130, True), (143, True), (1, False), (-9, False), (137, False)],
)
def test_classes_are_kept_where_java_ended_by_itself(
    monkeypatch: pytest.MonkeyPatch, ends: int, is_kept: bool
) -> None:
    spark = started(monkeypatch, Spark(ends), "local[1]")
    done = ["stopped", "shut down", "input closed", "waited 20 s"]
    assert spark.calls == [*done, *["kept"] * is_kept]


@pytest.mark.parametrize(("writes", "waited"), [(False, "waited 20 s"), (True, "waited 120 s")])
def test_java_that_does_not_end_is_killed_later_where_it_writes_its_classes(
    monkeypatch: pytest.MonkeyPatch, writes: bool, waited: str
) -> None:
    spark = started(monkeypatch, Spark(None, writes), "local[1]")
    assert spark.calls[3:] == [waited, "killed", "waited"]
