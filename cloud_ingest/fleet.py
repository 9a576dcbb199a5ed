"""The fleet as its messages show it: one row a gateway, folded from a few rows a boot.

Spark reduces the messages to one row for each sequence that an origin numbers; what is left is
small and folded here in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgpack
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

MEMBER_TOPIC = "$hedgerow/member/"
NO_PLACE = "-"
"""Domain and group of a gateway at root level, as in its topics."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MemberError(ValueError):
    """A member record can't be read; the message names the field."""


@dataclass(slots=True)
class FleetRow:
    """A row of the fleet table.

    Attributes:
        gateway: its id, as its messages are stamped.
        domain: from its member record; `NO_PLACE` at root level, None if unknown.
        group: as ``domain``.
        boot_epochs: the starts from which messages are in the spool.
        messages: messages of its clients, each once.
        logged: those of them that stood in its log before they were acknowledged.
        control: messages of its own to other gateways.
        undecodable: messages of its clients whose payload holds no reading.
        duplicates: copies in the spool beyond the first, control messages included.
        gaps: numbers of logged messages of its clients that are missing from 1 to the highest, over
            all boot epochs.
        kept_local: numbers of logged messages of its clients that it keeps to itself, by its
            configuration.
        first_seen: the earliest origin time.
        last_seen: the latest origin time.
        accept_latency_mean_ms: from a reading to its acceptance at the origin, by the clocks of
            device and origin; None where no message has a device time. The way from there is
            not in the spool.
        accept_latency_max_ms: its maximum.
        member_error: why its member record can't be read, or None.

    """

    gateway: str
    domain: str | None = None
    group: str | None = None
    boot_epochs: list[int] = field(default_factory=list)
    messages: int = 0
    logged: int = 0
    control: int = 0
    undecodable: int = 0
    duplicates: int = 0
    gaps: int = 0
    kept_local: int = 0
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    accept_latency_mean_ms: float | None = None
    accept_latency_max_ms: float | None = None
    member_error: str | None = None


def sequences(unique: DataFrame) -> DataFrame:
    """A row for each sequence: per origin and boot epoch, up to four (`cloud_ingest.tables.STAMP`).

    Times are microseconds since 1970, so that they reach Python without its local time zone.

    Args:
        unique: what `cloud_ingest.tables.without_duplicates` returns.

    """
    key = ("origin", "boot_epoch", "control", "logged")
    latency_ms = (F.unix_micros("origin_time") - F.unix_micros("device_time")) / 1_000
    last = F.max(F.col("sequence") + F.coalesce("passed", F.lit(1)) - 1)
    found = unique.groupBy(*key).agg(
        F.count_if(F.col("passed").isNull()).alias("messages"),
        F.count("record_error").alias("undecodable"),
        F.sum(F.when(F.col("passed").isNull(), F.col("copies") - 1).otherwise(0)).alias(
            "duplicates"
        ),
        last.alias("last"),
        F.unix_micros(F.min("origin_time")).alias("first_us"),
        F.unix_micros(F.max("origin_time")).alias("last_us"),
        F.sum(latency_ms).alias("latency_sum_ms"),
        F.count(latency_ms).alias("latency_count"),
        F.max(latency_ms).alias("latency_max_ms"),
    )
    kept_local = F.coalesce("kept_local", F.lit(0))
    missing = F.col("last") - F.col("messages") - kept_local
    return (
        found.join(_kept_local(unique, key), [*key], "left")
        .withColumns({"kept_local": kept_local, "missing": missing})
        .drop("last")
    )


def _kept_local(unique: DataFrame, key: Sequence[str]) -> DataFrame:
    """How many numbers of each sequence stay at their origin; statements of it may overlap."""
    last = F.col("sequence") + F.col("passed") - 1
    before = (
        Window.partitionBy(*key)
        .orderBy("sequence", "passed")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    known = F.greatest(F.coalesce(F.max(last).over(before), F.lit(0)), F.col("sequence") - 1)
    return (
        unique.where(F.col("passed").isNotNull())
        .withColumn("fresh", F.greatest(last - known, F.lit(0)))
        .groupBy(*key)
        .agg(F.sum("fresh").alias("kept_local"))
    )


def member_payloads(unique: DataFrame) -> DataFrame:
    """The newest member record that each gateway sent of itself: origin, payload.

    Args:
        unique: what `cloud_ingest.tables.without_duplicates` returns.

    """
    own_topic = F.col("topic") == F.concat(F.lit(MEMBER_TOPIC), "origin")
    newest = F.max_by("payload", F.struct("boot_epoch", "logged", "sequence"))
    return unique.where(F.col("control") & own_topic).groupBy("origin").agg(newest.alias("payload"))


def read_place(payload: bytes, gateway: str) -> tuple[str, str]:
    """Domain and group from a gateway's member record, a msgpack map.

    Raises:
        MemberError: not a map, a field missing or of a wrong type, or of another gateway.

    """
    try:
        fields = msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException) as error:
        raise MemberError(f"member record is not msgpack: {error}") from error
    if not isinstance(fields, dict):
        raise MemberError(f"member record is no map: {type(fields).__name__}")
    if fields.get("id") != gateway:
        raise MemberError(f"member record, id: {fields.get('id')!r}")
    domain, group = (_segment(fields, name) for name in ("domain", "group"))
    return domain, group


def _segment(fields: dict[object, object], name: str) -> str:
    value = fields.get(name, 0)
    if value is None or value == "":
        return NO_PLACE
    if not isinstance(value, str):
        raise MemberError(f"member record, {name}: {value if name in fields else 'missing'!r}")
    return value


def fold(sequence_rows: Iterable[Row], member_rows: Iterable[Row]) -> list[FleetRow]:
    """The fleet, by domain, group and id; gateways without a place last.

    Args:
        sequence_rows: rows of `sequences`.
        member_rows: rows of `member_payloads`.

    """
    gateways: dict[str, FleetRow] = {}
    latencies: dict[str, tuple[float, int]] = {}
    for row in sequence_rows:
        gateway = gateways.setdefault(row["origin"], FleetRow(row["origin"]))
        _add(gateway, row)
        total_ms, count = latencies.get(gateway.gateway, (0.0, 0))
        latencies[gateway.gateway] = (
            total_ms + (row["latency_sum_ms"] or 0.0),
            count + row["latency_count"],
        )
    for name, (total_ms, count) in latencies.items():
        gateways[name].accept_latency_mean_ms = total_ms / count if count else None
        gateways[name].boot_epochs.sort()
    for row in member_rows:
        gateway = gateways[row["origin"]]
        try:
            gateway.domain, gateway.group = read_place(bytes(row["payload"]), row["origin"])
        except MemberError as error:
            gateway.member_error = str(error)
    return sorted(gateways.values(), key=lambda g: (g.domain is None, g.domain, g.group, g.gateway))


def _add(gateway: FleetRow, row: Row) -> None:
    if row["boot_epoch"] not in gateway.boot_epochs:
        gateway.boot_epochs.append(row["boot_epoch"])
    gateway.duplicates += row["duplicates"]
    if row["control"]:
        gateway.control += row["messages"]
    else:
        gateway.messages += row["messages"]
        gateway.undecodable += row["undecodable"]
        if row["logged"]:
            gateway.logged += row["messages"]
            gateway.gaps += row["missing"]
            gateway.kept_local += row["kept_local"]
    first, last = _time(row["first_us"]), _time(row["last_us"])
    gateway.first_seen = min(filter(None, (gateway.first_seen, first)), default=None)
    gateway.last_seen = max(filter(None, (gateway.last_seen, last)), default=None)
    gateway.accept_latency_max_ms = max(
        (ms for ms in (gateway.accept_latency_max_ms, row["latency_max_ms"]) if ms is not None),
        default=None,
    )


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
