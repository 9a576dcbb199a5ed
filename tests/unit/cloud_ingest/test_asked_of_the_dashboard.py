"""Fields of a question to the dashboard: bounded, and named where they are wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from cloud_ingest.dashboard import asked
from cloud_ingest.dashboard.rollups import SensorSeries
from gateway.web.api_error import ApiError


def request(*fields: tuple[str, object]) -> web.Request:
    return make_mocked_request("GET", f"/api/x?{urlencode(fields)}")


def refused(ask: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        ask()
    return raised.value.status, str(raised.value)


def test_a_text_is_given_and_an_empty_or_missing_one_is_named() -> None:
    assert asked.text(request(("gateway", "gw a")), "gateway") == "gw a"
    for wrong in (request(), request(("gateway", ""))):
        assert refused(partial(asked.text, wrong, "gateway")) == (400, "gateway: missing")


@pytest.mark.parametrize("said", ["1", "24", "2", "0024"])
def test_a_number_within_its_bounds_is_given(said: str) -> None:
    assert asked.number(request(("hours", said)), "hours", 1, 24) == int(said)


@pytest.mark.parametrize("said", ["0", "25", "-1", "1.0", "soon", "1e1", "x" * 50])
def test_a_number_beyond_its_bounds_or_none_is_named_and_shown_in_part(said: str) -> None:
    why = f"hours: {said[:40]!r} is not 1 to 24"
    assert refused(partial(asked.number, request(("hours", said)), "hours", 1, 24)) == (400, why)


def test_a_number_that_is_missing_is_named() -> None:
    assert refused(partial(asked.number, request(), "hours", 1, 24)) == (400, "hours: missing")


KNOWN = {
    (gateway, f"s{number}"): SensorSeries(number, gateway, f"s{number}", "", 0, 0, 1)
    for gateway in ("a", "b")
    for number in range(asked.SENSORS_MAX + 1)
}


def pairs(*keys: tuple[str, str]) -> web.Request:
    """Ask for sensors, as `gateway` and `sensor` in turn."""
    fields = (field for key in keys for field in zip(("gateway", "sensor"), key, strict=True))
    return request(*fields)


def test_sensors_are_given_in_the_order_in_which_they_are_named_each_once() -> None:
    found = asked.sensors(pairs(("b", "s1"), ("a", "s1"), ("b", "s1"), ("a", "s0")), KNOWN)
    assert [(one.gateway, one.sensor) for one in found] == [("b", "s1"), ("a", "s1"), ("a", "s0")]


def test_so_many_sensors_are_given_and_one_more_is_refused() -> None:
    keys = [("a", f"s{number}") for number in range(asked.SENSORS_MAX)]
    assert len(asked.sensors(pairs(*keys), KNOWN)) == len(keys)
    why = (400, f"sensor: 1 to {asked.SENSORS_MAX}, each with its gateway")
    for wrong in (pairs(*keys, ("b", "s1")), request(), request(("sensor", "s1"))):
        assert refused(partial(asked.sensors, wrong, KNOWN)) == why


def test_a_sensor_that_nobody_has_is_shown_in_part() -> None:
    wrong = pairs(("a", "s1"), ("g" * 201, "s" * 201))
    why = f"sensor: {'g' * 200!r} has no sensor {'s' * 200!r}"
    assert refused(partial(asked.sensors, wrong, KNOWN)) == (404, why)


def test_a_span_is_given_in_microseconds_and_lies_between_two_years() -> None:
    def span(start_ms: int, end_ms: int) -> web.Request:
        return request(("start_ms", start_ms), ("end_ms", end_ms))

    most = asked.FARTHEST_MS
    assert asked.span_us(span(-1, 2)) == (-1_000, 2_000)
    assert asked.span_us(span(-most, most)) == (-most * 1_000, most * 1_000)
    for start_ms, end_ms, why in (
        (5, 5, "end_ms: not after start_ms"),
        (5, 4, "end_ms: not after start_ms"),
        (-most - 1, 5, f"start_ms: '{-most - 1}' is not {-most} to {most}"),
        (5, most + 1, f"end_ms: '{most + 1}' is not {-most} to {most}"),
    ):
        assert refused(partial(asked.span_us, span(start_ms, end_ms))) == (400, why)
