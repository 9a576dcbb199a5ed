"""Facts on sensors and delays from a table of telemetry, column by column.

It is told *about* rows, so it never fails them: rows of which nothing can be told are looked for by
halving, left out of what is told, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from cloud_ingest.evidence.facts import BatchFacts, Delays, SensorSpan
from cloud_ingest.ingest.delay_buckets import LOWEST, PER_OCTAVE
from cloud_ingest.ledger.gateway_totals import GatewayTotals
from record_formats.value import BAD

MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True)
class RowFacts:
    """The facts that rows of telemetry give.

    Attributes:
        facts: of sensors and delays.
        latencies: as they are added to the totals of gateways.

    """

    facts: BatchFacts
    latencies: dict[str, GatewayTotals]


@dataclass(frozen=True, slots=True)
class UnusableRow:
    """A row of which nothing can be told, and why."""

    why: str


def measured(table: pa.Table) -> Iterator[RowFacts | UnusableRow]:
    """Yield what rows tell, in as few parts as can be; whatever they hold, it raises nothing."""
    waiting = [table]
    while waiting:
        part = waiting.pop()
        try:
            spans, timed = tuple(sensor_spans(part)), timed_rows(part)
            delays = tuple(device_delays(timed))
            told = RowFacts(BatchFacts(delays=delays, sensors=spans), accept_latencies(timed))
        except Exception as error:  # whatever it is, the rows are right
            half = part.num_rows // 2
            if half:
                waiting += [part.slice(half), part.slice(0, half)]
                continue
            yield UnusableRow(f"{type(error).__name__}: {error}")
            continue
        yield told


def sensor_spans(table: pa.Table) -> Iterator[SensorSpan]:
    """Yield what each sensor measured: numbers that may be used, of messages that name a sensor."""
    time = pc.coalesce(table["device_time"], table["origin_time"]).cast(pa.int64())
    usable = pc.and_(
        pc.and_(pc.is_valid(table["sensor"]), pc.is_valid(table["value"])),
        pc.and_(pc.is_valid(time), pc.is_null(table["value_bool"])),
    )
    usable = pc.and_(usable, pc.fill_null(pc.not_equal(table["quality"], BAD), fill_value=True))
    chosen = pa.table(
        {
            "origin": table["origin"].combine_chunks().dictionary_encode().indices,
            "sensor": table["sensor"].combine_chunks().dictionary_encode().indices,
            "time": time,
            "value": table["value"],
            "row": pc.subtract(pc.cumulative_sum(pa.repeat(1, table.num_rows)), 1),
        }
    ).filter(usable)
    if not chosen.num_rows:
        return
    order = [("origin", "ascending"), ("sensor", "ascending"), ("time", "ascending")]
    chosen = chosen.sort_by(order).combine_chunks()
    before, after = chosen.slice(0, chosen.num_rows - 1), chosen.slice(1)
    same = pc.and_(
        pc.equal(before["origin"], after["origin"]), pc.equal(before["sensor"], after["sensor"])
    )
    changed = pc.and_(same, pc.not_equal(before["value"], after["value"])).combine_chunks()
    changed = pa.concat_arrays([pa.array([False]), changed]).cast(pa.int64())
    found = (
        chosen.append_column("changed", changed)
        .group_by(["origin", "sensor"], use_threads=False)
        .aggregate(
            [
                *(("value", how) for how in ("count", "min", "max", "first", "last")),
                *(("time", how) for how in ("min", "max")),
                ("changed", "sum"),
                ("row", "first"),
            ]
        )
    )
    rows = found["row_first"]
    names = table.select(["origin", "sensor"]).take(rows).to_pylist()
    for name, row in zip(names, found.to_pylist(), strict=True):
        yield SensorSpan(
            name["origin"],
            name["sensor"],
            row["value_count"],
            row["time_min"],
            row["time_max"],
            row["value_min"],
            row["value_max"],
            row["value_first"],
            row["value_last"],
            row["changed_sum"],
        )


def device_delays(timed: pa.Table) -> Iterator[Delays]:
    """From readings to their acceptance at the origin.

    Args:
        timed: of `timed_rows`.

    """
    if not timed.num_rows:
        return
    bucket = pc.floor(
        pc.multiply(pc.log2(pc.divide(pc.max_element_wise(timed["us"], 1.0), 1_000.0)), PER_OCTAVE)
    )
    timed = timed.append_column(
        "bucket", pc.max_element_wise(pc.cast(bucket, pa.int64()), pa.scalar(LOWEST, pa.int64()))
    )
    found = timed.group_by(["origin", "minute", "bucket"], use_threads=False).aggregate(
        [("us", "count")]
    )
    counts: dict[tuple[str, int], dict[int, int]] = {}
    for row in found.to_pylist():
        counts.setdefault((row["origin"], row["minute"]), {})[row["bucket"]] = row["us_count"]
    for (origin, minute), buckets in counts.items():
        yield Delays(origin, minute, "device-origin", buckets)


def accept_latencies(timed: pa.Table) -> dict[str, GatewayTotals]:
    """Return sum, count and maximum of the latencies by gateway."""
    found = timed.group_by("origin", use_threads=False).aggregate(
        [("us", "sum"), ("us", "count"), ("us", "max")]
    )
    return {
        row["origin"]: GatewayTotals(
            latency_sum_ms=row["us_sum"] / 1_000,
            latency_count=row["us_count"],
            latency_max_ms=row["us_max"] / 1_000,
        )
        for row in found.to_pylist()
    }


def timed_rows(table: pa.Table) -> pa.Table:
    """Origin, minute of the collector's clock and delay in microseconds, where it is known.

    Delays are floating-point: of clocks that are centuries apart a sum fits in no integer, and an
    exact conversion of a single one fails.
    """
    both = pc.and_(pc.is_valid(table["device_time"]), pc.is_valid(table["origin_time"]))
    table = table.select(["origin", "device_time", "origin_time", "collected_time"]).filter(both)
    micros = pc.subtract(
        table["origin_time"].cast(pa.int64()), table["device_time"].cast(pa.int64())
    ).cast(pa.float64(), safe=False)
    collected = table["collected_time"].cast(pa.int64())
    minute = pc.multiply(pc.divide(collected, MINUTE_US), MINUTE_US)
    return pa.table({"origin": table["origin"], "us": micros, "minute": minute})
