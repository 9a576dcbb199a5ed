"""Window of a link: so little is under way that a hello behind it comes in time.

The neighbour acknowledges bytes once it has dealt with them, so what is under way lies in this
machine, in the network or unread over there, and all of it is in a hello's way. As LEDBAT does (RFC
6817), the window follows the delay: it grows while acknowledgements come soon, and when they come
later than without a queue by more than a target, it is what was delivered in that time. So the
queue in the network is the same short time on every line, and is none of the kernel's. Sans-I/O.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from tree_handler.errors import ProtocolError

MIN_BYTES: Final = 32 * 1024
START_BYTES: Final = 64 * 1024
MAX_BYTES: Final = 4 << 20
TARGET_S: Final = 0.2
"""So long may data wait on the way, on top of the time that it takes."""
ACKNOWLEDGE_BYTES: Final = 16 * 1024
"""The receiving end acknowledges when it has dealt with so many; less than `MIN_BYTES`."""
_MARK_BYTES: Final = 8 * 1024


class Window:
    """The flow-control window of one end of a link.

    Attributes:
        size: bytes that may be under way.
        sent: bytes sent since the link began.
        acknowledged: those of them that the neighbour has dealt with.

    """

    __slots__ = ("_base_s", "_marks", "acknowledged", "sent", "size")

    def __init__(self) -> None:
        self.size = START_BYTES
        self.sent = 0
        self.acknowledged = 0
        self._base_s = math.inf
        # Up to where was sent, when, and what was acknowledged then.
        self._marks: deque[tuple[int, float, int]] = deque()

    @property
    def under_way(self) -> int:
        """Bytes that are sent and not acknowledged."""
        return self.sent - self.acknowledged

    def has_sent(self, size: int, now: float) -> None:
        """So many more bytes are sent."""
        self.sent += size
        if not self._marks or self.sent - self._marks[-1][0] >= _MARK_BYTES:
            self._marks.append((self.sent, now, self.acknowledged))

    def acknowledge(self, total: int, now: float) -> None:
        """The neighbour has dealt with so many bytes since the link began.

        Raises:
            ProtocolError: it can't have.

        """
        if not self.acknowledged <= total <= self.sent:
            raise ProtocolError("acknowledgement on a link", total)
        was_in_use = self.under_way + ACKNOWLEDGE_BYTES >= self.size
        newly, self.acknowledged = total - self.acknowledged, total
        mark = None
        while self._marks and self._marks[0][0] <= total:
            mark = self._marks.popleft()
        if self._marks and (mark is None or mark[0] < total):
            mark = self._marks[0]  # the last byte that is acknowledged was sent no later
        if mark is None:
            return
        delay_s = now - mark[1]
        if self.size == MIN_BYTES:
            self._base_s = delay_s  # with so little under way, a delay is the line's
        self._base_s = min(self._base_s, delay_s)
        if delay_s > self._base_s + TARGET_S:
            delivered = (total - mark[2]) / delay_s * (self._base_s + TARGET_S)
            self.size = max(MIN_BYTES, min(self.size, int(delivered)))
        elif was_in_use and delay_s < self._base_s + TARGET_S / 2:
            self.size = min(self.size + newly, MAX_BYTES)
