"""Rows of the rollups: each day's are merged as files come, and old days become coarse.

A job writes a file each few seconds, and a file has a row for each sensor. Rows of one quarter of
an hour are made one when as many have come as there were: so a day takes at most twice what it
needs, and each row is rewritten a few times only, one day at a time. Where all days together take
more than they may, the oldest one that is fine becomes coarse; what is new is always fine.

All of it happens in the transaction of whoever takes up a file, and is forgotten with it.
"""

from __future__ import annotations

from typing import Final

import duckdb

COARSE: Final = 24
"""Quarters of an hour in a row of a coarse day: six hours."""
FAR: Final = 12
"""Quarters of an hour in a row of ``far``, which says of years what ``readings`` does, in a twelfth
of rows."""
LEAST_ROWS: Final = 1_000
"""Fewer of a day are not worth merging."""

TABLES: Final = """
CREATE TABLE days (day DATE PRIMARY KEY, merged BIGINT, rows BIGINT, is_coarse BOOLEAN);
"""
_LEAST_STEPS: Final = {"readings": 1, "far": FAR}
"""The least quarters of an hour of a row, by table."""
_MERGED: Final = """
CREATE OR REPLACE TEMP TABLE whole AS
SELECT series, bucket // $step * $step AS bucket, min(low) AS low, max(high) AS high,
       sum(total) AS total, CAST(sum(readings) AS INTEGER) AS readings
FROM {table} WHERE day = $day GROUP BY ALL
"""
_SPANNED: Final = """
CREATE OR REPLACE TEMP TABLE spanned AS
SELECT series, arg_max(unit, last_us) AS unit, min(first_us) AS first_us, max(last_us) AS last_us,
       CAST(sum(readings) AS BIGINT) AS readings
FROM spans WHERE day = $day GROUP BY ALL
"""


_ADDED: Final = """
INSERT INTO {table}
SELECT CAST(? AS DATE), id, bucket // ? * ?, min(low), max(high), sum(total), sum(readings)
FROM measured JOIN series USING (gateway, sensor) GROUP BY id, 3 ORDER BY id, 3
"""


class DayRows:
    """Merges rows of days.

    Args:
        rows_max: of all days; then the oldest become coarse.

    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max

    def forget(self, cursor: duckdb.DuckDBPyConnection, day: str, *, is_gone: bool) -> None:
        """Delete a day's rows.

        Args:
            cursor: in a transaction.
            day: as in the tables.
            is_gone: whether it does not come again; else it stays as coarse as it is.

        """
        for table in (*_LEAST_STEPS, "spans"):
            cursor.execute(f"DELETE FROM {table} WHERE day = ?", [day])  # noqa: S608
        if is_gone:
            cursor.execute("DELETE FROM days WHERE day = ?", [day])
        else:
            cursor.execute("UPDATE days SET merged = 0, rows = 0 WHERE day = ?", [day])

    def add(self, cursor: duckdb.DuckDBPyConnection, day: str) -> None:
        """Add what ``measured`` has of a day; merge it, and make old days coarse, where it is due.

        Args:
            cursor: in a transaction, with that table of it.
            day: as in the tables.

        """
        step = self._step(cursor, day)
        rows = 0
        for table, least in _LEAST_STEPS.items():
            wide = max(step, least)
            added = cursor.execute(_ADDED.format(table=table), [day, wide, wide]).fetchone()
            if table == "readings":
                rows = added[0] if added else 0
        cursor.execute(
            "INSERT INTO days VALUES (?, 0, ?, false) "
            "ON CONFLICT (day) DO UPDATE SET rows = rows + excluded.rows",
            [day, rows],
        )
        found = cursor.execute("SELECT merged, rows FROM days WHERE day = ?", [day]).fetchone()
        merged, total = found or (0, 0)
        if total >= LEAST_ROWS and total >= 2 * merged:
            self._merge(cursor, day, step)
        while (oldest := self._too_much(cursor)) is not None:
            cursor.execute("UPDATE days SET is_coarse = true WHERE day = ?", [oldest])
            self._merge(cursor, oldest, COARSE)

    def _too_much(self, cursor: duckdb.DuckDBPyConnection) -> str | None:
        """Return the oldest day that is fine, if all rows are too many."""
        found = cursor.execute(
            "SELECT (SELECT sum(rows) FROM days), "
            "(SELECT CAST(min(day) AS VARCHAR) FROM days WHERE NOT is_coarse)"
        ).fetchone()
        rows, oldest = found or (0, None)
        return oldest if rows > self._rows_max else None

    def _step(self, cursor: duckdb.DuckDBPyConnection, day: str) -> int:
        """Return how many quarters of an hour a row of a day stands for."""
        found = cursor.execute("SELECT is_coarse FROM days WHERE day = ?", [day]).fetchone()
        return COARSE if found and found[0] else 1

    def _merge(self, cursor: duckdb.DuckDBPyConnection, day: str, step: int) -> None:
        cursor.execute(_SPANNED, {"day": day})
        cursor.execute("DELETE FROM spans WHERE day = ?", [day])
        cursor.execute("INSERT INTO spans SELECT CAST(? AS DATE), * FROM spanned", [day])
        rows = {
            table: self._merge_rows(cursor, table, day, max(step, least))
            for table, least in _LEAST_STEPS.items()
        }
        cursor.execute(
            "UPDATE days SET merged = $rows, rows = $rows WHERE day = $day",
            {"rows": rows["readings"], "day": day},
        )

    def _merge_rows(
        self, cursor: duckdb.DuckDBPyConnection, table: str, day: str, step: int
    ) -> int:
        """Merge those of a table; returns how many there are then."""
        cursor.execute(_MERGED.format(table=table), {"day": day, "step": step})
        cursor.execute(f"DELETE FROM {table} WHERE day = ?", [day])  # noqa: S608  # one of two
        added = cursor.execute(
            f"INSERT INTO {table} SELECT CAST(? AS DATE), * FROM whole "  # noqa: S608
            "ORDER BY series, bucket",
            [day],
        ).fetchone()
        return int(added[0]) if added else 0
