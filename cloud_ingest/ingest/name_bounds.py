"""Bounds on the sensors and topics of one gateway: what is beyond has no place in tables.

Who may publish can make up a name for each message, and whatever is kept by name (alerts, charts,
the facts that the driver gets) would grow with them.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

MAX_NAMES: Final = 20_000
"""Sensors of one gateway, and topics, that a task takes: each of the two."""
COLUMNS: Final = ("sensor", "topic")


class NameBounds:
    """The names that a task has met.

    Args:
        most: of one gateway, in each of `COLUMNS`.

    """

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._met = dict.fromkeys(COLUMNS, 0)
        """At most so many, of all gateways; they are looked at only where that is too much."""
        self._tables: dict[str, list[pa.Table]] = {name: [] for name in COLUMNS}
        self._known: dict[str, dict[str, set[str]]] = {name: {} for name in COLUMNS}

    def refused(self, table: pa.Table) -> dict[int, str]:
        """Return the rows of telemetry that are refused, by their number in the table, and why."""
        found: dict[int, str] = {}
        for column in COLUMNS:
            pairs = table.select(["origin", column])
            distinct = pairs.group_by(["origin", column], use_threads=False).aggregate([])
            self._met[column] += distinct.num_rows
            self._tables[column].append(distinct)
            if self._met[column] > self._most:
                for at in self._beyond(column, pairs):
                    found[at] = f"{column}: beyond {self._most} of its gateway at once"
        return found

    def _beyond(self, column: str, pairs: pa.Table) -> list[int]:
        known = self._known[column]
        for distinct in self._tables[column][:-1]:
            for row in distinct.to_pylist():
                known.setdefault(row["origin"], set()).add(row[column])
        last = self._tables[column][-1]
        self._tables[column] = []
        refused: set[tuple[str, str]] = set()
        for row in last.to_pylist():
            names = known.setdefault(row["origin"], set())
            if row[column] in names or row[column] is None:
                continue
            if len(names) < self._most:
                names.add(row[column])
            else:
                refused.add((row["origin"], row[column]))
        if not refused:
            return []
        gone = pa.Table.from_pylist(
            [{"origin": origin, column: name} for origin, name in refused], pairs.schema
        )
        numbered = pairs.append_column("row", pa.array(range(pairs.num_rows), pa.int64()))
        rows = numbered.join(gone, ["origin", column], join_type="left semi")["row"]
        return sorted(rows.to_pylist())
