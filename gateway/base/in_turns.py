"""Rows of an answer that may have hundreds, gone through so that all else goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_turns(rows: Iterable[T], per_turn: int) -> AsyncIterator[T]:
    """Yield rows one by one; others have a turn of the event loop after so many.

    Args:
        rows: to go through; what is to be the same at the end is copied by the caller.
        per_turn: how many rows take no longer together than others may wait.

    """
    for number, row in enumerate(rows, 1):
        if number % per_turn == 0:
            await asyncio.sleep(0)
        yield row
