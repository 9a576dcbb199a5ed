"""All numbers that the tables have, as the fleet's tables are told of them."""

from __future__ import annotations

from collections.abc import Iterator

from cloud_ingest.evidence.facts import Numbers
from cloud_ingest.ledger.number_ledger import NumberLedger


def had_numbers(ledger: NumberLedger) -> Iterator[Numbers]:
    """Give the numbers of clients' logged messages in telemetry, in quarantine, or kept at home.

    Args:
        ledger: what the tables have.

    """
    had = ledger.all
    for stream in dict.fromkeys((*had.seen, *had.held, *had.kept_local)):
        if stream.logged and not stream.control:
            seen = (*had.seen.get(stream, ()), *had.held.get(stream, ()))
            yield Numbers(*stream, seen, tuple(had.kept_local.get(stream, ())))
