"""Choice of a gateway's newest record, where what is saved knows a life that no log knows.

A gateway whose disk was lost draws an epoch, which may be below that of its latest life. It hears
of that life from whoever has a batch of it, and starts again behind it. Nobody has one where the
logs have lost them; records are saved beside the log, and outlive that. Such a record would be
taken for newer than all that the gateway says from then on: it would get nothing that it wants, and
be looked for where it was.

So a record of a life of which the log knows nothing gives way to one of the life in which the
gateway is in reach. Of any other life it does not: what comes late of an earlier one is older.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, Protocol, TypeVar

from tree_handler.batch import CONTROL_PREFIX, Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.epochs_over import is_over


class RecordOfLife(Protocol):
    """A record of a gateway in one of its lives."""

    @property
    def epoch(self) -> int:
        """Its boot epoch."""

    @property
    def version(self) -> int:
        """One higher at each change within an epoch."""


Record = TypeVar("Record", bound=RecordOfLife)


class NewestRecords(Generic[Record]):
    """Decides between records of two lives of a gateway.

    Args:
        have: what the log covers, by stream.
        epoch_of: in which life a gateway is in reach; None if it is not.

    """

    def __init__(
        self, have: Mapping[Epoch, Intervals], epoch_of: Callable[[str], int | None]
    ) -> None:
        self._have = have
        self._epoch_of = epoch_of
        self._refused: dict[str, Record] = {}
        """Of gateways whose known record is of a life that no log knows, the last that came."""

    def takes_place(self, gateway_id: str, known_epoch: int, record: Record) -> bool:
        """Return whether a record takes the place of one whose epoch is later.

        One that does not may do so when its gateway comes into reach: see `refused_of`.

        Args:
            gateway_id: whose they are.
            known_epoch: of the one that is known.
            record: the one that has come.

        """
        is_earlier = record.epoch < known_epoch
        if not is_earlier or self._is_in_log(gateway_id, known_epoch):
            self._refused.pop(gateway_id, None)
            return False
        if self._epoch_of(gateway_id) == record.epoch:
            self._refused.pop(gateway_id, None)
            return True
        before = self._refused.get(gateway_id)
        if before is None or (before.epoch, before.version) < (record.epoch, record.version):
            self._refused[gateway_id] = record
        return False

    def refused_of(self, gateways: Collection[str]) -> list[Record]:
        """Return what was refused of gateways that have come into reach, or are on another way."""
        return [record for one, record in self._refused.items() if one in gateways]

    def forget(self, gateway_id: str) -> None:
        """A gateway is gone for good."""
        self._refused.pop(gateway_id, None)

    def _is_in_log(self, gateway_id: str, epoch: int) -> bool:
        stream = (CONTROL_PREFIX + gateway_id, epoch)
        numbers = self._have.get(stream)
        return (numbers is not None and len(numbers) > 0) or is_over(self._have, stream)
