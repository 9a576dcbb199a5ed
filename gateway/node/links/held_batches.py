"""Arrival times of batches behind a gap of their origin: message expiry counts meanwhile.

The log has such a batch as its origin made it, and so have all gateways. What it waited here is
taken off where its messages are handed out [MQTT-3.3.2-6].
"""

from __future__ import annotations

from typing import Final

from gateway.mqtt import PropertyId
from tree_handler.batch import Epoch, Header, Row
from tree_handler.clock_readings import surely_passed
from tree_handler.entry import accepted_at, accepted_us

MAX_HELD: Final = 10_000
"""Batches whose time is known. Beyond it all times are forgotten, so that messages expire late."""
_EXPIRY: Final = int(PropertyId.MESSAGE_EXPIRY_INTERVAL)


class HeldBatches:
    """The batches of one gateway that wait. After a restart they count from then on."""

    def __init__(self) -> None:
        self._came: dict[tuple[Epoch, int], float] = {}

    def __len__(self) -> int:
        return len(self._came)

    def wait(self, header: Header, now: float) -> None:
        """A batch has come and can't be handed out yet."""
        if len(self._came) >= MAX_HELD:
            self._came.clear()
        self._came.setdefault((header.stream, header.first), now)

    def handed_out(self, header: Header, rows: list[Row], now: float) -> None:
        """A batch's turn has come: take what it waited off its messages' expiry.

        One that is stamped counts as accepted so much later: what it has waited in all is counted
        by its stamp, and this is a part of that. By this clock the origin's is known from below.
        """
        came = self._came.pop((header.stream, header.first), None)
        waited_s = 0 if came is None else int(now - came)
        surely_s = surely_passed(waited_s * 1_000_000) // 1_000_000
        for at, row in enumerate(rows) if waited_s > 0 else ():
            if len(row) > 3 and isinstance(expiry_s := row[3].get(_EXPIRY), int):
                stamp_us = accepted_us(row)
                row[3][_EXPIRY] = max(0, expiry_s - (surely_s if stamp_us else waited_s))
                if stamp_us:
                    rows[at] = accepted_at(row, stamp_us + surely_s * 1_000_000)
