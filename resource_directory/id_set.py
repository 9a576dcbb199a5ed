"""A set of ids of which most stand close together: a bit each, in runs."""

from __future__ import annotations

from typing import Final

_RUN_BITS: Final = 8
_OF_RUN: Final = (1 << _RUN_BITS) - 1


class IdSet:
    """Ids that were seen; a million that stand together take less than a megabyte."""

    def __init__(self) -> None:
        self._runs: dict[int, int] = {}

    def add(self, key: int) -> bool:
        """Put in an id; return whether it was not there."""
        run, bit = key >> _RUN_BITS, 1 << (key & _OF_RUN)
        bits = self._runs.get(run, 0)
        if bits & bit:
            return False
        self._runs[run] = bits | bit
        return True
