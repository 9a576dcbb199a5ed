"""Errors that the log raises."""

from __future__ import annotations

from mypy_extensions import mypyc_attr


@mypyc_attr(native_class=False)
class LogError(OSError):
    """The log can't be opened or written; the message names the file and the reason."""


@mypyc_attr(native_class=False)
class PartlyTakenError(LogError):
    """The log took the first messages of a commit, and refused the next.

    Args:
        refusal: why.
        taken: how many it took.

    """

    def __init__(self, refusal: LogError, taken: int) -> None:
        super().__init__(str(refusal))
        self.taken = taken
