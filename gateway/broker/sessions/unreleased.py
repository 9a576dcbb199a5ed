"""The QoS 2 messages of one client that it has not released.

From a client, an identifier stands for one message from its PUBLISH until its PUBREL; a PUBLISH in
between is the same message again [MQTT-4.3.3-10].

A restart finds identifiers in the log whose exchanges may be over: a sync failed, the client was
told with its PUBREC that the message is refused, and the disk took no note of that any more. Such a
client uses the identifier again, for another message. That one does not say that it comes again, as
it must if it did [MQTT-3.3.1-1].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.broker.durability.journal import Operation, SessionRecord
from gateway.mqtt import PacketError, ReasonCode


class UnreleasedIdentifiers:
    """The packet identifiers of such messages, over all connections of the client.

    Attributes:
        record: the session's side of the journal; None unless it is to outlive a crash.

    """

    __slots__ = ("_found", "_packet_ids", "record")

    def __init__(self) -> None:
        self.record: SessionRecord | None = None
        self._packet_ids: set[int] = set()
        self._found: set[int] = set()
        """Those of them that a restart has found."""

    def __len__(self) -> int:
        return len(self._packet_ids)

    def __contains__(self, packet_id: int) -> bool:
        return packet_id in self._packet_ids

    def __iter__(self) -> Iterator[int]:
        return iter(self._packet_ids)

    def restore(self, packet_ids: Iterable[int]) -> None:
        """Take up what a restart has found: these messages had come."""
        for packet_id in packet_ids:
            self._packet_ids.add(packet_id)
            self._found.add(packet_id)

    def is_known(self, packet_id: int, *, is_again: bool) -> bool:
        """Return whether a PUBLISH is of a message that has come before.

        Args:
            packet_id: its identifier.
            is_again: whether it says that it comes again (DUP).

        """
        return packet_id in self._packet_ids and (is_again or packet_id not in self._found)

    def begin(self, packet_id: int, unreleased_max: int, *, is_again: bool) -> bool:
        """Begin an exchange, and return whether it is new; the journal is told with its batch.

        Args:
            packet_id: the message's identifier.
            unreleased_max: so many may be unreleased.
            is_again: whether the PUBLISH says that it comes again (DUP).

        Raises:
            PacketError: it would be one more than may be unreleased.

        """
        packet_ids = self._packet_ids
        if packet_id in packet_ids:
            if self.is_known(packet_id, is_again=is_again):
                return False
            self._found.discard(packet_id)
            return True
        if len(packet_ids) >= unreleased_max:
            reason = ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
            raise PacketError(reason, "unreleased messages", len(packet_ids))
        packet_ids.add(packet_id)
        return True

    def release(self, packet_id: int) -> bool:
        """End the exchange; return whether there was one."""
        if packet_id not in self._packet_ids:
            return False
        self.forget(packet_id)
        if self.record is not None:
            self.record.note(Operation.RELEASED, packet_id)
        return True

    def refuse(self, packet_id: int) -> None:
        """The log did not take the message."""
        if self.record is not None and packet_id in self._packet_ids:
            self.record.note_only(Operation.RELEASED, packet_id)
        self.forget(packet_id)

    def forget(self, packet_id: int) -> None:
        """There is no such message, and the journal knows of none."""
        self._packet_ids.discard(packet_id)
        self._found.discard(packet_id)

    def clear(self) -> None:
        """The session ends."""
        self._packet_ids.clear()
        self._found.clear()
