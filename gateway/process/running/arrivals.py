"""Arrivals from other gateways: their words and their clients' messages come to their receivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from gateway.broker.data_plane import DataPlane
from gateway.process.running.readings import Readings
from gateway.trust.policy.origins import OriginRights, OriginRules
from tree_handler.batch import Entry, Header, Row
from tree_handler.errors import ProtocolError

SAYS_NOTHING: Final = "message between gateways that says nothing"
"""The name of the count of messages that can't be read, or are not their origin's to say."""
TOPIC_CHARACTERS: Final = 80
"""Of a topic that are told."""

Hear = Callable[[Entry, Header], None]
"""Takes a message between gateways, with the header of its batch."""


class BatchReader(Protocol):
    """Has the messages of other gateways' clients."""

    def take(self, rows: list[Row], header: Header) -> None:
        """Take messages that follow each other in the log of their origin, the batch's last."""

    def reads_unlogged(self) -> bool:
        """Return whether a message of QoS 0 would be handed to anybody now."""


class LocalReaders:
    """The clients and sensors of this gateway.

    Args:
        core: has the clients.
        readings: has sensors that listen, and actuators that must not act on what has expired.
        origins: decides what another gateway may tell them.

    """

    def __init__(self, core: DataPlane, readings: Readings, origins: OriginRules) -> None:
        self._core = core
        self._readings = readings
        self._origins = origins

    def take(self, rows: list[Row], header: Header) -> None:
        """Give the messages to all who are to have them."""
        stream, remote = header.stream, self._core.remote_delivery
        new = remote.publish_batch(rows, stream, header.last if header.logged else 0)
        if self._readings.is_listening:  # nothing is carried out again because the log had lost it
            voice = OriginRights(header.origin, self._origins)
            self._readings.hear(remote.in_time(new, stream), voice)

    def reads_unlogged(self) -> bool:
        """Return whether anybody has a subscription."""
        return len(self._core.subscriptions) > 0 or self._readings.is_listening


class NodeArrivals:
    """Hands on what a node takes from its links.

    The node is there before those who are to have it; nothing comes before links are up.

    Args:
        refused: takes the kind of what is refused, and which it is.

    """

    def __init__(self, refused: Callable[[str, str], None]) -> None:
        self._refused = refused
        self._hear: list[Hear] = []
        self._readers: list[BatchReader] = []

    def tell(self, *hear: Hear) -> None:
        """Have these hear of messages between gateways, after those who do already."""
        self._hear += hear

    def give(self, reader: BatchReader) -> None:
        """Have this one read what clients published, after those who do already."""
        self._readers.append(reader)

    def control(self, entry: Entry, header: Header) -> None:
        """Take a message between gateways; one that says nothing is counted, its link stays.

        Whoever made it may be of an earlier version, and whoever handed it over has only passed it
        on.
        """
        try:
            for hear in self._hear:
                hear(entry, header)
        except ProtocolError as error:
            what = f"{header.origin}: {entry.topic[:TOPIC_CHARACTERS]!r}: {error}"
            self._refused(SAYS_NOTHING, what)

    def deliver(self, rows: list[Row], header: Header) -> None:
        """Take messages of a batch that are in their order; see `BatchReader`."""
        for reader in self._readers:
            reader.take(rows, header)

    def reads_unlogged(self) -> bool:
        """Return whether a message of QoS 0 would be handed to anybody now."""
        return any(reader.reads_unlogged() for reader in self._readers)
