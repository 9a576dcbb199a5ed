"""The QoS 2 messages of one client that it has not released.

From a client, an identifier stands for one message from its PUBLISH until its PUBREL; a PUBLISH in
between is the same message again [MQTT-4.3.3-10].
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.broker.durability.journal import Operation, SessionRecord


class Unreleased:
    """The packet identifiers of such messages, over all connections of the client.

    Attributes:
        record: the session's side of the journal; None unless it is to outlive a crash.

    """

    __slots__ = ("_packet_ids", "record")

    def __init__(self) -> None:
        self.record: SessionRecord | None = None
        self._packet_ids: set[int] = set()

    def __len__(self) -> int:
        return len(self._packet_ids)

    def __contains__(self, packet_id: int) -> bool:
        return packet_id in self._packet_ids

    def __iter__(self) -> Iterator[int]:
        return iter(self._packet_ids)

    def add(self, *packet_ids: int) -> None:
        """Messages have come; the journal is told with the batch that they are in."""
        self._packet_ids.update(packet_ids)

    def release(self, packet_id: int) -> None:
        """The exchange ends."""
        if self.record is not None and packet_id in self._packet_ids:
            self.record.note(Operation.RELEASED, packet_id)
        self.forget(packet_id)

    def refuse(self, packet_id: int) -> None:
        """The log did not take the message."""
        if self.record is not None and packet_id in self._packet_ids:
            self.record.refused(packet_id)
        self.forget(packet_id)

    def forget(self, packet_id: int) -> None:
        """There is no such message, and the journal knows of none."""
        self._packet_ids.discard(packet_id)

    def clear(self) -> None:
        """The session ends."""
        self._packet_ids.clear()
