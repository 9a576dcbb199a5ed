"""SQL over the tables, by DuckDB, which may read them and nothing else of this machine."""

from __future__ import annotations

import duckdb

from cloud_ingest.query.lake import TABLES, Lake


class QueryError(Exception):
    """A statement that did not work out; the message is DuckDB's."""


def connect(lake: Lake) -> duckdb.DuckDBPyConnection:
    """A connection with a view of each table, by its name.

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
    """What a query gives.

    Args:
        connection: of `connect`.
        statement: one SELECT (or ``DESCRIBE``, ``SHOW TABLES``, ``SUMMARIZE``).

    Raises:
        QueryError: it is wrong, or something else than a query.

    """
    try:
        found = connection.sql(statement)
    except duckdb.Error as error:
        raise QueryError(str(error).strip()) from error
    if found is None:
        raise QueryError("the statement gives no rows: it is no query")
    return found
