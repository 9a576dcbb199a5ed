"""A batch that waits for those before it takes its wait off its messages' expiry."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.node.links.held_batches import MAX_HELD, HeldBatches
from tree_handler.batch import Flags, Header, Row

EXPIRY = 2


def header(first: int, origin: str = "gw-z") -> Header:
    return Header(origin, 1, first, 1, Flags.LOGGED, 0, 0, 0)


def expiry(held: HeldBatches, of: Header, now: float, seconds: int = 60) -> Any:
    """Return the expiry of a message when its batch is handed out."""
    rows: list[Row] = [("a/b", 1, b"", {EXPIRY: seconds}), ("a/b", 1, b"")]
    held.handed_out(of, rows, now)
    assert rows[1] == ("a/b", 1, b"")
    return rows[0][3][EXPIRY]


@pytest.mark.parametrize(
    ("waited_s", "left_s"), [(0.0, 60), (0.9, 60), (1.0, 59), (59.5, 1), (60.0, 0), (99.0, 0)]
)
def test_whole_seconds_of_the_wait_are_taken_off_and_no_more_than_there_are(
    waited_s: float, left_s: int
) -> None:
    held = HeldBatches()
    held.wait(header(5), 100.0)
    assert expiry(held, header(5), 100.0 + waited_s) == left_s


def test_a_wait_counts_from_when_a_batch_came_first_until_it_was_handed_out() -> None:
    held = HeldBatches()
    held.wait(header(5), 100.0)
    held.wait(header(5), 110.0)
    held.wait(header(6), 110.0)
    held.wait(header(5, "gw-y"), 115.0)
    assert len(held) == 3
    assert expiry(held, header(5), 120.0) == 40
    assert expiry(held, header(5), 130.0) == 60
    assert expiry(held, header(6), 120.0) == 50
    assert expiry(held, header(5, "gw-y"), 120.0) == 55
    assert not held


def test_so_many_batches_wait_and_of_more_none_is_remembered_but_the_new_one() -> None:
    held = HeldBatches()
    for first in range(1, MAX_HELD + 1):
        held.wait(header(first), 100.0)
    assert len(held) == MAX_HELD
    held.wait(header(MAX_HELD + 1), 100.0)
    assert len(held) == 1
    assert expiry(held, header(1), 120.0) == 60
    assert expiry(held, header(MAX_HELD + 1), 120.0) == 40
