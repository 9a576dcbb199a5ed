"""`hedgerow query`: one statement over the tables, for a terminal, as JSON or as CSV."""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import duckdb

from cloud_ingest.query.lake import Lake, LakeError
from cloud_ingest.query.sql import QueryError, ask, connect, told
from gateway.base import exit_codes
from gateway.base.columns import columns
from gateway.base.printable import printable

ROWS_SHOWN: Final = 200
"""On a terminal; JSON and CSV have them all."""
_AT_ONCE: Final = 10_000


def run_with(options: argparse.Namespace, program: str) -> int:
    """Run the command.

    Args:
        options: of `cloud_ingest.reading_arguments.add_query`.
        program: for messages.

    Returns:
        the exit code: 2 where the statement or the place of the tables is wrong.

    """
    try:
        lake = Lake(options.tables, dict(options.storage))
        lake.check()
        connection = connect(lake)
        try:
            _write(ask(connection, options.statement), options)
        except duckdb.Error as error:  # while it gives rows
            raise QueryError(told(connection, error)) from error
    except (LakeError, QueryError) as error:
        sys.stderr.write(f"{program}: query: {error}\n")
        return exit_codes.WRONG_USE
    return 0


def _write(found: duckdb.DuckDBPyRelation, options: argparse.Namespace) -> None:
    if options.json:
        _write_json(found)
    elif options.csv:
        _write_csv(found)
    else:
        _write_text(found)


def _rows(found: duckdb.DuckDBPyRelation) -> Iterator[dict[str, Any]]:
    for batch in found.to_arrow_reader(_AT_ONCE):
        yield from batch.to_pylist()


def _write_json(found: duckdb.DuckDBPyRelation) -> None:
    between = "["
    for row in _rows(found):
        sys.stdout.write(f"{between}\n {json.dumps(_plain(row), ensure_ascii=False)}")
        between = ","
    sys.stdout.write("[]\n" if between == "[" else "\n]\n")


def _write_csv(found: duckdb.DuckDBPyRelation) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.columns)
    for row in _rows(found):
        writer.writerow("" if value is None else _cell(value) for value in row.values())


def _write_text(found: duckdb.DuckDBPyRelation) -> None:
    shown: list[Sequence[str]] = [found.columns]
    count = 0
    for row in _rows(found):
        if count < ROWS_SHOWN:
            shown.append([printable(_cell(value)) for value in row.values()])
        count += 1
    sys.stdout.write("\n".join(columns(shown)) + "\n")
    if count > ROWS_SHOWN:
        sys.stdout.write(f"... and {count - ROWS_SHOWN} rows more (--json or --csv has them)\n")


def _cell(value: Any) -> str:
    made = _plain(value)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: times in ISO 8601, bytes in hexadecimal."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value if value == value else None  # noqa: PLR0124  # JSON has no NaN
    return str(value)
