"""The QoS 2 messages of one client that it has not released.

From a client, an identifier stands for one message from its PUBLISH until its PUBREL; a PUBLISH in
between is the same message again [MQTT-4.3.3-10].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.broker.durability.journal import Operation, SessionRecord
from gateway.mqtt import PacketError, ReasonCode


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

    def restore(self, packet_ids: Iterable[int]) -> None:
        """These messages had come."""
        self._packet_ids.update(packet_ids)

    def begin(self, packet_id: int, unreleased_max: int) -> bool:
        """A message has come; whether it is new. The journal is told with its batch.

        Raises:
            PacketError: it would be one more than may be unreleased.

        """
        packet_ids = self._packet_ids
        if packet_id in packet_ids:
            return False
        if len(packet_ids) >= unreleased_max:
            reason = ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
            raise PacketError(reason, "unreleased messages", len(packet_ids))
        packet_ids.add(packet_id)
        return True

    def release(self, packet_id: int) -> bool:
        """The exchange ends; whether there was one."""
        if packet_id not in self._packet_ids:
            return False
        self._packet_ids.remove(packet_id)
        if self.record is not None:
            self.record.note(Operation.RELEASED, packet_id)
        return True

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
