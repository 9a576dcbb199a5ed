"""Retained messages of a simulated gateway, on its disk and in one life."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import field, replace

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.tombstones import Tombstone
from tree_handler.retained.versions import RetainedVersions
from tree_handler.simulation.disk import Disk

LOG_BATCHES = 20
"""A log is trimmed to so many batches."""


@dataclass(slots=True)
class RetainedDisk(Disk):
    """The content of a disk, retained messages included.

    Attributes:
        messages: content and place of each topic's message, by topic.
        graves: tombstones and their ages, as of the last write to the disk.
        written: versions of this gateway's own writes that are on this disk, by topic.
        news: numbers that clients were given as news, by stream.
        given: numbers that clients were given from the log; `handed` has also what never comes.
        lost_epoch: what this gateway wrote up to this boot epoch was on a disk that is lost.

    """

    messages: dict[str, Retained] = field(default_factory=dict)
    graves: dict[str, Retained] = field(default_factory=dict)
    most_batches: float = LOG_BATCHES
    written: dict[str, RetainedVersion] = field(default_factory=dict)
    news: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    given: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    lost_epoch: int = -1


class RetainedStore:
    """The retained messages of one life: a `tree_handler.retained.sync_state.RetainedSource`.

    Args:
        disk: where their content is.
        is_told: called with what clients are given because a neighbour told of it.
        now: the time by the gateway's clock.
        own_id: whose it is.

    """

    def __init__(
        self,
        disk: RetainedDisk,
        is_told: Callable[[Retained], None],
        now: float,
        own_id: str = "",
    ) -> None:
        self._disk = disk
        self._is_told = is_told
        self._versions = RetainedVersions(own_id=own_id)
        self._silent: dict[str, Retained] = {}
        for topic, told in disk.messages.items():
            self._versions.set(topic, told.version, told.proof)
        for topic, told in disk.graves.items():
            self._versions.bury(topic, _grave(told, now), now, told.proof)

    @property
    def versions(self) -> RetainedVersions:
        """Return the versions of retained messages."""
        return self._versions

    def told(self, topic: str, now: float) -> Retained | None:
        """Return the message of a topic, or its tombstone with its age."""
        grave = self._versions.tombstone(topic)
        if grave is None:
            return self._disk.messages.get(topic)
        return replace(self._disk.graves[topic], dead_s=now - grave.since_s)

    def may_speak(self, retained: Retained) -> bool:
        """Return True: everybody may have anything retained."""
        return True

    def learn(self, retained: Retained, now: float, *, is_news: bool) -> bool:
        """Keep a neighbour's retained message; clients are told of it at once, or later."""
        had = retained.topic in self._disk.messages
        # It crosses a link: whatever can't be written there can't be read either.
        if self.take(Retained.of(retained.proven_row()), now) and (retained.payload or had):
            if is_news:
                self._is_told(retained)
            else:
                self._silent[retained.topic] = retained
        return True

    def announce(self, topic: str, now: float) -> None:
        """Tell clients of a message that was kept without a word."""
        told = self._silent.pop(topic, None)
        if told is not None:
            self._is_told(told)

    def has_come(self, topic: str, version: RetainedVersion) -> None:
        """The log has brought this."""
        told = self._silent.get(topic)
        if told is not None and version >= told.version:
            del self._silent[topic]

    def take(self, told: Retained, now: float) -> bool:
        """Retain a message if it is newer, and return whether it was."""
        topic = told.topic
        if told.dead_s is None:
            if not self._versions.set(topic, told.version, told.proof):
                return False
            self._disk.graves.pop(topic, None)
            self._disk.messages[topic] = told
        else:
            if not self._versions.bury(topic, _grave(told, now), now, told.proof):
                return False
            self._disk.messages.pop(topic, None)
            self._disk.graves[topic] = told
        return True


def _grave(told: Retained, now: float) -> Tombstone:
    return Tombstone(told.version, told.number, told.qos, now - (told.dead_s or 0.0))
