"""A percentile is one of the values that were measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.percentiles import percentile


@pytest.mark.parametrize(
    ("percent", "value"), [(1, 1.0), (50, 2.0), (75, 3.0), (99, 4.0), (100, 4.0)]
)
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value
    assert percentile([7.0], percent) == 7.0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(1, 100))
def test_it_is_a_value_that_this_share_does_not_exceed(values: list[float], percent: float) -> None:
    value = percentile(values, percent)
    assert value in values
    assert sum(one <= value for one in values) >= len(values) * percent / 100 - 1e-9
    assert sum(one < value for one in values) < len(values) * percent / 100 + 1e-9


def test_of_nothing_there_is_none() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
