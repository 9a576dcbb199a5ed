"""Excerpt of the tables for a page: how many rows each topic has, and some readings.

python -m cloud_ingest.tables.excerpt --tables DIR [--readings TOPIC ...]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cloud_ingest.tables.rows import messages
from cloud_ingest.tables.store import TableStore

COLUMNS = ("origin", "topic", "device_number", "value", "unit", "device_time")


def excerpt(rows: Iterable[Mapping[str, Any]], topics: frozenset[str]) -> dict[str, Any]:
    """Count rows by origin and topic, and pick out the readings of some topics.

    Args:
        rows: clients' messages, with `COLUMNS`.
        topics: whose readings are wanted.

    Returns:
        ``rows``: lists of origin, topic and count, sorted; ``readings``: by topic, lists of
        origin, number, value, unit and device time in seconds since 1970 (None where the row has
        none), in the order of their numbers.

    """
    counts: Counter[tuple[str, str]] = Counter()
    readings: dict[str, list[list[Any]]] = {topic: [] for topic in sorted(topics)}
    for row in rows:
        counts[row["origin"], row["topic"]] += 1
        if row["topic"] in topics:
            time = row["device_time"]
            readings[row["topic"]].append(
                [
                    row["origin"],
                    row["device_number"],
                    row["value"],
                    row["unit"],
                    None if time is None else time.timestamp(),
                ]
            )
    for found in readings.values():
        found.sort(key=lambda reading: (reading[1] is None, reading[1] or 0))
    return {
        "rows": [[*key, count] for key, count in sorted(counts.items())],
        "readings": readings,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the excerpt as JSON."""
    parser = argparse.ArgumentParser(prog="cloud_ingest.tables.excerpt", description=__doc__)
    parser.add_argument("--tables", required=True, help="folder the job wrote")
    parser.add_argument("--readings", action="append", default=[], metavar="TOPIC")
    options = parser.parse_args(arguments)
    rows = messages(TableStore(options.tables), COLUMNS)
    sys.stdout.write(json.dumps(excerpt(rows, frozenset(options.readings))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
