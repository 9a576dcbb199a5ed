"""The same command elsewhere: a cluster whose worker dies, an object store, a disk that fills."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars
import psutil
import pyarrow.compute as pc
import pyspark
import pytest
from disks import Tmpfs, unmounted_at_the_end
from ingest_bed import DEADLINE_S, Collected, Job, check, kill, until, workers
from ports import free_port

from cloud_ingest.ingest.forgetting import GatewayErasure
from cloud_ingest.ingest.quarantine_reread import QuarantineReread, RereadCounts
from cloud_ingest.job import java
from cloud_ingest.ledger.number_ledger import LedgerChange
from cloud_ingest.mapping import rules as mapping_rules
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.delta import IngestTable, OtherWriterError
from cloud_ingest.tables.rows import messages
from cloud_ingest.tables.schemas import PARTITIONS, TELEMETRY
from cloud_ingest.tables.store import TableStore
from cloud_ingest.tables.upkeep import UpkeepSettings

pytestmark = [pytest.mark.timeout(0), pytest.mark.slow]

LOOPBACK = "127.0.0.1"
IN_STEPS = Path(__file__).parents[1] / "unit/cloud_ingest/ingest_in_steps.py"
"""The micro-batches without Spark, which takes most of the time."""


@pytest.fixture
def collected(tmp_path: Path, request: pytest.FixtureRequest) -> Collected:
    return Collected(tmp_path, random.Random(request.config.getoption("--seed")))


@pytest.fixture
def filled(tmp_path: Path) -> Collected:
    """One spool that has grown."""
    made = Collected(tmp_path, random.Random(1), ["spool"])
    with made.growing():
        wait(lambda: made.batches["gw-0"] > 20, "no batches")
    return made


def in_steps(job: Job, state: Path, *killed: str) -> subprocess.CompletedProcess[str]:
    spool = job.collected.spools[0]
    command = (sys.executable, IN_STEPS, spool, str(job.tables), state, *killed)
    environment = os.environ | dict(job.storage)
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


@pytest.fixture
def is_soak(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--soak"))


def wait(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    process.kill()
    process.wait()


def finish(job: Job) -> None:
    """Read what is left."""
    process = job.start()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors.decode()


class Cluster:
    """Spark's standalone cluster of two small workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.master = f"spark://{LOOPBACK}:{free_port()}"
        self.workers: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            port = self.master.rpartition(":")[2]
            master = self._start("master.Master", "--port", port)
            stack.callback(end, master)
            self._wait("master", "I have been elected leader")
            for name in ("one", "two"):
                memory = ("--cores", "1", "--memory", "512m")
                place = ("--work-dir", str(self._folder / name))
                worker = self._start("worker.Worker", *memory, *place, self.master, log=name)
                stack.callback(end, worker)
                self.workers.append(worker)
                self._wait(name, "Successfully registered with master")
            yield

    def _start(self, of: str, *more: str, log: str = "master") -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "JAVA_HOME": str(java.provide(os.environ).home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        own = ("--host", LOOPBACK, "--webui-port", str(free_port()))
        command = (str(home / "bin/spark-class"), f"org.apache.spark.deploy.{of}", *own, *more)
        with self._log(log).open("wb") as file:
            return subprocess.Popen(command, env=environment, stdout=file, stderr=file)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _wait(self, name: str, line: str) -> None:
        wait(lambda: line in self._log(name).read_text(), f"{name}: {line}")


def test_a_worker_of_a_cluster_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, collected: Collected, is_soak: bool
) -> None:
    if not is_soak:
        pytest.skip("takes a minute: --soak")
    cluster = Cluster(tmp_path)
    confs = ("driver.host=" + LOOPBACK, "driver.bindAddress=" + LOOPBACK, "executor.memory=512m")
    options = ["--master", cluster.master, *(f"--conf=spark.{conf}" for conf in confs)]
    job = Job(collected, tmp_path / "tables", tmp_path / "checkpoint", options)
    with cluster.running():
        with collected.growing():
            process = job.start("--follow", "--trigger-s", "0.2")
            try:
                until(lambda: job.commits() > 2, process)
                until(lambda: any(map(workers, cluster.workers)), process)
                end(next(worker for worker in cluster.workers if workers(worker)))
                before = job.commits()
                until(lambda: job.commits() > before + 2, process)
            finally:
                kill(process)
        finish(job)
        check(job)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableStore]:
    """A bucket of an S3 that lives as long as the test."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    url = f"http://{LOOPBACK}:{free_port()}"
    command = (sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", url.rpartition(":")[2])
    with (tmp_path / "s3.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)

    def has_bucket() -> bool:
        assert server.poll() is None, (tmp_path / "s3.log").read_text()
        try:
            made = urllib.request.Request(f"{url}/fleet", method="PUT")
            urllib.request.urlopen(made, timeout=DEADLINE_S).close()
        except OSError:
            return False
        return True

    try:
        wait(has_bucket, "no bucket")
        options = {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        yield TableStore("s3://fleet/tables", options)
    finally:
        end(server)


def test_tables_in_an_object_store_have_each_record_once_after_the_job_was_killed(
    tmp_path: Path, store: TableStore, collected: Collected, is_soak: bool
) -> None:
    if not is_soak:
        pytest.skip("takes minutes: --soak")
    job = Job(collected, store.uri, tmp_path / "checkpoint", storage=store.options)
    with collected.growing():
        for _ in range(3):
            process = job.start("--follow", "--trigger-s", "0.2")
            try:
                before = job.commits()
                until(lambda: job.commits() > before + 1, process)  # noqa: B023  # at once
                time.sleep(collected.chance.uniform(0, 1))  # somewhere in a trigger
            finally:
                kill(process)
    finish(job)
    check(job)


def test_a_step_that_is_killed_over_an_object_store_loses_and_doubles_nothing(
    tmp_path: Path, store: TableStore, filled: Collected
) -> None:
    job = Job(filled, store.uri, tmp_path / "none", storage=store.options)
    for moment in ("quarantined", "committed"):
        killed = in_steps(job, tmp_path / "state", moment, "0")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = in_steps(job, tmp_path / "state")
    assert done.returncode == 0, done.stderr
    check(job)


def test_the_quarantine_is_read_again_and_filters_find_rows_in_an_object_store(
    tmp_path: Path, store: TableStore, filled: Collected
) -> None:
    job = Job(filled, store.uri, tmp_path / "none", storage=store.options)
    done = in_steps(job, tmp_path / "state")
    assert done.returncode == 0, done.stderr
    rules = mapping_rules.read('[[mapping]]\ntopic = "#"\nformat = "raw"\nsensor = "again"\n')
    before = len(list(messages(store, ["origin"])))
    moved = QuarantineReread(store, rules).run()
    assert (moved.moved > 0, moved.left, moved.unsure) == (True, 0, 0)
    assert QuarantineReread(store, rules).run() == RereadCounts(0, 0, 0)
    assert len(list(messages(store, ["origin"]))) == before
    table = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
    found = table.dataset().to_table(filter=pc.field("sensor") == "again")
    assert found.num_rows == moved.moved
    upkeep.compact(store)
    upkeep.clean(store, UpkeepSettings(vacuum_hours=0))
    lazy = polars.scan_delta(table.store.uri, storage_options=dict(store.options))
    assert lazy.filter(polars.col("sensor") == "again").collect().height == moved.moved
    assert GatewayErasure(store).forget("gw-0").rows
    assert not any(row["origin"] == "gw-0" for row in messages(store, ["origin"]))


def test_of_two_jobs_over_one_object_store_the_slower_one_is_refused(store: TableStore) -> None:
    table = store.at("telemetry")
    one, other = (IngestTable(table, TELEMETRY, PARTITIONS) for _ in range(2))
    one.commit([], LedgerChange(), "one", 0)
    with pytest.raises(OtherWriterError, match="another job"):
        other.commit([], LedgerChange(), "other", 0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Tmpfs]:
    made = Tmpfs(tmp_path / "disk", 32 << 10)
    with unmounted_at_the_end(made):
        yield made


def copied(job: Job, folder: Path) -> Job:
    """With its tables where threads of before the mount, such as a reader's own, see them too."""
    return replace(job, tables=shutil.copytree(job.tables, folder / "copy"))


def test_steps_over_a_full_disk_name_it_and_go_on_once_there_is_room(
    tmp_path: Path, disk: Tmpfs, filled: Collected
) -> None:
    job = Job(filled, disk.folder / "tables", tmp_path / "none")
    killed = in_steps(job, tmp_path / "state", "planned", "0")  # the tables are made
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    disk.fill()
    refused = in_steps(job, tmp_path / "state")
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert "TableError" in last
    assert "No space left on device" in last
    disk.free()
    done = in_steps(job, tmp_path / "state")
    assert done.returncode == 0, done.stderr
    check(copied(job, tmp_path))


@pytest.mark.parametrize("checkpoint", ["disk/checkpoint", "checkpoint"])
def test_a_job_that_follows_waits_for_room_on_a_full_disk_says_so_and_loses_nothing(
    tmp_path: Path, disk: Tmpfs, collected: Collected, is_soak: bool, checkpoint: str
) -> None:
    if not is_soak:
        pytest.skip("takes a minute: --soak")
    job = Job(collected, disk.folder / "tables", tmp_path / checkpoint)
    log = disk.folder / "tables/telemetry/_delta_log"
    with collected.growing():
        process = job.start("--follow", "--trigger-s", "0.2")
        try:
            until(lambda: len(list(log.glob("*.json"))) > 3, process)
            disk.fill()
            assert process.stderr is not None
            said = next(line for line in process.stderr if b"No space left" in line)
            assert b"begun again" in said
            disk.free()
            before = len(list(log.glob("*.json")))
            until(lambda: len(list(log.glob("*.json"))) > before + 2, process)
            process.terminate()
            _, errors = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, errors.decode()
            assert "Traceback" not in errors.decode()
        finally:
            end(process)
    finish(job)
    check(copied(job, tmp_path))
