"""Which record of a gateway is its newest, where what is saved knows a life that no log knows.

A gateway whose disk was lost draws an epoch, which may be below that of its latest life. It hears
of that life from whoever has a batch of it, and starts again behind it. Nobody has one where the
logs have lost them; records are saved beside the log, and outlive that. Such a record would be
taken for newer than all that the gateway says from then on, and it would get nothing that it wants.

So a record of a life of which the log knows nothing gives way to one of the life in which the
gateway is in reach. Of any other life it does not: what comes late of an earlier one is older.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tree_handler.batch import CONTROL_PREFIX, Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.epochs_over import is_over
from tree_handler.routing.interest import Interest, Interests
from tree_handler.routing.locator import Locator


class NewestRecords:
    """Takes the records of gateways in, each if it is its newest.

    Args:
        interests: the records.
        have: what the log covers, by stream.
        locator: in which life each gateway is in reach.

    """

    def __init__(
        self, interests: Interests, have: Mapping[Epoch, Intervals], locator: Locator
    ) -> None:
        self._interests = interests
        self._have = have
        self._locator = locator
        self._refused: dict[str, Interest] = {}
        """Of gateways whose known record is of a life that no log knows, the last that came."""

    def update(self, record: Interest) -> Interest | None:
        """Take a record in; see `Interests.update`."""
        gateway_id = record.gateway_id
        known = self._interests.get(gateway_id)
        if known is None or record.epoch >= known.epoch or self._is_in_log(known):
            self._refused.pop(gateway_id, None)
            return self._interests.update(record)
        if self._locator.epoch_of(gateway_id) == record.epoch:
            self._refused.pop(gateway_id, None)
            return self._interests.replace(record)
        refused = self._refused.get(gateway_id)
        if refused is None or refused.age < record.age:
            self._refused[gateway_id] = record
        return None

    def refused_of(self, gateways: Iterable[str]) -> list[Interest]:
        """Return what was refused of gateways that are in another life, or on another way, now."""
        return [self._refused[one] for one in gateways if one in self._refused]

    def forget(self, gateway_id: str) -> None:
        """A gateway is gone for good."""
        self._refused.pop(gateway_id, None)

    def _is_in_log(self, record: Interest) -> bool:
        stream = (CONTROL_PREFIX + record.gateway_id, record.epoch)
        numbers = self._have.get(stream)
        return (numbers is not None and len(numbers) > 0) or is_over(self._have, stream)
