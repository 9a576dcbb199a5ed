"""Versions that neighbours told and the log is to bring, and those taken before it gave them up."""

from __future__ import annotations

from collections.abc import Iterator

from tree_handler.batch import Epoch
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.sync_state import Log, PutOff, RetainedSource

PATIENCE_S = 10.0
"""The log is left to bring what is on its way for so long."""
PUT_OFF_MAX = 10_000
"""Messages left to the log that are remembered."""


class LeftToLog:
    """The messages of one gateway that wait for its log; see `retained.sync`.

    Args:
        store: its retained messages.
        log: what replication knows.

    """

    def __init__(self, store: RetainedSource, log: Log) -> None:
        self._store = store
        self._versions = store.versions
        self._log = log
        self._put_off: dict[str, PutOff] = {}
        self._silent: dict[str, tuple[Epoch, int, RetainedVersion]] = {}
        """The versions that were taken without telling subscribers."""

    def clear(self) -> None:
        """Forget who told what: there is no neighbour any more."""
        self._put_off.clear()

    def is_left(self, retained: Retained) -> bool:
        """Return whether a message that was told is still left to the log."""
        waited = self._put_off.get(retained.topic)
        is_overdue = waited is not None and waited.is_overdue
        return not is_overdue and self._may_come(retained.stream, retained.number)

    def leave(self, retained: Retained, link: int, now: float) -> bool:
        """Leave it to the log to bring a message; return whether it was not left before."""
        if retained.topic in self._put_off or len(self._put_off) >= PUT_OFF_MAX:
            return False
        stream, number = retained.stream, retained.number
        self._put_off[retained.topic] = PutOff(link, stream, number, retained.version, now)
        return True

    def took(self, retained: Retained) -> None:
        """Note that a message was taken and that subscribers were not told."""
        if len(self._silent) < PUT_OFF_MAX:
            self._silent[retained.topic] = (retained.stream, retained.number, retained.version)

    def look_again(self, now: float) -> Iterator[int]:
        """Announce what the log gave up; yield the links over which to ask again for what was left
        to it and does not come by it."""
        for topic, (stream, number, version) in list(self._silent.items()):
            if self._versions.version(topic) != version:
                del self._silent[topic]
            elif number <= self._log.handed_out(stream):
                del self._silent[topic]
                self._store.announce(topic, now)
        for topic, one in list(self._put_off.items()):
            if one.is_overdue or not self._versions.is_news(topic, one.version):
                del self._put_off[topic]
            elif not self._may_come(one.stream, one.number):
                del self._put_off[topic]
                yield one.link
            elif now - one.since >= PATIENCE_S:
                one.is_overdue = True
                yield one.link

    def _may_come(self, stream: Epoch, number: int) -> bool:
        return number > self._log.handed_out(stream) and self._log.may_come(stream, number)
