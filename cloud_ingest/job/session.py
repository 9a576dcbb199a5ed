"""The one place where a Spark session is made: quiet, in UTC, local ones closed to the network."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from cloud_ingest.arguments import MASTER
from cloud_ingest.job.class_archive import ClassArchive, class_archive
from cloud_ingest.job.java import Java
from cloud_ingest.job.scratch import scratch

LOOPBACK = "127.0.0.1"
JAVA_ENDS_WITHIN_S = 20.0
JAVA_WRITES_WITHIN_S = 120.0
"""With the archive of its classes, once."""
_ENDED = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)
"""The exit codes of Java once it has done all that it does at its end."""

# What a task or a query raises reaches Python: its log would only say it again, at length.
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
logger.task.name = org.apache.spark.executor.Executor
logger.task.level = off
logger.stage.name = org.apache.spark.scheduler.TaskSetManager
logger.stage.level = off
logger.query.name = org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
logger.query.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


_LOCAL = re.compile(r"local\[(\*|[1-9]\d{0,3})\]")
_LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java only hands out tasks: what a slower and smaller one costs is less than compiling it well."""
_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Writes beside and renames, as Spark's default does on a file system that is not Hadoop's."""
TRIES = 4
"""Of a task, as a cluster has them: a worker of Python that dies does not end the job."""


@contextmanager
def session(
    java: Java, master: str = MASTER, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start Spark in this process, and stop it at the end.

    A process can have one session at a time. One that runs in this process alone is closed to the
    network; what a cluster's workers must reach is for ``conf`` to say.

    Args:
        java: from `cloud_ingest.job.java.provide`.
        master: Spark's name of where to run, such as ``local[2]`` or ``spark://host:7077``.
        conf: settings of Spark that go before ours.

    """
    is_local = master.startswith("local")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch("spark"))
        archive = None
        if is_local and "SPARK_HOME" not in os.environ:
            archive = stack.enter_context(class_archive(java, conf or {}, folder, os.environ))
        settings = _settings(folder, archive.options if archive else "")
        # Spark takes these from the environment alone; its processes have them from their start.
        environment = {
            "JAVA_HOME": str(java.home),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": sys.executable,
        }
        if is_local:
            settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
            environment["SPARK_LOCAL_IP"] = LOOPBACK
            if archive is not None:
                environment["SPARK_HOME"] = str(archive.home)
            master = _LOCAL.sub(rf"local[\1,{TRIES}]", master)
        elif python := os.environ.get("PYSPARK_PYTHON"):
            environment["PYSPARK_PYTHON"] = python  # a cluster's stands where the cluster has it
        settings |= conf or {}
        with _environment(environment):
            builder: Any = SparkSession.builder.master(master).appName("hedgerow")
            spark = builder.config(map=settings).getOrCreate()
        _quiet(spark)
        try:
            yield spark
        finally:
            _stop(spark, archive)


def _settings(folder: Path, options: str) -> dict[str, bool | float | int | str | None]:
    """Ours.

    Args:
        folder: of this session alone.
        options: of Java, beside those that it always has.

    """
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    return {
        "spark.driver.extraJavaOptions": (
            f'{_LEAN} -Duser.timezone=UTC "-Dlog4j2.configurationFile={logging}" {options}'
        ),
        # Orders of tasks and what they tell are small; rows never come to the driver.
        "spark.driver.memory": "512m",
        # Hadoop's other ways to write a file of a checkpoint start some ten processes for each
        # (chmod, readlink), and leave a file of checksums beside it.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.local.dir": str(folder),
        "spark.sql.catalogImplementation": "in-memory",
        # The rows of a spool have old and odd dates where a device's clock was never set.
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _quiet(spark: SparkSession) -> None:
    """Show no stack trace when Java ends before who reads from it here; the job says what ended."""
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _stop(spark: SparkSession, archive: ClassArchive | None) -> None:
    """Stop Spark and wait for its Java process, which PySpark leaves to end in its own time."""
    gateway: Any = spark.sparkContext._gateway
    with contextlib.suppress(Exception):  # its process may be gone
        spark.stop()
    SparkContext._gateway = SparkContext._jvm = None
    with contextlib.suppress(Exception):
        gateway.shutdown()
    gateway.proc.stdin.close()  # the process ends when its input does
    is_writing = archive is not None and archive.is_written
    try:
        gateway.proc.wait(JAVA_WRITES_WITHIN_S if is_writing else JAVA_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    if archive is not None and gateway.proc.returncode in _ENDED:
        archive.keep()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
