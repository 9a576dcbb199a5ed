"""Facts about rows never make the rows fail, whatever clocks and numbers the rows have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from cloud_ingest.bounded_counts import MOST
from cloud_ingest.evidence.facts import BatchFacts, GivenUp, Numbers
from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.watch import FleetWatch
from cloud_ingest.ingest import measured_facts
from cloud_ingest.ingest.measured_facts import RowFacts, UnusableRow, measured
from cloud_ingest.ingest.partition_columns import PartitionColumns
from cloud_ingest.ledger.gateway_totals import GatewayTotals
from cloud_ingest.ledger.number_ledger import LedgerChange, NumberLedger
from tree_handler.batch import MAX_NUMBER

YEAR_9999_US = 253_402_300_799_000_000
NOW_US = 1_760_000_000_000_000


def rows(*payloads: bytes, origin_us: int = NOW_US) -> pa.Table:
    columns = PartitionColumns({})
    batch = columns.begin("gw", 1, logged=True, origin_us=origin_us, collected_us=NOW_US)
    for number, payload in enumerate(payloads, 1):
        batch.add(number, "t", 0, payload)
    ((_, table),) = columns.taken()
    return table


def delays(told: list[RowFacts | UnusableRow]) -> dict[int, int]:
    assert len(told) == 1
    assert isinstance(told[0], RowFacts)
    (found,) = told[0].facts.delays
    return dict(found.counts)


@pytest.mark.parametrize("origin_us", [0, NOW_US, YEAR_9999_US])
@pytest.mark.parametrize("device_s", [-62_135_596_800, 1_760_000_000, 200_000_000_000])
def test_clocks_that_are_centuries_apart_are_told_as_a_delay(origin_us: int, device_s: int) -> None:
    reading = b'[{"n":"t","v":1,"t":%d}]' % device_s
    pack = b'[{"n":"t","v":1,"bt":%d},{"n":"u","v":2}]' % device_s
    told = list(measured(rows(reading, pack, origin_us=origin_us)))
    is_known = device_s >= 1 << 28  # else SenML's time is relative, and no time
    assert sum(delays(told).values()) == 2 if is_known else isinstance(told[0], RowFacts)


def test_the_sum_of_many_delays_of_centuries_has_its_sign() -> None:
    reading = b'[{"n":"t","v":1,"t":1760000000}]'
    (told,) = measured(rows(*[reading] * 1_000, origin_us=YEAR_9999_US))
    assert isinstance(told, RowFacts)
    assert told.latencies["gw"].latency_sum_ms == pytest.approx(
        1_000 * (YEAR_9999_US - NOW_US) / 1e3
    )


def failing_at(value: float) -> Callable[[pa.Table], Iterator[Any]]:
    tells = measured_facts.sensor_spans

    def tell(table: pa.Table) -> Iterator[Any]:
        if value in table["value"].to_pylist():
            raise pa.ArrowInvalid(f"no {value:g}")
        yield from tells(table)

    return tell


def test_a_row_of_which_nothing_can_be_told_is_left_out_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measured_facts, "sensor_spans", failing_at(7))
    readings = [b'[{"n":"t","v":%d,"t":1760000000}]' % number for number in range(20)]
    told = list(measured(rows(*readings)))
    assert [one.why for one in told if isinstance(one, UnusableRow)] == ["ArrowInvalid: no 7"]
    parts = [one.facts.sensors for one in told if isinstance(one, RowFacts)]
    assert sum(span.count for spans in parts for span in spans) == 19


def test_what_is_missing_over_many_lives_stays_within_what_a_table_holds() -> None:
    watch = FleetWatch(AlertRules())
    last = ((MAX_NUMBER, MAX_NUMBER),)
    lives = range(1, 30)
    numbers = tuple(Numbers("gw", epoch, False, True, last, ()) for epoch in lives)
    kept = tuple(Numbers("gw", epoch, False, True, (), ((1, MAX_NUMBER - 1),)) for epoch in lives)
    given_up = tuple(GivenUp("gw", epoch, (), MAX_NUMBER) for epoch in lives)
    watch.take(BatchFacts(committed_us=NOW_US, numbers=numbers, given_up=given_up))
    watch.take(BatchFacts(batch_id=1, committed_us=NOW_US, numbers=kept))
    watch.progressed(NOW_US + 60_000_000, NOW_US + 60_000_000)
    (row,) = watch.changes(NOW_US + 60_000_000).replace["gateways"].to_pylist()
    assert row["kept_local"] == MOST
    FleetWatch(AlertRules(), watch.state())


def test_counts_of_a_gateway_stay_within_what_a_commit_holds() -> None:
    ledger = NumberLedger()
    for _ in range(5):
        change = LedgerChange(totals={"gw": GatewayTotals(given_up=MAX_NUMBER)})
        ledger.apply(LedgerChange.unpack(change.pack()))
    assert NumberLedger.unpack(ledger.pack()).all.totals["gw"].given_up == MOST
