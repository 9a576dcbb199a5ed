"""Goal: bundles of messages are measured on look-ups that find the same, and cut apart whole."""

from __future__ import annotations

import pytest

from benchmarks.bundled_messages import look_up, passing_us


@pytest.mark.parametrize("window_s", [0.0, 0.002])
def test_a_look_up_in_bundles_finds_the_same_in_fewer_messages(window_s: float) -> None:
    alone, shared, gathered = look_up(16, 1, None)
    bundled, *_ = look_up(16, 1, window_s)
    assert bundled.found == alone.found == 48
    assert bundled.messages < alone.messages
    assert bundled.octets == pytest.approx(alone.octets, rel=0.02)
    assert gathered.messages < shared.messages < alone.messages
    assert shared.octets < alone.octets


def test_a_gateway_passes_on_what_came_in_a_bundle_as_it_does_one_by_one() -> None:
    (alone, _, size), (together, _, less) = passing_us()
    assert (alone, together) == ("one by one", "in a bundle")
    assert less < size
