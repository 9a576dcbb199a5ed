"""Goal: the CoAP benchmark tells what it measured; no figure comes of a wrong answer."""

from __future__ import annotations

import pytest

from benchmarks.coap_figures import rate_result
from benchmarks.coap_load import Run, parse_run
from benchmarks.load_generator import GeneratorError

SAID = (
    '{"no_handshake": 0, "answered": 30, "measured": 20, "measured_s": 0.5, '
    '"generator_cpu_s": 0.1, "resent": 1, "echoes": 2, "refused": %d, "last_refusal": 503, '
    '"wrong": 0, "p50_us": 40, "p99_us": 90}'
)


def test_what_the_generator_says_becomes_a_rate() -> None:
    assert parse_run(SAID % 0) == Run(40.0, 40.0, 90.0, 0.2, 1, "")


def test_a_refused_request_leaves_the_server_without_a_figure() -> None:
    run = parse_run(SAID % 3)
    assert run.fault == "3 of 30 refused, last 5.03"
    result = rate_result("case", "requests/s", {"hedgerow": [run], "peer": [Run(10.0)]})
    assert list(result.comparisons()) == []
    assert "left out: 3 of 30 refused" in "\n".join(result.lines())


def test_what_is_no_json_of_the_generator_is_an_error() -> None:
    with pytest.raises(GeneratorError, match="wrote"):
        parse_run("{}")


def test_the_median_of_the_rounds_stands_beside_the_peers() -> None:
    runs = {"hedgerow": [Run(10.0), Run(40.0), Run(20.0)], "peer": [Run(5.0)]}
    (found,) = rate_result("case", "requests/s", runs).comparisons()
    assert (found.ours, found.peer, found.ratio) == (20.0, 5.0, 4.0)
