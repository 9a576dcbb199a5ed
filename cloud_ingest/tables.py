"""Schemas, each declared once, and the steps from the spool's messages to the telemetry table.

Each step takes a DataFrame and returns one; none knows of a session, so each is tested on a few
rows. `cloud_ingest.fleet` goes on from here.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_KINDS = [
    StructField("value_text", StringType()),
    StructField("value_bool", BooleanType()),
    StructField("value_bytes", BinaryType()),
]

SEVERAL = ArrayType(
    StructType(
        [
            StructField("sensor", StringType()),
            StructField("unit", StringType()),
            StructField("value", DoubleType()),
            StructField("device_time", TimestampType()),
            *_KINDS,
        ]
    )
)
"""All that a message with several measurements holds, in its order."""

MESSAGES = StructType(
    [
        StructField("origin", StringType()),
        StructField("boot_epoch", LongType()),
        StructField("logged", BooleanType()),
        StructField("control", BooleanType()),
        StructField("sequence", LongType()),
        StructField("qos", ByteType()),
        StructField("retain", BooleanType()),
        StructField("topic", StringType()),
        StructField("origin_time", TimestampType()),
        StructField("payload", BinaryType()),
        StructField("passed", LongType()),
        StructField("sensor", StringType()),
        StructField("unit", StringType()),
        StructField("value", DoubleType()),
        StructField("device_time", TimestampType()),
        StructField("device_number", LongType()),
        StructField("measurements", SEVERAL),
        StructField("record_error", StringType()),
        *_KINDS,
        StructField("quality", StringType()),
        StructField("tags", MapType(StringType(), StringType())),
        StructField("more", StringType()),
    ]
)
"""A message as it stands in the spool: its stamp, its packet, and what it measured if it says so.

``sensor`` to ``measurements`` are null in messages between gateways (``control``) and where
``record_error`` says why the payload holds no reading; all also where the payload does not say
(`cloud_ingest.measurements`). A value is in the column of its kind: a number in ``value``, a
boolean there too, as 1 or 0. ``sensor`` to ``device_time`` are of the first measurement;
``measurements`` holds all of a message that has several. ``more`` is JSON: what later versions of
the record say. The columns behind ``record_error`` are those of version 2: new ones stand at the
end, so that tables of before and after are read together. ``origin_time`` is when the origin
accepted the message, null if its clock was beyond the year 9999. ``passed`` is null in messages; in
a row that is none it says of how many numbers, from ``sequence`` on, the messages stay at their
origin.
"""

STAMP = ("origin", "boot_epoch", "control", "logged", "sequence")
"""What makes a message this one and no other: each origin numbers four kinds apart."""

TELEMETRY = StructType([field for field in MESSAGES if field.name not in ("control", "passed")])
"""The telemetry table: each message of a client once."""

FLEET = StructType(
    [
        StructField("gateway", StringType()),
        StructField("domain", StringType()),
        StructField("group", StringType()),
        StructField("boot_epochs", ArrayType(LongType())),
        StructField("messages", LongType()),
        StructField("logged", LongType()),
        StructField("control", LongType()),
        StructField("undecodable", LongType()),
        StructField("duplicates", LongType()),
        StructField("gaps", LongType()),
        StructField("kept_local", LongType()),
        StructField("first_seen", TimestampType()),
        StructField("last_seen", TimestampType()),
        StructField("accept_latency_mean_ms", DoubleType()),
        StructField("accept_latency_max_ms", DoubleType()),
        StructField("member_error", StringType()),
    ]
)
"""The fleet table: a row a gateway. See `cloud_ingest.fleet.Gateway` for each column."""


def without_duplicates(messages: DataFrame) -> DataFrame:
    """Each message once, with ``copies``, how often the spool holds it.

    Copies of a message are alike: a batch's bytes are never rewritten on their way.

    Args:
        messages: `MESSAGES`, control messages included.

    """
    stamp = (*STAMP, "passed")
    kept = [name for name in messages.columns if name not in stamp]
    return (
        messages.groupBy(*stamp)
        .agg(F.first(F.struct(*kept)).alias("kept"), F.count("*").alias("copies"))
        .select(*(f"kept.{name}" if name in kept else name for name in MESSAGES.names), "copies")
    )


def telemetry(unique: DataFrame) -> DataFrame:
    """The messages of clients, as `TELEMETRY`.

    Args:
        unique: what `without_duplicates` returns.

    """
    return unique.where(~F.col("control") & F.col("passed").isNull()).select(*TELEMETRY.names)
