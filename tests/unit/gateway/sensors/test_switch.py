"""A switch takes 0 and 1, and nothing else."""

from __future__ import annotations

import pytest

from gateway.sensors.sensor import ValueRefusedError
from gateway.sensors.switch import Switch


def test_it_starts_off_and_is_turned_on_and_off() -> None:
    switch = Switch("lamp")
    assert switch.read() == 0.0
    for value in (1.0, 0.0, 1.0):
        switch.write(value)
        assert switch.read() == value


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0])
def test_another_value_is_refused_by_its_name_and_changes_nothing(value: float) -> None:
    switch = Switch("lamp")
    switch.write(1.0)
    with pytest.raises(ValueRefusedError, match=f"{value} is neither 0 nor 1"):
        switch.write(value)
    assert switch.read() == 1.0
