"""The receivers of an origin's own messages, where its log has lost who wanted them.

At a start the records in the log say again who wanted what when a message was accepted. Where a
part of the log can't be read, records may have stood there: then the messages behind it, and those
that are accepted until neighbours have told all that they have, are for everybody, as in the mode
``flood``: also for a gateway that is met later, as long as the log has them. So are messages that
the log has lost, if it was not kept elsewhere for whom they were: each gateway that has not heard
what became of them is told that they are lost. What is saved of accounts stays as it was saved
until the origin is sure: a start before that reads the log again from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.routing.accounts import Accounts

LOOK_S: Final = 1.0
"""So often an origin that is not sure looks whether its neighbours have told all."""


class Recollection:
    """A reader of the origin's own messages in its log at a start.

    Args:
        accounts: what the origin owes.

    Attributes:
        is_unsure: whether records may be missing here, so that messages are for everybody.
        log_is_read: whether all of the log that can be read was read. Until then what neighbours
            tell does not make an origin sure: the log covers what it has not told.

    """

    def __init__(self, accounts: Accounts) -> None:
        self.is_unsure = False
        self.log_is_read = True
        self._accounts = accounts
        self._look_at = math.inf
        self._read: dict[int, Intervals] = {}
        self._leaving: dict[int, Intervals] = {}
        """Of those that were read the ones that may leave this gateway."""

    def read(self, header: Header) -> None:
        """A batch of the origin's own clients stands in the log; a note of what is lost is none."""
        self._read.setdefault(header.epoch, Intervals()).add(header.first, header.last)
        if not header.local:
            self._leaving.setdefault(header.epoch, Intervals()).add(header.first, header.last)

    def all_read(
        self,
        have: Mapping[Epoch, Intervals],
        kept_from: Mapping[Epoch, int],
        others: Iterable[str],
        now: float,
        *,
        is_whole: bool,
    ) -> None:
        """The log was read from the place on up to which accounts were saved.

        Args:
            have: what the log covers, by stream.
            kept_from: the lowest number that it still holds, by stream.
            others: the gateways that are known.
            now: monotonic time in seconds.
            is_whole: whether nothing is missing from that place on.

        """
        known = sorted(others)
        for stream, numbers in have.items():
            origin, epoch = stream
            if origin != self._accounts.origin or epoch == self._accounts.epoch:
                continue
            first = max(self._accounts.saved_up_to(epoch) + 1, kept_from.get(stream, 1))
            if first > numbers.last:
                continue
            unknown = Intervals([(first, numbers.last)]).without(self._read.get(epoch, _NOTHING))
            if not is_whole:
                unknown.update(self._leaving.get(epoch, _NOTHING))
                self._accounts.for_everybody(epoch, unknown)
            if len(unknown):
                self._accounts.owe(epoch, unknown, known, now)
        self._read.clear()
        self._leaving.clear()
        if not is_whole:
            self.is_unsure = True
            self._look_at = -math.inf

    @property
    def due_at(self) -> float:
        """Return when `look` is due; infinity if the origin is sure."""
        return self._look_at

    def look(self, now: float, *, has_been_told_all: bool) -> None:
        """Be sure from now on, if neighbours have told all that they have."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        if has_been_told_all and self.log_is_read:
            self.is_unsure = False
            self._look_at = math.inf


_NOTHING = Intervals()
