"""One item that fails is set aside, so that all the others go on: counted, and told at ERROR.

A timer, a sweep or the end of a turn serves many. What one of them raises, which nobody foresaw,
must not keep the others waiting, and must not pass in silence.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.printable import said

SET_ASIDE: Final = "set aside"
"""The beginning of each kind, as it is counted."""

ALL: Final[Counter[str]] = Counter()
"""Counts of what all parts of this process set aside, as its log tells of it: how often each
could not be done."""


class Failures:
    """Tells of failures that were set aside, beside what else is counted.

    Args:
        lines: where they are counted, by what failed.

    """

    def __init__(self, lines: CountedLines) -> None:
        self._lines = lines

    def failed(self, what: str, error: BaseException, who: str = "") -> None:
        """Count a failure, and tell it: the first of its kind with its traceback.

        Args:
            what: could not be done; one of a few, for each is counted for itself.
            error: why.
            who: which one it was about; nothing if there is but one.

        """
        ALL[what] += 1
        why = said(error)
        told = f"{who}: {why}" if who else why
        self._lines.count(f"{SET_ASIDE}: {what}", told, level=logging.ERROR, error=error)

    def tried(self, what: str, step: Callable[[], object], who: object = "") -> bool:
        """Do something, and set it aside if it fails; return whether it worked.

        Args:
            what: as `failed` has it.
            step: does it.
            who: as `failed` has it; its name is asked for where the step fails.

        """
        try:
            step()
        except Exception as error:  # nobody foresaw it, or it would have been dealt with there
            self.failed(what, error, str(who))
            return False
        return True
