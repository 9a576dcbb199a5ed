"""The tree in large networks, and its speed in the published set-up."""

from __future__ import annotations

import pytest

from tree_handler.simulation.growth import grow
from tree_handler.simulation.timing import spread, time_faults


@pytest.mark.parametrize(
    "gateways", [10, 100, pytest.param(1000, marks=pytest.mark.soak("the same ten times larger"))]
)
def test_a_network_settles_in_less_than_twenty_hellos_and_costs_each_gateway_the_same(
    gateways: int,
) -> None:
    grown = grow(gateways)
    assert grown.cold_start_hellos < 20
    assert grown.new_root_hellos < 20
    assert grown.still_bpdus <= grown.degree + 0.01
    assert grown.tree_bytes < 16_000
    assert grown.cold_start_bpdus < 12 * grown.degree
    assert grown.new_root_bpdus < 15 * grown.degree


def test_five_in_full_mesh_at_ten_milliseconds_mend_themselves_in_time() -> None:
    spreads = spread(time_faults(seed) for seed in range(8))
    greatest_s = {name: row[-1] for name, row in spreads.items()}
    assert greatest_s["cold_start_s"] < 1.0
    assert greatest_s["switch_s"] < 0.05
    assert greatest_s["new_root_s"] < 0.5
    assert greatest_s["silent_s"] < 2.5
    assert min(row[0] for row in spreads.values()) > 0
