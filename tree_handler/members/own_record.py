"""The place in the log of the latest record that a gateway tells the others of itself.

Who joins later has the record from a log: if this gateway's has it no more, perhaps from none. So
a record is told anew when the log has dropped or lost it (`MemberRecord`, `Interest`, `Claims`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tree_handler.batch import CONTROL_PREFIX, Epoch
from tree_handler.intervals import Intervals


class OwnRecord:
    """The latest record of one kind.

    Args:
        gateway_id: this gateway's.
        epoch: its boot epoch.

    """

    def __init__(self, gateway_id: str, epoch: int) -> None:
        self._stream: Epoch = (CONTROL_PREFIX + gateway_id, epoch)
        self._in_log_from: float = math.inf

    def told(self) -> None:
        """Another one is told; the log does not have it yet."""
        self._in_log_from = math.inf

    def logged(self, number: int) -> None:
        """It is in the log, not before this number of the gateway's control stream."""
        self._in_log_from = float(number)

    def refused(self) -> None:
        """The log did not take it."""
        self._in_log_from = 0.0

    def is_to_be_told_anew(self, kept_from: Mapping[Epoch, int]) -> bool:
        """Return whether the log does not hold it any more.

        Args:
            kept_from: the lowest number that the log still holds, by stream.

        """
        return self._in_log_from < kept_from.get(self._stream, 1)

    def may_be_lost(self, lost: Mapping[Epoch, Intervals]) -> bool:
        """Return whether it may be among what the log can't read any more.

        Args:
            lost: these numbers, by stream.

        """
        numbers = lost.get(self._stream)
        return numbers is not None and self._in_log_from <= numbers.last
