"""Messages on their way to one client, and those that wait to be sent.

What is stated here and nowhere else is the exchange of QoS 1 and 2 towards a client (MQTT 5.0 and
3.1.1, section 4.3), each packet identifier for itself:

    ============  =======  ================  ================  ========  ===============
    state         PUBACK   PUBREC, success   PUBREC, failure   PUBCOMP   on reconnect
    ============  =======  ================  ================  ========  ===============
    QoS 1 sent    free     error             error             error     PUBLISH, DUP
    QoS 2 sent    error    released, PUBREL  free              error     PUBLISH, DUP
    released      error    PUBREL again      free              free      PUBREL
    free          -        PUBREL            -                 -         -
    ============  =======  ================  ================  ========  ===============

An answer of the wrong kind is an error of the protocol, for the identifier would stay taken for
ever. It changes nothing: the message is sent again to the client's next connection. An answer to
what was never sent changes nothing either, and is none.

Messages leave in the order in which they came [MQTT-4.6.0-6]: nothing overtakes the queue, and
what is sent again after a reconnect comes before it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from gateway.broker.durability.journal import Operation, SessionRecord
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.message import DUP, IN_PACKET, Message
from gateway.broker.sessions.backlog import Backlog, QueuedDelivery
from gateway.broker.sessions.places import Places
from gateway.broker.sessions.queue_log import QueueLog
from gateway.mqtt import PacketError, ReasonCode, Version
from tree_handler.batch import Ref

PACKET_ID_MAX: Final = 65_535
PUBREL: Final = 0x62


_UNKNOWN = object()
_packed_id = Struct(">H").pack


class InFlight:
    """The exchange of QoS 1 and 2 towards one client, over all its connections.

    Args:
        version: of the protocol that the client speaks.
        limits: of windows and queues.
        budget: of all queues together.
        log: from which what waits is read; None where there is none.

    Attributes:
        backlog: what waits.
        inflight: sent and not acknowledged to the end, by packet identifier; None once released.
        inflight_bytes: size of those messages.
        last_packet_id: the last that was used.
        record: the session's side of the journal; None unless it is to outlive a crash.

    """

    __slots__ = (
        "_inflight_bytes_max",
        "_limits",
        "_open",
        "_packet_bytes_max",
        "_unsent",
        "_version",
        "_window",
        "backlog",
        "inflight",
        "inflight_bytes",
        "last_packet_id",
        "record",
    )

    def __init__(
        self, version: int, limits: Limits, budget: Budget, log: QueueLog | None = None
    ) -> None:
        self.backlog = Backlog(limits, budget, log)
        self.record: SessionRecord | None = None
        self._limits = limits
        self._version = version
        self._open = False
        self._window = 0
        self._packet_bytes_max: int | None = None
        self.last_packet_id = 0
        self.inflight: dict[int, QueuedDelivery | None] = {}
        self.inflight_bytes = 0
        self._inflight_bytes_max = limits.inflight_bytes
        self._unsent: list[int] = []  # an empty deque would take 760 bytes of each session
        """Identifiers in flight that this connection has not been sent yet, the next one last."""

    # -- what is asked of it -------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Return whether anything waits to be sent as soon as there is room."""
        return bool(self.backlog.count or self._unsent)

    @property
    def is_owed_any(self) -> bool:
        """Return whether anything waits for the client, or is on its way to it."""
        return bool(self.inflight or self.backlog.count)

    def left_behind(self) -> list[QueuedDelivery | Places]:
        """Return what another may be sent in place of a client that is gone for good, in order.

        Not what it may have had: that is of QoS 2 and was sent [MQTT-4.8.2-5].
        """
        sent = [one for one in self.inflight.values() if one is not None and one[1] & 6 == 2]
        return [*sent, *self.backlog.saved()]

    # -- connections ---------------------------------------------------------------------------

    def begin(
        self, version: int, receive_maximum: int, packet_bytes_max: int | None, now_s: float
    ) -> list[bytes]:
        """Begin on a connection; return what is sent again (MQTT-4.4.0-1)."""
        self._version = version
        self._window = min(receive_maximum, self._limits.inflight_messages)
        self._packet_bytes_max = packet_bytes_max
        self._open = True
        self._unsent = list(reversed(self.inflight))
        return self.send_waiting(now_s)

    def pause(self) -> None:
        """There is no connection any more."""
        self._open = False
        self._unsent.clear()

    def hold(self) -> None:
        """The client does not read: messages wait."""
        self._open = False

    def release(self) -> None:
        """The client reads again; call `send_waiting` next."""
        self._open = True

    def end(self) -> None:
        """Nothing is sent any more; the queue is given back."""
        self.backlog.clear()
        self.inflight.clear()
        self.inflight_bytes = 0
        self._unsent.clear()
        self._open = False

    # -- to the client -------------------------------------------------------------------------

    def submit(
        self,
        message: Message,
        flags: int,
        identifiers: tuple[int, ...],
        now_s: float,
        *,
        retained: bool = False,
    ) -> bytes | None:
        """Send a QoS 1 or 2 message, or let it wait; return the packet that is to be sent now."""
        if (
            not self._open
            or self.backlog.count
            or self._unsent
            or len(self.inflight) >= self._window
            or self.inflight_bytes >= self._inflight_bytes_max
        ):
            self.backlog.add((message, flags, identifiers), retained=retained)
            return None
        return self._send((message, flags, identifiers), now_s)

    def puback(self, packet_id: int) -> None:
        """A QoS 1 message has arrived.

        Raises:
            PacketError: the identifier is 0, or one whose exchange has another answer next; so
                with each of the three.

        """
        delivery = self.inflight.get(packet_id)
        if delivery is not None and delivery[1] & 6 == 2:  # as `_free` does, for each message
            del self.inflight[packet_id]
            self.inflight_bytes -= delivery[0].size_bytes
            if self.record is not None:
                self.record.note_only(Operation.PUBACK, packet_id)
        elif packet_id in self.inflight or not packet_id:
            raise _wrong("PUBACK", packet_id)

    def pubrec(self, packet_id: int, *, failed: bool) -> bool:
        """Note that a QoS 2 message arrived or was refused; return whether its identifier is
        known."""
        inflight = self.inflight
        if packet_id not in inflight:
            if not packet_id:
                raise _wrong("PUBREC", packet_id)
            return False
        delivery = inflight[packet_id]
        if delivery is not None and delivery[1] & 6 != 4:
            raise _wrong("PUBREC", packet_id)
        if failed:  # [MQTT-4.3.3-4]: the identifier is free
            self._free(packet_id, Operation.REFUSED)
        elif delivery is not None:
            self.inflight_bytes -= delivery[0].size_bytes
            inflight[packet_id] = None
            if self.record is not None:
                self.record.note(Operation.PUBREC, packet_id)
        return True

    def pubcomp(self, packet_id: int) -> None:
        """The exchange of a QoS 2 message is complete."""
        if self.inflight.get(packet_id, _UNKNOWN) is None:
            self._free(packet_id, Operation.PUBCOMP)
        elif packet_id in self.inflight or not packet_id:
            raise _wrong("PUBCOMP", packet_id)

    def _free(self, packet_id: int, operation: Operation) -> None:
        """The exchange is over, and the identifier is free."""
        delivery = self.inflight.pop(packet_id)
        if delivery is not None:
            self.inflight_bytes -= delivery[0].size_bytes
        if self.record is not None:
            self.record.note(operation, packet_id)

    def send_waiting(self, now_s: float) -> list[bytes]:
        """Return what may be sent now: first what is sent again, then the queue."""
        packets: list[bytes] = []
        if not self._open:
            return packets
        sent = len(self.inflight) - len(self._unsent)
        while self._unsent and sent < self._window:
            packet_id = self._unsent.pop()
            if packet_id not in self.inflight:
                continue
            packet = self._again(packet_id, now_s)
            if self._packet_bytes_max is not None and len(packet) > self._packet_bytes_max:
                is_qos_1 = packet[0] & 6 == 2  # no PUBREL: that fits whom the CONNACK did
                self._free(packet_id, Operation.PUBACK if is_qos_1 else Operation.REFUSED)
                self.backlog.drop()  # [MQTT-3.1.2-25]
                continue
            packets.append(packet)
            sent += 1
        while (
            not self._unsent
            and len(self.inflight) < self._window
            and self.inflight_bytes < self._inflight_bytes_max
            and (delivery := self.backlog.take(now_s)) is not None
        ):
            if delivery[0].expired(now_s):
                self.backlog.drop()
            elif (fresh := self._send(delivery, now_s)) is not None:
                packets.append(fresh)
        return packets

    # -- after a crash -------------------------------------------------------------------------

    def restore(self, packet_id: int, delivery: QueuedDelivery | None) -> None:
        """A message had been sent under this identifier; None: and released."""
        self.inflight[packet_id] = delivery
        if delivery is not None:
            self.inflight_bytes += delivery[0].size_bytes

    def was_sent(self, packet_id: int, flags: int, ref: Ref, *, is_lost: bool) -> bool:
        """Note that the message which waits under this reference was sent; return whether there is
        one.

        Or was: one that the log no longer has is dropped, and counted; ``is_lost`` if the log had
        lost it by then, though it may have it again. Of QoS 2 the client may have had it, so that
        exchange goes on with PUBREL, to its end.

        Raises:
            OSError: the log can't be read.

        """
        delivery = self.backlog.remove(ref, flags)
        if delivery is None and not (is_lost or self.backlog.is_trimmed(ref)):
            return False
        self.last_packet_id = packet_id
        if delivery is not None or flags & 6 == 4:
            self.restore(packet_id, delivery)
        return True

    def go_on_from(self, number: int) -> None:
        """Take packet identifiers from another place on."""
        self.last_packet_id = number % PACKET_ID_MAX

    def adopt(self, limits: Limits, budget: Budget) -> None:
        """Count what was restored without limits for these from now on."""
        self._limits = limits
        self._inflight_bytes_max = limits.inflight_bytes
        self.backlog.adopt(limits, budget)

    # -- within --------------------------------------------------------------------------------

    def _send(self, delivery: QueuedDelivery, now_s: float) -> bytes | None:
        message, flags, identifiers = delivery
        inflight = self.inflight
        packet_id = self.last_packet_id % PACKET_ID_MAX + 1
        while packet_id in inflight:
            packet_id = packet_id % PACKET_ID_MAX + 1
        if identifiers:
            packet = message.packet(self._version, flags, packet_id, identifiers, now_s)
        else:
            head, tail = message.pieces(self._version << 4 | flags & IN_PACKET, now_s)
            packet = head + _packed_id(packet_id) + tail
        if self._packet_bytes_max is not None and len(packet) > self._packet_bytes_max:
            self.backlog.drop()  # as if it had been sent [MQTT-3.1.2-25]
            return None
        self.last_packet_id = packet_id
        inflight[packet_id] = delivery
        self.inflight_bytes += message.size_bytes
        if self.record is not None:
            self.record.sent(packet_id, flags, message.ref)
        return packet

    def _again(self, packet_id: int, now_s: float) -> bytes:
        delivery = self.inflight[packet_id]
        if delivery is None:
            return b"%c\x02%b" % (PUBREL, packet_id.to_bytes(2, "big"))
        message, flags, identifiers = delivery
        known = identifiers if self._version == Version.V5 else ()
        # [MQTT-3.3.1-1]
        return message.packet(self._version, flags | DUP, packet_id, known, now_s)


def _wrong(packet: str, packet_id: int) -> PacketError:
    if not packet_id:
        what = f"{packet} packet identifier"
        return PacketError(ReasonCode.PROTOCOL_ERROR, what, 0, "MQTT-2.2.1-3")
    what = f"{packet} is not the next answer to the message with packet identifier"
    return PacketError(ReasonCode.PROTOCOL_ERROR, what, packet_id)
