"""Looks for a run that shows what a test is about, so that no test hangs on one seed's draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def first_seed(shows: Callable[[int], bool], *, within: int, likely: Sequence[int] = ()) -> int:
    """The first seed whose run shows it.

    Args:
        shows: whether the run of a seed does.
        within: how many seeds are looked at, from 0 on.
        likely: seeds whose runs did once; they are looked at first and save time, no more.

    Raises:
        AssertionError: none does.

    """
    rest = (seed for seed in range(within) if seed not in likely)
    for seed in (*likely, *rest):
        if shows(seed):
            return seed
    raise AssertionError(f"none of {within} seeds shows it")
