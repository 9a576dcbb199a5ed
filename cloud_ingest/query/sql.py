"""SQL over the tables, by DuckDB, which may read them and nothing else of this machine."""

from __future__ import annotations

from typing import Final

import duckdb

from cloud_ingest.query.lake import TABLES, Lake

_WRITES: Final = "a query may read the tables, and no other file, and writes nothing"


class QueryError(Exception):
    """A statement that did not work out; the message is one line, DuckDB's and what to do."""


def connect(lake: Lake) -> duckdb.DuckDBPyConnection:
    """Return a connection with a view of each table, by its name.

    Statements can't write to the tables, nor reach files, networks and extensions. All views are
    of the versions that stand now.

    Args:
        lake: the tables; one that nothing was written to yet has no view.

    Raises:
        LakeError: one can't be read.

    """
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")
    for name in TABLES:
        dataset = lake.dataset(name)
        if dataset is not None:
            connection.register(name, dataset)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def ask(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.DuckDBPyRelation:
    """Return what a query gives.

    Args:
        connection: of `connect`.
        statement: one SELECT (or ``DESCRIBE``, ``SHOW TABLES``, ``SUMMARIZE``).

    Raises:
        QueryError: it is wrong, or something else than a query.

    """
    try:
        found = connection.sql(statement)
    except duckdb.Error as error:
        raise QueryError(told(connection, error)) from error
    if found is None:
        raise QueryError("the statement gives no rows: it is no query; begin with SELECT")
    return found


def told(connection: duckdb.DuckDBPyConnection, error: duckdb.Error) -> str:
    """Return one line: what is wrong, near what, and what would be right.

    Args:
        connection: of `connect`.
        error: DuckDB's, which has several lines and names tables that nobody knows.

    """
    why, *more = str(error).strip().splitlines() or [type(error).__name__]
    why = why.rstrip(" !")
    if isinstance(error, duckdb.PermissionException):
        return f"{why}: {_WRITES}"
    if isinstance(error, duckdb.CatalogException) and why.startswith("Catalog Error: Table"):
        return f"{why}: {_tables(connection)}"
    near = next((line for line in more if line.startswith("LINE ")), "")
    candidates = next((line for line in more if line.startswith("Candidate")), "")
    return "; ".join(filter(None, (why, near, candidates)))


def _tables(connection: duckdb.DuckDBPyConnection) -> str:
    there = [str(name) for (name,) in connection.execute("SHOW TABLES").fetchall()]
    if not there:
        return "there are no tables yet: `hedgerow ingest` writes them"
    return f"there are {', '.join(sorted(there))}"
