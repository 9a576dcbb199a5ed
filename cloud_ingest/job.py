"""The Spark job: the collector's spool -> the tables `telemetry` and `fleet`.

    hedgerow ingest --spool DIR --tables DIR [--json FILE]

Each run reads the whole spool and writes a new version of both tables
(`cloud_ingest.versions`). Exit codes: 0 done, 1 damaged spool or tables that can't be written,
2 a bad argument, 3 no Java; each with one line on standard error. What else Spark may raise (a
full disk) is shown as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import NoReturn

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cloud_ingest import fleet, java, report, source, tables
from cloud_ingest.arguments import add_ingest
from cloud_ingest.fleet import FleetRow
from cloud_ingest.proof import CertificatesError, HandedCertificates
from cloud_ingest.session import session
from cloud_ingest.spool import SpoolError, SpoolMark, SpoolSegment, read_mark, segments
from cloud_ingest.versions import LINK_NAME, VersionError, next_version

EXIT_FAILED = 1
EXIT_BAD_ARGUMENT = 2
EXIT_NO_JAVA = 3

_MASTER = re.compile(r"local\[(\*|[1-9]\d{0,3})\]")


def run(
    spark: SparkSession,
    spool: Path,
    mark: SpoolMark | None,
    target: Path,
    certificates: Path | None = None,
    tree: str = "",
) -> list[FleetRow]:
    """Read the spool up to ``mark``, write both tables, and return the fleet.

    Args:
        spark: from `cloud_ingest.session.session`.
        spool: the spool's folder.
        mark: from `cloud_ingest.spool.read_mark`.
        target: the folder of the tables.
        certificates: of gateways; see `source.messages`.
        tree: the tree's name.

    Raises:
        SpoolError: damaged data, with segment and position.
        VersionError: the tables can't be written.

    """
    try:
        read = source.messages(spark, spool, mark, certificates, tree)
        unique = tables.without_duplicates(read).persist()
        try:
            gateways = fleet.fold(
                fleet.sequences(unique).collect(), fleet.member_payloads(unique).collect()
            )
            rows = spark.createDataFrame(
                [astuple(gateway) for gateway in gateways], tables.FLEET
            ).coalesce(1)
            with next_version(target) as folder:
                _write(tables.telemetry(unique), folder / "telemetry")
                _write(rows, folder / "fleet")
        finally:
            unique.unpersist()
    except PySparkException as error:
        damage = SpoolError.quoted_in(str(error))
        if damage is None:
            raise
        raise damage from error
    return gateways


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job from the command line and return its exit code."""
    parser = _Parser(prog="cloud_ingest.job", description="Read a spool into tables.")
    add_ingest(parser)
    options = parser.parse_args(arguments)
    if (wrong := _wrong(options)) is not None:
        parser.error(f"argument {wrong}")
    return run_with(options, "cloud_ingest.job")


def run_with(options: argparse.Namespace, program: str) -> int:
    """Run the job and return its exit code.

    Args:
        options: as `cloud_ingest.arguments.add_ingest` reads them.
        program: what an error about an argument begins with.

    """
    wrong = _wrong(options)
    if wrong is not None:
        return _fail(EXIT_BAD_ARGUMENT, f"{program}: argument {wrong}")
    try:
        runtime = java.provide(os.environ)
    except java.JavaChoiceError as error:
        return _fail(EXIT_BAD_ARGUMENT, str(error))
    except java.JavaError as error:
        return _fail(EXIT_NO_JAVA, str(error))
    try:
        mark = read_mark(options.spool)
        readable = segments(options.spool, mark)
        _say(f"spool {options.spool}: {_size(readable)}")
        _say(f"Spark {pyspark.__version__} on {options.master}, {runtime}")
        with session(runtime, options.master) as spark:
            proof = options.certificates, options.tree
            gateways = run(spark, options.spool, mark, options.tables, *proof)
    except (SpoolError, VersionError) as error:
        return _fail(EXIT_FAILED, str(error))
    _say(f"tables {options.tables / LINK_NAME}: telemetry, fleet")
    _say(report.as_text(gateways))
    if options.json:
        try:
            options.json.write_text(json.dumps(report.as_json(gateways), indent=1) + "\n")
        except OSError as error:
            return _fail(EXIT_FAILED, f"{options.json}: {error.strerror}")
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, where argparse would print its usage as well."""
        self.exit(EXIT_BAD_ARGUMENT, f"{self.prog}: {message}\n")


def _wrong(options: argparse.Namespace) -> str | None:
    """The first argument that can't be used, and why."""
    if not options.spool.is_dir():
        return f"--spool: no such folder: {options.spool}"
    if options.tables.exists() and not options.tables.is_dir():
        return f"--tables: not a folder: {options.tables}"
    if options.json and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
        return f"--json: not a file in an existing folder: {options.json}"
    if options.certificates is not None:
        try:
            HandedCertificates(options.certificates)
        except CertificatesError as error:
            return f"--certificates: {error}"
    if not _MASTER.fullmatch(options.master):
        return f"--master: not local[N] or local[*]: {options.master}"
    return None


def _size(readable: Sequence[SpoolSegment]) -> str:
    """How much there is to read; and what was trimmed, since its numbers will look like gaps."""
    if not readable:
        return "nothing to read yet"
    total = sum(segment.length for segment in readable)
    trimmed = readable[0].start
    return f"{total} bytes in {len(readable)} segment(s)" + (
        f"; {trimmed} bytes before them were trimmed: what they held counts as gaps"
        if trimmed
        else ""
    )


def _write(frame: DataFrame, folder: Path) -> None:
    frame.write.parquet(f"file://{folder.resolve()}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(code: int, line: str) -> int:
    sys.stderr.write(f"{line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
