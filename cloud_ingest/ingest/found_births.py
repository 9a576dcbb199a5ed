"""Finds the births of Sparkplug B in what a task is to read, before any task reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cloud_ingest.ingest.decoding import seals_of, wanted_rows
from cloud_ingest.ingest.plan import SpoolStretch
from cloud_ingest.ingest.tasks import TaskOrder, batches, proven_rows
from cloud_ingest.mapping.births import Birth, MessageStamp
from cloud_ingest.spool.receipts import Receipts
from tree_handler.errors import BatchError
from tree_handler.seal import Seals


def find_births(order: TaskOrder) -> list[Birth]:
    """Return what the births in the stretches of a task say.

    Raises:
        OSError: a segment can't be read.

    """
    seals = seals_of(order)
    return [birth for stretch in order.stretches for birth in _of_stretch(stretch, seals)]


def _of_stretch(stretch: SpoolStretch, seals: Seals | None) -> Iterator[Birth]:
    from cloud_ingest.mapping.sparkplug import birth_of  # noqa: PLC0415  # as in `Mappings`

    receipts = Receipts(Path(stretch.spool) / stretch.segment)
    for at, frame, header in batches(stretch):
        with suppress(BatchError):  # who reads the batch says so
            rows = proven_rows(frame, header, seals)
            for sequence, row in wanted_rows(header, stretch, rows):
                sender = MessageStamp(header.origin, receipts.time_us(at), sequence)
                birth = birth_of(row[0], row[2], sender)
                if birth is not None:
                    yield birth
