"""A pattern stands for the same resource of each gateway whose place it fits."""

from __future__ import annotations

import pytest

from gateway.tools.commands.many_resources import pattern_of, targets

PLACES = {"gw-a": "-/-", "gw-b": "campus/-", "gw-c": "campus/north", "gw-d": "harbour/north"}


@pytest.mark.parametrize(
    ("target", "ids"),
    [
        ("*/host/load1", ["gw-a", "gw-b", "gw-c", "gw-d"]),
        ("campus/*/*/host/load1", ["gw-b", "gw-c"]),
        ("campus/+/+/host/load1", ["gw-c"]),
        ("/q/*/north/*/sensors/host/load1", ["gw-c", "gw-d"]),
        ("/q/*/*/gw-b/sensors/host/load1", ["gw-b"]),
        ("/q/nowhere/*/*/sensors/host/load1", []),
    ],
)
def test_a_pattern_names_the_same_resource_of_each_gateway_that_fits(
    target: str, ids: list[str]
) -> None:
    pattern = pattern_of(target)
    assert pattern is not None
    found = targets(pattern, PLACES)
    assert list(found) == ids
    assert all(path == f"/q/{PLACES[one]}/{one}/sensors/host/load1" for one, path in found.items())


@pytest.mark.parametrize(
    "target",
    [
        "valve",
        "gw-a/valve",
        "campus/north/gw-c/valve",
        "/sensors/*",
        "/q/a/b/c/sensors/*",
        "gw-a/*",
    ],
)
def test_what_names_one_gateway_is_no_pattern(target: str) -> None:
    assert pattern_of(target) is None
