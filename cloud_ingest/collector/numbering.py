"""Batches of messages whose origin is the collector itself: one life's numbers, without gaps."""

from __future__ import annotations

from collections.abc import Sequence

from tree_handler import batch
from tree_handler.batch import Flags, Header, Row


class BatchNumbering:
    """Gives a life's messages their numbers, from 1 on.

    Args:
        origin: the collector's id.
        epoch: of this life, which no earlier one had.

    """

    def __init__(self, origin: str, epoch: int) -> None:
        self._origin = origin
        self._epoch = epoch
        self._next = 1

    def make(self, rows: Sequence[Row], now_us: int) -> tuple[bytes, Header]:
        """Return a batch of the first of these messages, as many as one may hold.

        It takes no numbers until it is in the spool: say so by `took`.

        Args:
            rows: one or more.
            now_us: the wall clock, microseconds since 1970.

        """
        part = batch.cut(rows[: batch.MAX_ENTRIES])[0]
        return batch.make(
            self._origin,
            self._epoch,
            self._next,
            part,
            flags=Flags.LOGGED,
            origin_time_us=now_us,
        )

    def took(self, header: Header) -> None:
        """The spool has this batch."""
        self._next = header.last + 1
