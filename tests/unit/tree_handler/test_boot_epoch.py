"""The number of a gateway's life: where one may begin, and whose word on it is believed."""

from __future__ import annotations

import pytest

from tree_handler import boot_epoch
from tree_handler.boot_epoch import MAX_AHEAD, MAX_BELIEVED, MAX_BOOT_EPOCH, MAX_FIRST, MAX_STEP
from tree_handler.errors import ProtocolError


def test_a_first_life_has_any_number_from_1_to_half_of_all() -> None:
    drawn = [boot_epoch.first(one) for one in (0, 1, MAX_FIRST - 1, MAX_FIRST, 1 << 64)]
    assert drawn == [1, 2, MAX_FIRST, 1, 1 + (1 << 64) % MAX_FIRST]


def test_a_later_life_is_one_to_so_many_behind_the_one_before() -> None:
    assert [boot_epoch.after(7, one) for one in (0, MAX_STEP - 1, MAX_STEP)] == [8, 7 + MAX_STEP, 8]
    behind = [boot_epoch.behind(7, one) for one in (0, MAX_AHEAD - 1, MAX_AHEAD)]
    assert behind == [8, 7 + MAX_AHEAD, 8]


def test_the_latest_life_that_is_believed_counts_and_those_of_others_do_not() -> None:
    named = [("gw-a", 5), ("$gw-a", 9), ("gw-a", 7), ("gw-b", 99), ("gw-a", MAX_BELIEVED + 1)]
    assert boot_epoch.latest("gw-a", named) == 9
    assert boot_epoch.latest("gw-a", [*named, ("gw-a", MAX_BELIEVED)]) == MAX_BELIEVED
    assert boot_epoch.latest("gw-c", named) == 0
    assert boot_epoch.latest("gw-a", []) == 0


def test_a_life_has_a_number_of_32_bits() -> None:
    for epoch in (0, MAX_BOOT_EPOCH):
        boot_epoch.check(epoch)
    for epoch in (-1, MAX_BOOT_EPOCH + 1):
        with pytest.raises(ProtocolError, match=f"boot epoch: {epoch}"):
            boot_epoch.check(epoch)
