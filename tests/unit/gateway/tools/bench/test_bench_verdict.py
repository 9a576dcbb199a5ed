"""The verdict of `hedgerow bench`: how much a machine should be given, by what was measured."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.bench.figures import (
    CLIENTS_MAX,
    LATE_MS,
    SPARED_BYTES,
    STEADY_PER_S,
    AnswerTimes,
    Figures,
    as_document,
    as_text,
    verdict,
)

FAST = Figures(
    start_s=2.0,
    start_cpu_s=1.5,
    sync=AnswerTimes(2.0, 9.0),
    idle_bytes=80 << 20,
    messages_per_s=4_000.0,
    puback=AnswerTimes(3.0, 12.0),
    reads_per_s=2_500.0,
    available_bytes=300 << 20,
)


def test_a_machine_gets_a_quarter_of_the_messages_that_it_can_do() -> None:
    assert verdict(FAST).messages_per_s == 1_000


def test_clients_have_the_memory_that_is_left_behind_the_gateway_and_the_system() -> None:
    assert verdict(FAST).clients == 5_800  # 92 MiB of 16 KiB each, to two digits
    assert verdict(replace(FAST, available_bytes=SPARED_BYTES)).clients == 0
    assert verdict(replace(FAST, available_bytes=8 << 30)).clients == CLIENTS_MAX


def test_one_whose_acknowledgements_are_late_gets_half_of_what_was_asked_for() -> None:
    late = replace(FAST, puback=AnswerTimes(20.0, LATE_MS + 0.1))
    assert verdict(late).messages_per_s == STEADY_PER_S // 2
    assert verdict(replace(FAST, puback=AnswerTimes(20.0, LATE_MS))).messages_per_s == 1_000
    assert "acknowledgements are late" in as_text(late)
    assert "acknowledgements are late" not in as_text(FAST)


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=300))
def test_of_a_hundred_answers_ninety_nine_came_within_the_99th_percentile(
    times_s: list[float],
) -> None:
    latency = AnswerTimes.of(times_s)
    assert latency.p50_ms <= latency.p99_ms <= round(max(times_s) * 1000, 2)
    within = sum(round(one * 1000, 2) <= latency.p99_ms for one in times_s)
    assert within >= 0.99 * len(times_s)


@given(st.floats(0, 1e9), st.integers(0, 1 << 45), st.floats(0, 1e6))
def test_whatever_was_measured_the_verdict_is_no_more_than_that(
    messages_per_s: float, available_bytes: int, p99_ms: float
) -> None:
    figures = replace(
        FAST,
        messages_per_s=messages_per_s,
        available_bytes=available_bytes,
        puback=AnswerTimes(0.0, p99_ms),
    )
    found = verdict(figures)
    assert 0 <= found.messages_per_s <= messages_per_s
    assert 0 <= found.clients <= CLIENTS_MAX
    assert json.loads(json.dumps(as_document(figures)))["verdict"]["clients"] == found.clients
