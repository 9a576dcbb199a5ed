"""Goal: the CoAP benchmark tells what it measured; no figure comes of a wrong answer."""

from __future__ import annotations

import pytest

from benchmarks import comparison
from benchmarks.coap_figures import CaseResult, rate_result
from benchmarks.coap_load import Run, parse_run
from benchmarks.coap_observers import parse_told, told_result
from benchmarks.load_generator import GeneratorError

SAID = (
    '{"no_handshake": 0, "answered": 30, "measured": 20, "measured_s": 0.5, '
    '"generator_cpu_s": 0.1, "resent": 1, "echoes": 2, "refused": %d, "last_refusal": 503, '
    '"wrong": 0, "p50_us": 40, "p99_us": 90, "max_us": 95}'
)


def test_what_the_generator_says_becomes_a_rate() -> None:
    assert parse_run(SAID % 0) == Run(40.0, 40.0, 90.0, 0.2, 1, "", 95.0, 30)


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


def test_a_target_stands_beside_the_peer_of_which_it_speaks_and_says_whether_it_is_met() -> None:
    case = "GET of a sensor, plain, 32 in flight"
    runs = {"hedgerow": [Run(60.0)], "libcoap coap-server": [Run(100.0)], "aiocoap": [Run(10.0)]}
    lines = list(rate_result(case, "requests/s", runs).lines())
    assert "target 0.5 x: met" in lines[2]
    assert "target 8 x: MISSED" in lines[3]


def test_a_bound_of_ours_alone_stands_beside_ours() -> None:
    figures = {"hedgerow": 401.0, "libcoap coap-rd": 60.0}
    lines = list(CaseResult("RSS with 100,000 endpoints", "MiB", "lower", figures).lines())
    assert "target < 400: MISSED" in lines[1]
    assert "target" not in lines[2]


def test_observers_that_were_not_told_leave_the_server_without_a_figure() -> None:
    said = (
        '{"registered": %d, "changes": 2, "missed": %d, "refused": 0, '
        '"p50_us": 9000, "max_us": 12000, "generator_cpu": 0.1}'
    )
    all_told, some, refused = (
        parse_told(said % counts) for counts in ((1000, 0), (1000, 7), (64, 0))
    )
    assert some.fault == "7 were not told of change 2 within 10 s"
    assert refused.fault == "64 observe, 0 answers were refusals"
    result = told_result({"hedgerow": [all_told, all_told], "peer": [all_told, some]})
    assert result.figures == {"hedgerow": 9.0}


def test_a_case_is_chosen_by_a_part_of_its_name() -> None:
    assert comparison.options("x", "", ["--case", "two"], ["one", "two"]).case == "two"
    with pytest.raises(SystemExit):
        comparison.options("x", "", ["--case", "three"], ["one", "two"])
