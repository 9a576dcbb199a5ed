"""Commits: those who publish learn here that the log has what they published."""

from __future__ import annotations

from collections.abc import Callable

Committed = Callable[[int, OSError | None], None]
"""Told once that a commit's logged messages may be acknowledged, or the error why they may not.
The number is the sequence number of the first of them; the others follow without a gap, in the
order in which they were handed in. It is 0 where nothing was logged, and means nothing with an
error; but with `PartlyTakenError`, which says how many may be acknowledged all the same.
"""
