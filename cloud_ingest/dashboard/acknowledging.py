"""Acknowledgements of alerts, written to the table `acknowledgements`."""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake

from cloud_ingest.query.lake import Lake
from cloud_ingest.tables.fleet_schemas import ACKNOWLEDGEMENTS

NOTE_CHARACTERS_MAX: Final = 500


class NoteError(ValueError):
    """A note that is not taken; the message says why."""


def checked_note(note: str) -> str:
    """Return a note as it is kept.

    Raises:
        NoteError: too long, or with control characters other than line feeds.

    """
    kept = note.strip()
    if len(kept) > NOTE_CHARACTERS_MAX:
        raise NoteError(f"note: {len(kept)} characters are more than {NOTE_CHARACTERS_MAX}")
    if any(not one.isprintable() and one != "\n" for one in kept):
        raise NoteError("note: has characters that can't be shown")
    return kept


def acknowledge(lake: Lake, alert: str, by: str, note: str, time: datetime.datetime) -> None:
    """Append an acknowledgement; the table is made where there is none.

    Args:
        lake: the tables.
        alert: its id.
        by: the principal.
        note: of `checked_note`.
        time: now, with a zone.

    Raises:
        LakeError: the table can't be written.

    """
    row = {"alert": alert, "by": by, "time": time, "note": note}
    lake.guarded(
        "acknowledgements",
        lambda: write_deltalake(
            lake.uri("acknowledgements"),
            pa.Table.from_pylist([row], schema=ACKNOWLEDGEMENTS),
            mode="append",
            storage_options=lake.storage_options or None,
        ),
    )
