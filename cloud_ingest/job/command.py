"""The job: collectors' spools -> the tables ``telemetry`` and ``quarantine``, each message once.

    hedgerow ingest --spool DIR --tables DIR [--follow] [--json FILE]

It reads what is there and ends, or with ``--follow`` goes on until SIGTERM or SIGINT, which end
it at any moment, also while Spark starts. Exit codes: 0 done, 1 a spool or tables that can't be
read or written, a spool that is empty where it was not, or Java's process killed, 2 a bad argument,
6 no Java; each with one line on standard error. What else Spark may raise is shown as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyspark
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from alerts.record import WayOut
from alerts.state import WayFigures
from cloud_ingest.arguments import add_ingest
from cloud_ingest.fleet import rules as fleet_rules
from cloud_ingest.fleet.way_out_thread import WayOutThread
from cloud_ingest.ingest.forgetting import GatewayErasure
from cloud_ingest.ingest.quarantine_reread import QuarantineReread
from cloud_ingest.job import checkpoint, java, proven_again, report, shipped, source
from cloud_ingest.job.argument_faults import LIMITS, argument_faults
from cloud_ingest.job.beginnings import DISK_FULL, Beginnings, SparkGoneError, asked_to_end
from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.job.scratch import scratch
from cloud_ingest.job.session import session
from cloud_ingest.job.task_runners import SparkTasks
from cloud_ingest.ledger_limits import LedgerLimits
from cloud_ingest.mapping import rules as mapping_rules
from cloud_ingest.metrics_listener import parse_address, serving
from cloud_ingest.spool.proof import HandedCertificates, read_certificates
from cloud_ingest.spool.segments import SpoolError, read_mark, segments
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.delta import IngestTable, TableError
from cloud_ingest.tables.store import TableStore
from cloud_ingest.tables.upkeep import UpkeepSettings
from gateway.base import exit_codes
from tree_handler.seal import Seals

ENDED_LOOK_S = 1
_NO_JAVA_ANY_MORE = "JAVA_GATEWAY_EXITED"


def start(
    spark: SparkSession,
    ingest: Ingest,
    spools: Sequence[Path],
    checkpoint: str,
    *,
    trigger_s: float | None = None,
    max_bytes: int = 256 << 20,
) -> Any:
    """Start the query; return it.

    Args:
        spark: from `cloud_ingest.job.session.session`.
        ingest: what takes the micro-batches.
        spools: folders that collectors fill.
        checkpoint: the folder of what Spark remembers.
        trigger_s: look for data so often; None: read what is there and end.
        max_bytes: of the spools, read at once.

    """
    spark.dataSource.register(source.SpoolSource)
    folders = [str(spool.resolve()) for spool in spools]
    stream = (
        spark.readStream.format(source.FORMAT)
        .option("spools", json.dumps(folders))
        .option("max_bytes", max_bytes)
        .load()
        .writeStream.foreachBatch(ingest.take)
        .option("checkpointLocation", checkpoint)
    )
    if trigger_s is None:
        return stream.trigger(availableNow=True).start()
    return stream.trigger(processingTime=f"{trigger_s} seconds").start()


def ended(
    begin: Callable[[], Any],
    wait: Callable[[Any], object] | None = None,
    again: Beginnings | None = None,
) -> None:
    """Start a query and wait for its end; begin again where that helps.

    Args:
        begin: calls `start`.
        wait: waits for the query's end.
        again: when it is begun again.

    Raises:
        SpoolError: a spool is damaged beyond single batches.
        TableError: a table can't be written.
        SparkGoneError: Java's process was killed.

    """
    again = again or Beginnings()
    while True:
        try:
            (wait or _wait)(begin())
            return
        except Exception as error:
            if again.asked.is_set():  # a stop of all its processes ends it so
                return
            if isinstance(error, Py4JNetworkError | ConnectionError):
                raise SparkGoneError("Spark's Java process is gone") from error
            # What Spark's Java raises has no name of PySpark's where a Python of it has just died.
            if not isinstance(error, PySparkException | Py4JJavaError):
                raise
            text = str(error)
            if again.is_again(text):
                continue
            if again.asked.is_set():
                return
            raise _ours(text) from error


def _wait(query: Any) -> None:
    query.awaitTermination()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job from the command line and return its exit code."""
    parser = _Parser(prog="cloud_ingest.job.command", description="Read spools into tables.")
    add_ingest(parser)
    options = parser.parse_args(arguments)
    if (wrong := _wrong(options)) is not None:
        parser.error(f"argument {wrong}")
    return run_with(options, "cloud_ingest.job.command")


def run_with(options: argparse.Namespace, program: str) -> int:
    """Run the job and return its exit code.

    Args:
        options: as `cloud_ingest.arguments.add_ingest` reads them.
        program: what an error about an argument begins with.

    """
    wrong = _wrong(options)
    if wrong is not None:
        return _fail(exit_codes.WRONG_USE, f"{program}: argument {wrong}")
    tables = TableStore(options.tables, _pairs(options.storage))
    try:
        for gateway in options.forget_gateway:
            _forget(options, tables, gateway)
        if options.again:
            _read_again(options, tables)
        if options.spool and not options.forget_gateway:
            return _run(options, tables, program)
        _look_after(options, tables)
    except (SpoolError, TableError, SparkGoneError) as error:
        return _fail(exit_codes.FAILED, str(error))
    return 0


def _forget(options: argparse.Namespace, tables: TableStore, gateway: str) -> None:
    is_alone = options.vacuum_hours == 0
    limits = LedgerLimits(*(getattr(options, name) for name in LIMITS))
    done = GatewayErasure(tables, limits).forget(gateway, is_alone=is_alone)
    _say(f"{gateway}: {done.rows} rows deleted")
    if done.unsure_files:
        _say(
            f"{gateway}: {done.unsure_files} files of tasks that were killed, or are at work, may "
            "have rows of it: do this again tomorrow, or, when no job runs, with --vacuum-hours 0"
        )


def _run(options: argparse.Namespace, tables: TableStore, program: str) -> int:
    try:
        runtime = java.provide(os.environ)
    except java.JavaChoiceError as error:
        return _fail(exit_codes.WRONG_USE, f"{program}: {error}")
    except java.JavaError as error:
        return _fail(exit_codes.NO_JAVA, str(error))
    for spool in options.spool:
        _say(f"spool {spool}: {report.spool_text(segments(spool, read_mark(spool)))}")
    _say(f"Spark {pyspark.__version__} on {options.master}, {runtime}")
    ingest = Ingest(_settings(options, tables))
    place = _checkpoint(options, tables)
    if ingest.is_restored or not checkpoint.fits(place, ingest.telemetry.last_batch):
        try:
            aside = checkpoint.set_aside(place, options.spool, options.name)
        except OSError as error:
            return _fail(exit_codes.FAILED, f"{place}: not of these tables; delete it: {error}")
        ingest.reads_spools_again()
        _say(
            f"{options.tables}: these tables are new, or were restored, or the checkpoint was; the "
            f"spools are read again, and the checkpoint is set aside: {aside}"
        )
    emptied = list(checkpoint.emptied(place, options.spool))
    for line in emptied:
        _warn(line)
    if options.compact and options.follow:
        ingest.after = upkeep.every(options.compact_every, lambda: _look_after(options, tables))
    with asked_to_end() as asked, contextlib.ExitStack() as stack:
        try:
            _serve_metrics(options, ingest, stack)
        except OSError as error:  # what only tells of the work keeps nobody from it
            _warn(f"--metrics {options.metrics}: {error.strerror}; the job goes on without")
        _take_all(options, f"file://{place}", ingest, runtime, asked)
    ingest.close()
    if not options.follow and not asked.is_set():
        _look_after(options, tables)
    _say(f"tables {options.tables}: telemetry, quarantine")
    gateways = report.fleet_of(ingest.ledger)
    counts = ingest.set_aside.counts
    _say(report.as_text(gateways, counts))
    if options.json:
        try:
            told = report.as_json(gateways, counts)
            options.json.write_text(json.dumps(told, indent=1) + "\n")
        except OSError as error:
            return _fail(exit_codes.FAILED, f"{options.json}: {error.strerror}")
    return exit_codes.FAILED if emptied and not options.follow else 0


def _serve_metrics(
    options: argparse.Namespace, ingest: Ingest, stack: contextlib.ExitStack
) -> None:
    if options.metrics is None:
        return
    from cloud_ingest.job.job_metrics import JobMetrics  # noqa: PLC0415  # only where it is used

    aside = ingest.set_aside.counts
    # Of whoever has opened the ways out: the job itself knows none.
    ways: Callable[[], Mapping[str, WayFigures]] = getattr(options, "way_figures", dict)
    told = JobMetrics(lambda: ingest.taken, lambda: dict(aside), options.spool, options.name, ways)
    port = stack.enter_context(serving(*parse_address(options.metrics), told.collect))
    _say(f"metrics at port {port}")


def _take_all(
    options: argparse.Namespace,
    checkpoint_uri: str,
    ingest: Ingest,
    runtime: java.Java,
    asked: threading.Event,
) -> None:
    """Take what there is, or until the job is asked to end, also while Spark is starting."""

    def say(line: str) -> None:
        _warn(line)
        ingest.beginnings.begun_again(line)

    again = Beginnings(options.follow, lambda: ingest.taken, asked, say)
    with contextlib.ExitStack() as stack:
        try:
            conf = _pairs(options.conf)
            spark = stack.enter_context(session(runtime, options.master, conf))
            stack.enter_context(_shipped(spark, options.master))
        except Exception as error:
            if asked.is_set():  # whoever stops all processes at once stops Java, too
                return
            if _NO_JAVA_ANY_MORE in str(error):
                raise SparkGoneError("Java ended while Spark was starting") from error
            raise
        if not asked.is_set():
            prepare = SparkTasks(spark.sparkContext).prepare
            threading.Thread(target=prepare, name="prepare", daemon=True).start()
        begin = functools.partial(
            start,
            spark,
            ingest,
            options.spool,
            checkpoint_uri,
            trigger_s=options.trigger_s if options.follow else None,
            max_bytes=options.max_bytes,
        )
        if not asked.is_set():
            ended(begin, lambda query: _until_ended(query, ingest, options.spool, asked), again)


def _settings(options: argparse.Namespace, tables: TableStore) -> IngestSettings:
    certificates = options.certificates and read_certificates(options.certificates)
    rules = options.alerts and fleet_rules.read(options.alerts.read_text())
    return IngestSettings(
        tables,
        options.name,
        certificates,
        options.tree,
        rules,
        mappings=mapping_rules.read(options.mappings.read_text()) if options.mappings else (),
        limits=LedgerLimits(*(getattr(options, name) for name in LIMITS)),
        way_out=_way_out(options),
    )


def _way_out(options: argparse.Namespace) -> WayOutThread | None:
    """Return what whoever calls this has opened; the job itself knows no way out."""
    found: WayOut | None = getattr(options, "way_out", None)
    return None if found is None else WayOutThread(found)


def _read_again(options: argparse.Namespace, tables: TableStore) -> None:
    if not IngestTable.is_at(tables.at("quarantine")):
        return
    settings = _settings(options, tables)
    if settings.certificates is not None:
        seals = Seals(None, HandedCertificates(settings.certificates), settings.tree)
        ingest = Ingest(settings)
        batches = proven_again.read_again(ingest, seals)
        ingest.close()
        _say(f"quarantine: {batches} batches are proven now, and are read")
    done = QuarantineReread(tables, settings.mappings, settings.limits).run()
    unsure = f", {done.unsure} are left that telemetry may have already" if done.unsure else ""
    _say(
        f"quarantine: {done.moved} messages are in telemetry now, {done.left} can't be read{unsure}"
    )


def _until_ended(
    query: Any, ingest: Ingest, spools: Sequence[Path], asked: threading.Event
) -> None:
    """Until all is read, or the job is asked to end: then the micro-batch at work is finished."""
    while not query.awaitTermination(ENDED_LOOK_S):
        if asked.is_set():
            with ingest.busy:
                query.stop()
            return
        ingest.nothing_came(spools)


def _ours(text: str) -> Exception:
    """Return what a message of Spark's quotes of ours.

    Or else it, readable when Spark has stopped.
    """
    damage = SpoolError.quoted_in(text)
    if damage is not None:
        return damage
    refused = TableError.quoted_in(text)
    if refused is None and DISK_FULL in text:  # as Java says it of the checkpoint
        refused = TableError(f"a disk is full: {DISK_FULL} (the checkpoint's, or Spark's own)")
    return PySparkException(text) if refused is None else refused


def _look_after(options: argparse.Namespace, tables: TableStore) -> None:
    if options.compact:
        upkeep.compact(tables, looks_inside=not options.follow)
    if options.compact or options.keep_days is not None:
        upkeep.clean(tables, UpkeepSettings(options.keep_days, options.vacuum_hours))


@contextlib.contextmanager
def _shipped(spark: SparkSession, master: str) -> Iterator[None]:
    """Our packages at hand for as long as executors start: each fetches them from the file."""
    if master.startswith("local"):
        yield
        return
    with scratch("ship") as folder:
        spark.sparkContext.addPyFile(str(shipped.write_zip(folder / "hedgerow.zip")))
        yield


def _checkpoint(options: argparse.Namespace, tables: TableStore) -> Path:
    """Return the folder of what Spark remembers: by default each address of tables has one of its
    own."""
    if options.checkpoint is not None:
        return Path(options.checkpoint.resolve())
    name = f"_checkpoint-{options.name}"
    if (folder := tables.folder) is not None:
        return (folder / name).resolve()
    address = hashlib.blake2b(tables.uri.rstrip("/").encode(), digest_size=8).hexdigest()
    return Path((options.spool[0] / f"{name}-{address}").resolve())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line, where argparse would print its usage as well."""
        self.exit(exit_codes.WRONG_USE, f"{self.prog}: {message}\n")


def _wrong(options: argparse.Namespace) -> str | None:
    """Return the first argument that can't be used, and why."""
    return next(argument_faults(options), None)


def _pairs(given: Sequence[str]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in given)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _warn(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _fail(code: int, line: str) -> int:
    sys.stderr.write(f"{line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
