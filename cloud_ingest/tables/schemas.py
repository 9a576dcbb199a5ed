"""Schemas of the tables that the job writes, each declared once.

New columns stand at the end and may be null: tables of before and after are one table.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")

SEVERAL: Final = pa.list_(
    pa.struct(
        [
            ("sensor", pa.string()),
            ("unit", pa.string()),
            ("value", pa.float64()),
            ("device_time", TIME),
            ("value_text", pa.string()),
            ("value_bool", pa.bool_()),
            ("value_bytes", pa.binary()),
        ]
    )
)
"""All that a message with several measurements holds, in its order."""

PARTITIONS: Final = ("day", "domain")
"""Of telemetry: values of these stand in the log of the table, not in its files."""

TELEMETRY: Final = pa.schema(
    [
        ("origin", pa.string()),
        ("boot_epoch", pa.int64()),
        ("logged", pa.bool_()),
        ("sequence", pa.int64()),
        ("qos", pa.int8()),
        ("retain", pa.bool_()),
        ("topic", pa.string()),
        ("origin_time", TIME),
        ("payload", pa.binary()),
        ("sensor", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        ("device_time", TIME),
        ("device_number", pa.int64()),
        ("measurements", SEVERAL),
        ("record_error", pa.string()),
        ("value_text", pa.string()),
        ("value_bool", pa.bool_()),
        ("value_bytes", pa.binary()),
        ("quality", pa.string()),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("more", pa.string()),
        ("collected_time", TIME),
        ("day", pa.date32()),
        ("domain", pa.string()),
        ("group", pa.string()),
    ]
)
"""Each message of a client once, if its payload can be read.

Its stamp is ``origin``, ``boot_epoch``, ``logged``, ``sequence``. ``sensor`` to ``more`` are null
where the payload does not say (`cloud_ingest.measurements`). A value is in the column of its kind:
a number in ``value``, a boolean there too, as 1 or 0. ``sensor`` to ``device_time`` are of the
first measurement; ``measurements`` holds all of a message that has several. ``record_error`` is
always null since what can't be read goes to `QUARANTINE`. ``more`` is JSON: what later versions of
the record say. ``origin_time`` is when the origin accepted the message, null if its clock was
beyond the year 9999; ``collected_time`` when the collector had it on disk.
"""

FILE_COLUMNS: Final = pa.schema([field for field in TELEMETRY if field.name not in PARTITIONS])
"""The columns of a file of telemetry."""

QUARANTINE: Final = pa.schema(
    [
        ("found_time", TIME),
        ("reason", pa.string()),
        ("origin", pa.string()),
        ("boot_epoch", pa.int64()),
        ("logged", pa.bool_()),
        ("sequence", pa.int64()),
        ("topic", pa.string()),
        ("origin_time", TIME),
        ("collected_time", TIME),
        ("spool", pa.string()),
        ("segment", pa.string()),
        ("position", pa.int64()),
        ("bytes", pa.binary()),
        ("qos", pa.int8()),
        ("retain", pa.bool_()),
    ]
)
"""Unreadable input and why it is: a message whose payload holds no reading, or damaged bytes of a
spool, which have no stamp. ``position`` is of the batch, or the bytes, in the segment. ``qos`` and
``retain`` are null in rows of before they were there."""

YEAR_2020_US: Final = 1_577_836_800_000_000
AHEAD_US: Final = 2 * 86_400 * 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def day_of(origin_us: int | None, collected_us: int) -> str:
    """Return the day of a message, as ``2026-11-23``: of its origin's clock, unless that is absurd.

    Args:
        origin_us: when its origin accepted it, microseconds since 1970.
        collected_us: when the collector had it.

    """
    is_sound = origin_us is not None and YEAR_2020_US <= origin_us <= collected_us + AHEAD_US
    micros = origin_us if is_sound and origin_us is not None else collected_us
    return (_EPOCH + timedelta(microseconds=micros)).date().isoformat()


def micros_of(time: datetime) -> int:
    """Return a value of `TIME`, in microseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1)
