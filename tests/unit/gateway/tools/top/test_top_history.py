"""Rates and percentiles are what two samples say together, and nothing where they can't say it."""

from __future__ import annotations

from typing import Any

import pytest
import told_gateways
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.duration_histogram import BOUNDS_S, DurationHistogram
from gateway.tools.top import top_json
from gateway.tools.top.cells import clip, fit, width_of
from gateway.tools.top.history import GatewayHistory, percentile
from gateway.tools.top.live import take
from gateway.tools.top.quantities import milliseconds, number, size, span, sparkline


def looked(*steps: Any) -> GatewayHistory:
    history = GatewayHistory()
    for one in steps:
        take(history, one)
    return history


def test_rates_are_differences_over_the_time_between() -> None:
    history = looked(told_gateways.answers(1), told_gateways.answers(3))
    rates = history.rates
    assert rates is not None
    assert (rates.messages_in, rates.messages_out) == (125, 450)
    assert history.last is not None
    clients = {one.id: history.of_client(one).bytes_s for one in history.last.clients}
    assert clients == {"meter-17": 18 * 1040 / 4, "厨房温度": 10 * 1040 / 4, "pump": 2 * 1040 / 4}


def test_a_client_that_has_connected_meanwhile_counts_from_nothing() -> None:
    new = told_gateways.client("new", 1, since_s=told_gateways.NOW_S + 3)
    second = told_gateways.answers(2, clients={"clients": [new]})
    history = looked(told_gateways.answers(1), second)
    assert history.last is not None
    assert history.of_client(history.last.clients[0]).bytes_s == 520


def test_a_client_that_was_not_among_the_busiest_has_no_rate_yet() -> None:
    risen = told_gateways.client("risen", 50)
    history = looked(
        told_gateways.answers(1), told_gateways.answers(2, clients={"clients": [risen]})
    )
    assert history.last is not None
    assert history.of_client(history.last.clients[0]).bytes_s is None


def test_a_client_that_came_back_is_not_compared_with_its_former_connection() -> None:
    back = told_gateways.client("pump", 1, since_s=told_gateways.NOW_S + 3, bytes_read=10)
    history = looked(
        told_gateways.answers(1), told_gateways.answers(2, clients={"clients": [back]})
    )
    assert history.last is not None
    assert history.of_client(history.last.clients[0]).bytes_s == (10 + 40) / 2


@pytest.mark.parametrize("more", [{"boot_epoch": 8}, {"up_s": 1.0}, {"id": "gw-other"}])
def test_after_a_start_there_is_no_rate(more: dict[str, Any]) -> None:
    again = told_gateways.answers(2, status=told_gateways.status(2, **more))
    history = looked(told_gateways.answers(1), again)
    assert (history.rates, history.delays.p99_s, history.starts) == (None, None, 1)


def test_while_there_is_no_answer_there_is_no_rate_and_the_first_failure_counts() -> None:
    history = looked(told_gateways.answers(1), told_gateways.answers(2))
    history.missed("silence", 7.0)
    history.missed("still", 9.0)
    assert (history.rates, history.failure, history.failed_at_s) == (None, "still", 7.0)
    take(history, told_gateways.answers(9))
    assert history.failure == ""
    assert history.rates is not None


@given(st.lists(st.floats(0, 10), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_percentile_is_in_the_bucket_of_the_delay_it_stands_for(
    delays_s: list[float], share: float
) -> None:
    counted = DurationHistogram()
    for one in delays_s:
        counted.observe(one)
    found = percentile(BOUNDS_S, tuple(map(float, counted.counts)), share)
    assert found is not None
    at = min(len(delays_s) - 1, max(0, -int(-share * len(delays_s) // 1) - 1))
    true_s = sorted(delays_s)[at]
    upper = next((one for one in BOUNDS_S if one >= true_s), BOUNDS_S[-1])
    lower = max((one for one in (0.0, *BOUNDS_S) if one < upper), default=0.0)
    assert lower - 1e-9 <= found <= upper + 1e-9


def test_no_delays_have_no_percentile() -> None:
    assert percentile(BOUNDS_S, (0.0,) * (len(BOUNDS_S) + 1), 0.5) is None
    assert percentile((), (), 0.5) is None
    assert percentile(BOUNDS_S, (1.0,), 0.5) is None


def test_json_has_what_the_frame_has() -> None:
    document = top_json.of_gateway(looked(told_gateways.answers(1), told_gateways.answers(2)))
    assert document["gateway"]["id"] == "gw-north"
    assert document["rates"]["messages_in"] == 125
    assert document["acknowledgement_delays"] == {"count": 100, "p50_ms": 1.833, "p99_ms": 9.5}
    assert [one["id"] for one in document["clients"]] == ["meter-17", "厨房温度", "pump"]
    assert top_json.of_gateway(GatewayHistory())["gateway"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "-"), (0, "0"), (0.04, "0.0"), (9.94, "9.9"), (12, "12"), (999, "999")),
        *((999.7, "1.0k"), (1_234, "1.2k"), (54_000, "54k"), (1.5e7, "15M"), (float("inf"), "-")),
        (2.5e15, "2500T"),
    ],
)
def test_numbers_have_few_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_sizes_delays_and_times_have_their_unit() -> None:
    assert [size(one) for one in (None, 0, 999, 5_120, 5.4e9)] == [
        *("-", "0 B", "999 B", "5.1 kB", "5.4 GB")
    ]
    assert [milliseconds(one) for one in (None, 0.00025, 0.0012, 0.25, 5)] == [
        *("-", "0.25", "1.2", "250", "5.0k")
    ]
    assert [span(one) for one in (None, -1, 0, 59, 60, 3_600, 90_000)] == [
        *("-", "-", "0 s", "59 s", "1 min", "1 h 0 min", "1 d 1 h")
    ]


def test_a_sparkline_is_as_high_as_its_greatest_value() -> None:
    assert sparkline([0, 1, 2, 4], 10) == "▁▃▅█"
    assert sparkline([0, 0], 10) == "▁▁"
    assert sparkline([1, 2, 3], 2) == "▆█"
    assert sparkline([], 5) == ""


@given(st.text(max_size=60), st.integers(0, 40))
def test_a_text_is_fitted_to_exactly_its_cells(text: str, cells: int) -> None:
    shown = clip(text, cells)
    assert width_of(shown) <= cells
    assert shown.isprintable()
    assert width_of(fit(text, cells)) == cells
    assert fit(text, cells, to_the_right=True).strip() == fit(text, cells).strip()


@given(st.text(st.characters(categories=["L", "N"], max_codepoint=0x7F), max_size=40))
def test_a_text_that_fits_is_left_as_it_is(text: str) -> None:
    assert clip(text, len(text)) == text
    if len(text) > 1:
        assert clip(text, len(text) - 1) == text[: len(text) - 2] + "…"
