"""Holds the tables against what publishers and gateways know: lost, doubled, or neither.

    python -m cloud_ingest.tables.account --tables DIR --noted FILE
        [--log DIR ...] [--killed ID ...]

Three witnesses. The publishers noted which messages were acknowledged. The gateways' logs, read
after the run, hold what each had made durable. The table says what arrived. A message is lost
if it was acknowledged, or stands in a log, and is in no table. An acknowledged message
that is in no log at all, of a gateway that was killed, was acknowledged before it was logged:
that is counted apart, by name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cloud_ingest.tables.rows import messages
from cloud_ingest.tables.store import TableStore
from record_formats import record
from tree_handler import batch

MessageKey = tuple[str, int]
"""A message as its publisher knows it: topic and number."""
OriginStamp = tuple[str, int, int]
"""A message as the tree knows it: origin, boot epoch, number among its clients' logged ones."""


@dataclass(frozen=True, slots=True)
class FleetAccount:
    """An account of messages: how many were acknowledged, ingested, lost and doubled.

    Attributes:
        acknowledged: messages that a publisher has an acknowledgement for.
        ingested: messages of these publishers in the table.
        lost: acknowledged or logged, and not in the table.
        doubled: rows of the tables beyond the first of a message.
        acknowledged_before_log: acknowledged by a killed gateway and in no log.
        lost_examples: some of the lost ones.

    """

    acknowledged: int
    ingested: int
    lost: int
    doubled: int
    acknowledged_before_log: int
    lost_examples: tuple[str, ...]


def settle(
    noted: Iterable[tuple[str, int, str]],
    rows: Iterable[tuple[OriginStamp, MessageKey]],
    logs: dict[OriginStamp, MessageKey | None],
    killed: frozenset[str],
) -> FleetAccount:
    """Compare the witnesses.

    Args:
        noted: acknowledged messages: topic, number, and the gateway that acknowledged.
        rows: the table's logged messages; a number of 0 where it holds no record.
        logs: what the gateways' logs hold; None where the payload is no record.
        killed: ids of gateways that were killed during the run.

    """
    acknowledged = {(topic, number): gateway for topic, number, gateway in noted}
    topics = {topic for topic, _ in acknowledged}
    stamps: set[OriginStamp] = set()
    copies: Counter[MessageKey] = Counter()
    doubled = 0
    for stamp, key in rows:
        doubled += stamp in stamps
        stamps.add(stamp)
        if key[0] in topics:
            copies[key] += 1
    doubled += sum(count - 1 for count in copies.values())
    lost = [f"{stamp}" for stamp in logs if stamp not in stamps]
    logged_keys = set(logs.values())
    before_log = 0
    for key, gateway in acknowledged.items():
        if key in copies or key in logged_keys:  # in a log and not in the table: counted above
            continue
        if gateway in killed:
            before_log += 1
        else:
            lost.append(f"{key[0]} {key[1]}, acknowledged by {gateway}")
    return FleetAccount(
        len(acknowledged), len(copies), len(lost), doubled, before_log, tuple(lost[:10])
    )


def read_tables(tables: TableStore) -> Iterable[tuple[OriginStamp, MessageKey]]:
    """Return the logged messages of the tables that readers see now."""
    columns = ["origin", "boot_epoch", "sequence", "topic", "device_number", "logged"]
    for row in messages(tables, columns):
        if row["logged"]:
            stamp = (row["origin"], row["boot_epoch"], row["sequence"])
            yield stamp, (row["topic"], row["device_number"] or 0)


def read_log(folder: Path) -> Iterable[tuple[OriginStamp, MessageKey | None]]:
    """Return the clients' messages in a gateway's log that are not to stay there, up to a torn
    tail."""
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for at, header in batch.frames(data):
            if not header.logged or header.control or header.local:
                continue
            frame = data[at : at + header.end]
            for i, entry in enumerate(batch.decode(frame, header)):
                try:
                    key = (entry.topic, record.decode(entry.payload).number)
                except record.RecordError:
                    key = None
                yield (header.origin, header.epoch, header.first + i), key


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the account as JSON; exit code 1 if anything is lost or doubled."""
    parser = argparse.ArgumentParser(prog="cloud_ingest.tables.account", description=__doc__)
    parser.add_argument("--tables", required=True, help="folder the job wrote")
    parser.add_argument(
        "--noted", type=Path, required=True, help="JSON: [[topic, number, gateway], ...]"
    )
    parser.add_argument("--log", type=Path, action="append", default=[], help="a gateway's log")
    parser.add_argument("--killed", action="append", default=[], help="a gateway that was killed")
    options = parser.parse_args(arguments)
    logs: dict[OriginStamp, MessageKey | None] = {}
    for folder in options.log:
        logs.update(read_log(folder))
    noted: list[tuple[str, int, str]] = json.loads(options.noted.read_text())
    account = settle(
        noted, read_tables(TableStore(options.tables)), logs, frozenset(options.killed)
    )
    sys.stdout.write(json.dumps(asdict(account)) + "\n")
    return 1 if account.lost or account.doubled else 0


if __name__ == "__main__":
    sys.exit(main())
