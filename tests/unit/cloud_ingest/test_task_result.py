"""The counts of each gateway get the findings of all tasks, once."""

from __future__ import annotations

from cloud_ingest.ingest.tasks import TaskResult
from cloud_ingest.ledger.gateway_totals import GatewayTotals
from cloud_ingest.ledger.number_ledger import LedgerChange, Stream
from tree_handler.intervals import Intervals

STREAM = Stream("gw-a", 1, control=False, logged=True)


def latency(sum_ms: float, count: int, longest_ms: float) -> GatewayTotals:
    return GatewayTotals(latency_sum_ms=sum_ms, latency_count=count, latency_max_ms=longest_ms)


def test_latencies_and_what_cannot_be_read_of_two_tasks_are_added_to_their_gateways() -> None:
    first, second = TaskResult(), TaskResult()
    first.latencies["gw-a"] = latency(30.0, 2, 20.0)
    second.latencies["gw-a"] = latency(50.0, 1, 50.0)
    second.latencies["gw-b"] = latency(7.0, 1, 7.0)
    first.quarantined[STREAM] = Intervals([(1, 3)])
    second.quarantined[STREAM] = Intervals([(7, 7)])
    first.add(second)
    change = LedgerChange()
    change.of("gw-a").messages = 40
    first.add_to(change)
    assert change.totals == {
        "gw-a": GatewayTotals(
            messages=40,
            undecodable=4,
            latency_sum_ms=80.0,
            latency_count=3,
            latency_max_ms=50.0,
        ),
        "gw-b": latency(7.0, 1, 7.0),
    }
