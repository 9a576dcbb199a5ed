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

    __slots__ = ("_is_found", "record")

    def __init__(self) -> None:
        self.record: SessionRecord | None = None
        self._is_found: dict[int, bool] = {}  # empty it takes 64 bytes, where a set takes 216
        """For each of them, whether a restart has found it."""

    def __len__(self) -> int:
        return len(self._is_found)

    def __contains__(self, packet_id: int) -> bool:
        return packet_id in self._is_found

    def __iter__(self) -> Iterator[int]:
        return iter(self._is_found)

    def restore(self, packet_ids: Iterable[int]) -> None:
        """Take up what a restart has found: these messages had come."""
        for packet_id in packet_ids:
            self._is_found[packet_id] = True

    def is_known(self, packet_id: int, *, is_again: bool) -> bool:
        """Return whether a PUBLISH is of a message that has come before.

        Args:
            packet_id: its identifier.
            is_again: whether it says that it comes again (DUP).

        """
        is_found = self._is_found.get(packet_id)
        return is_found is not None and (is_again or not is_found)

    def begin(self, packet_id: int, unreleased_max: int, *, is_again: bool) -> bool:
        """Begin an exchange, and return whether it is new; the journal is told with its batch.

        Args:
            packet_id: the message's identifier.
            unreleased_max: so many may be unreleased.
            is_again: whether the PUBLISH says that it comes again (DUP).

        Raises:
            PacketError: it would be one more than may be unreleased.

        """
        is_found = self._is_found
        if packet_id in is_found:
            if self.is_known(packet_id, is_again=is_again):
                return False
        elif len(is_found) >= unreleased_max:
            reason = ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
            raise PacketError(reason, "unreleased messages", len(is_found))
        is_found[packet_id] = False
        return True

    def release(self, packet_id: int) -> bool:
        """End the exchange; return whether there was one."""
        if packet_id not in self._is_found:
            return False
        self.forget(packet_id)
        if self.record is not None:
            self.record.note(Operation.RELEASED, packet_id)
        return True

    def refuse(self, packet_id: int) -> None:
        """The log did not take the message."""
        if self.record is not None and packet_id in self._is_found:
            self.record.note_only(Operation.RELEASED, packet_id)
        self.forget(packet_id)

    def forget(self, packet_id: int) -> None:
        """There is no such message, and the journal knows of none."""
        self._is_found.pop(packet_id, None)

    def clear(self) -> None:
        """The session ends."""
        self._is_found.clear()
