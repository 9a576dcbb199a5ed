"""Named writes over a lossy path, with kills of both gateways and drivers that do their worst."""

from __future__ import annotations

import logging

import named_writes
import pytest

WRITES, SOAKED = 150, 10_000

_log = logging.getLogger(__name__)


@pytest.fixture
def world(pytestconfig: pytest.Config) -> named_writes.World:
    writes = SOAKED if pytestconfig.getoption("--soak") else WRITES
    return named_writes.lived(pytestconfig.getoption("--seed"), writes)


def test_no_name_is_carried_out_twice_each_answer_is_true_and_all_others_are_sampled(
    world: named_writes.World,
) -> None:
    devices = world.devices
    told = f"{sum(world.ends.values())} writes, {world.kills} kills: {dict(world.ends)}"
    _log.info(told)
    assert {number: n for number, n in devices.begun.items() if n > 1} == {}
    assert {number: n for number, n in devices.done.items() if n > 1} == {}
    assert devices.wrong == []
    assert world.kills >= 2
    assert world.ends["2.04"] > sum(world.ends.values()) / 3
    for lived_s, readings in world.sampled:
        assert readings >= lived_s / named_writes.SAMPLED_S - 1
