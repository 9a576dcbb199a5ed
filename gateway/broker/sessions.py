"""A client's session: what it subscribed to and the messages on their way to and from it.

A session outlives connections; it knows nothing of sockets. What is stated here and nowhere
else is the exchange for QoS 1 and 2 (MQTT 5.0 and 3.1.1, section 4.3), each packet identifier
for itself. Towards the client:

    ============  =======  ================  ================  ========  ===============
    state         PUBACK   PUBREC, success   PUBREC, failure   PUBCOMP   on reconnect
    ============  =======  ================  ================  ========  ===============
    QoS 1 sent    free     (ignored)         (ignored)         -         PUBLISH, DUP
    QoS 2 sent    -        released, PUBREL  free              -         PUBLISH, DUP
    released      -        PUBREL again      -                 free      PUBREL
    free          -        PUBREL            -                 -         -
    ============  =======  ================  ================  ========  ===============

From the client, QoS 2: an identifier is `incoming` from its PUBLISH until its PUBREL; a PUBLISH
in between is the same message again [MQTT-4.3.3-10].

Messages leave in the order in which they came [MQTT-4.6.0-6]: nothing overtakes the queue, and
what is sent again after a reconnect comes before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from gateway.broker.durability.journal import Operation, Ref, SessionRecord
from gateway.broker.message import DUP, Message
from gateway.broker.packets import PacketError, ReasonCode, Version, Will

if TYPE_CHECKING:
    from gateway.broker.connection import Connection
    from gateway.broker.hooks import Client
    from gateway.broker.limits import Budget, Limits
    from gateway.broker.retained_owed import Owed

PACKET_ID_MAX = 65_535
NEVER_EXPIRES_S = 0xFFFF_FFFF
PUBREL = 0x62
_NEAR_HEAD = 4_096

Delivery = tuple[Message, int, tuple[int, ...]]
"""A message, the flags it is delivered with, and the subscription identifiers."""

Ready = tuple[Delivery, bytes, bytes]
"""A delivery, and what stands before and behind the packet identifier in its packet."""

_UNKNOWN = object()
_packed_id = Struct(">H").pack


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client asked for with a filter (MQTT 5.0, section 3.8.3.1)."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    """0 if there is none."""


class Session:
    """The state of one client.

    Attributes:
        client: who it is, as of its last connection.
        connection: the connection that serves it, or None.
        expiry_s: how long it is kept without a connection.
        away_since_s: when its last connection ended, on the loop's clock.
        ends_at_s: when it ends, on the same; None while connected.
        subscriptions: by filter.
        incoming: QoS 2 identifiers of the client's messages that are not released.
        dropped: messages that found the queue full, or had expired in it.
        no_local: whether it has, or had, a subscription without its own messages.
        owed: what is retained for it and was not sent yet; None if nothing.
        record: its side of the journal; None unless it is to outlive a crash.

    """

    __slots__ = (
        "_budget",
        "_inflight_bytes",
        "_inflight_bytes_max",
        "_limits",
        "_open",
        "_packet_bytes_max",
        "_queued_bytes",
        "_taken",
        "_unsent",
        "_version",
        "_window",
        "away_since_s",
        "client",
        "connection",
        "dropped",
        "ends_at_s",
        "expiry_s",
        "incoming",
        "inflight",
        "last_packet_id",
        "no_local",
        "owed",
        "queue",
        "record",
        "subscriptions",
        "will",
    )

    def __init__(self, client: Client, limits: Limits, budget: Budget) -> None:
        self.client = client
        self.connection: Connection | None = None
        self.expiry_s = 0
        self.away_since_s = 0.0
        self.ends_at_s: float | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.incoming: set[int] = set()
        self.dropped = 0
        self.will: tuple[float, Will] | None = None
        """When it is published, on the loop's clock, unless the client comes back; and what."""
        self.no_local = False
        self.owed: Owed | None = None
        self.record: SessionRecord | None = None
        self._limits = limits
        self._budget = budget
        self._version = client.version
        self._open = False
        self._window = 0
        self._packet_bytes_max: int | None = None
        self.last_packet_id = 0
        """The last that was used towards the client."""
        self.inflight: dict[int, Delivery | None] = {}
        """Sent and not acknowledged to the end, by packet identifier; None once released."""
        self._inflight_bytes = 0
        self._inflight_bytes_max = limits.inflight_bytes
        self._unsent: deque[int] = deque()
        """Identifiers in flight that this connection has not been sent yet."""
        self.queue: deque[Delivery] = deque()
        """What waits."""
        self._queued_bytes = 0
        self._taken = 0

    # -- what is asked of it -------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """The client identifier."""
        return self.client.client_id

    @property
    def inflight_count(self) -> int:
        """Messages sent and not acknowledged to the end."""
        return len(self.inflight)

    @property
    def queued_count(self) -> int:
        """Messages that wait."""
        return len(self.queue)

    @property
    def queue_places(self) -> tuple[int, int]:
        """The places of the first message that waits and of the next to come, counted for ever."""
        return self._taken, self._taken + len(self.queue)

    @property
    def queued_bytes(self) -> int:
        """Their size."""
        return self._queued_bytes

    @property
    def inflight_bytes(self) -> int:
        """Size of the messages sent and not acknowledged."""
        return self._inflight_bytes

    @property
    def is_resending(self) -> bool:
        """Whether what was in flight at the reconnect is still being sent again."""
        return bool(self._unsent)

    @property
    def is_busy(self) -> bool:
        """Whether anything waits to be sent as soon as there is room."""
        return bool(self.queue or self._unsent)

    # -- connections ---------------------------------------------------------------------------

    def attach(
        self, client: Client, receive_maximum: int, packet_bytes_max: int | None, now_s: float
    ) -> list[bytes]:
        """A connection serves it from now on; return what is sent again (MQTT-4.4.0-1)."""
        self.client = client
        self.ends_at_s = None
        self._version = client.version
        self._window = min(receive_maximum, self._limits.inflight_messages)
        self._packet_bytes_max = packet_bytes_max
        self._open = True
        self._unsent = deque(self.inflight)
        return self.send_waiting(now_s)

    def detach(self, since_s: float) -> None:
        """No connection serves it any more, since then."""
        self._open = False
        self._unsent.clear()
        self.away_since_s = since_s
        self.ends_at_s = since_s + self.expiry_s
        if self.expiry_s == NEVER_EXPIRES_S:
            self.ends_at_s = float("inf")

    def hold(self) -> None:
        """The client does not read: messages wait."""
        self._open = False

    def release(self) -> None:
        """The client reads again; call `send_waiting` next."""
        self._open = True

    def end(self) -> None:
        """The session is no more; its queue is given back."""
        self._budget.used_bytes -= self._queued_bytes
        self._queued_bytes = 0
        self.queue.clear()
        self.inflight.clear()
        self._inflight_bytes = 0
        self._unsent.clear()
        self.incoming.clear()
        self._open = False

    # -- to the client -------------------------------------------------------------------------

    def deliver(
        self, message: Message, flags: int, identifiers: tuple[int, ...], now_s: float
    ) -> bytes | None:
        """Send a QoS 1 or 2 message, or let it wait; return the packet that is to be sent now."""
        if (
            self.queue
            or not self._open
            or self._unsent
            or len(self.inflight) >= self._window
            or self._inflight_bytes >= self._inflight_bytes_max
        ):
            self._wait((message, flags, identifiers))
            return None
        return self._send((message, flags, identifiers), now_s)

    def deliver_all(self, ready: Sequence[Ready], now_s: float) -> tuple[list[bytes], int]:
        """Do as `deliver` does with each; return the pieces of what is to be sent now.

        Returns:
            The pieces, and how many packets they are.

        """
        pieces: list[bytes] = []
        count = 0
        if self._open and not self.queue and not self._unsent and self._packet_bytes_max is None:
            inflight, inflight_bytes = self.inflight, self._inflight_bytes
            window, bytes_max = self._window, self._inflight_bytes_max
            packet_id, record = self.last_packet_id, self.record
            for delivery, head, tail in ready:
                if len(inflight) >= window or inflight_bytes >= bytes_max:
                    break
                packet_id = packet_id % PACKET_ID_MAX + 1
                while packet_id in inflight:
                    packet_id = packet_id % PACKET_ID_MAX + 1
                inflight[packet_id] = delivery
                inflight_bytes += delivery[0].size_bytes
                pieces += (head, _packed_id(packet_id), tail)
                count += 1
                if record is not None:
                    record.sent(packet_id, delivery[1], delivery[0].ref)
            self.last_packet_id, self._inflight_bytes = packet_id, inflight_bytes
        for delivery, _, _ in ready[count:]:
            packet = self.deliver(*delivery, now_s)
            if packet is not None:
                pieces.append(packet)
                count += 1
        return pieces, count

    def puback(self, *packet_ids: int) -> None:
        """QoS 1 messages have arrived.

        Raises:
            PacketError: an identifier is 0, as for each of the three.

        """
        inflight = self.inflight
        for packet_id in packet_ids:
            delivery = inflight.get(packet_id)
            if delivery is not None and delivery[1] & 6 == 2:
                del inflight[packet_id]
                self._inflight_bytes -= delivery[0].size_bytes
                if self.record is not None:
                    self.record.note(Operation.PUBACK, packet_id)
            elif not packet_id:
                raise _no_identifier("PUBACK")

    def pubrec(self, *packet_ids: int, failed: bool) -> bool:
        """QoS 2 messages have arrived, or were refused; whether all identifiers are known."""
        inflight = self.inflight
        are_known = True
        for packet_id in packet_ids:
            if packet_id not in inflight:
                if not packet_id:
                    raise _no_identifier("PUBREC")
                are_known = False
                continue
            delivery = inflight[packet_id]
            if delivery is not None and delivery[1] & 6 == 4:
                self._inflight_bytes -= delivery[0].size_bytes
                if failed:  # [MQTT-4.3.3-4]: the identifier is free
                    del inflight[packet_id]
                else:
                    inflight[packet_id] = None
                if self.record is not None:
                    self.record.note(Operation.REFUSED if failed else Operation.PUBREC, packet_id)
        return are_known

    def pubcomp(self, *packet_ids: int) -> None:
        """The exchange of QoS 2 messages is complete."""
        inflight = self.inflight
        for packet_id in packet_ids:
            if inflight.get(packet_id, _UNKNOWN) is None:
                del inflight[packet_id]
                if self.record is not None:
                    self.record.note(Operation.PUBCOMP, packet_id)
            elif not packet_id:
                raise _no_identifier("PUBCOMP")

    def send_waiting(self, now_s: float) -> list[bytes]:
        """What may be sent now of that which waits: first what is sent again, then the queue."""
        packets: list[bytes] = []
        if not self._open:
            return packets
        sent = len(self.inflight) - len(self._unsent)
        while self._unsent and sent < self._window:
            packet_id = self._unsent.popleft()
            if packet_id not in self.inflight:
                continue
            packet = self._again(packet_id, now_s)
            if self._packet_bytes_max is not None and len(packet) > self._packet_bytes_max:
                self.puback(packet_id)
                self.pubrec(packet_id, failed=True)
                self._drop()  # [MQTT-3.1.2-25]
                continue
            packets.append(packet)
            sent += 1
        while (
            self.queue
            and not self._unsent
            and len(self.inflight) < self._window
            and self._inflight_bytes < self._inflight_bytes_max
        ):
            delivery = self.queue.popleft()
            self._taken += 1
            size = delivery[0].size_bytes
            self._queued_bytes -= size
            self._budget.used_bytes -= size
            if delivery[0].expired(now_s):
                self._drop()
            elif (fresh := self._send(delivery, now_s)) is not None:
                packets.append(fresh)
        return packets

    def release_incoming(self, *packet_ids: int) -> None:
        """The exchange of a client's QoS 2 messages ends."""
        if self.record is not None:
            for packet_id in self.incoming.intersection(packet_ids):
                self.record.note(Operation.RELEASED, packet_id)
        self.incoming.difference_update(packet_ids)

    def refuse_incoming(self, *packet_ids: int) -> None:
        """The log did not take these QoS 2 messages of the client's."""
        if self.record is not None:
            for packet_id in self.incoming.intersection(packet_ids):
                self.record.refused(packet_id)
        self.incoming.difference_update(packet_ids)

    def waiting(self) -> Iterator[Delivery]:
        """What is in flight and not released, then what is queued."""
        yield from (delivery for delivery in self.inflight.values() if delivery is not None)
        yield from self.queue

    # -- after a crash -------------------------------------------------------------------------

    def restore_inflight(self, packet_id: int, delivery: Delivery | None) -> None:
        """A message had been sent under this identifier; None: and released."""
        self.inflight[packet_id] = delivery
        if delivery is not None:
            self._inflight_bytes += delivery[0].size_bytes

    def was_sent(self, packet_id: int, flags: int, ref: Ref) -> bool:
        """The message that waits under this reference had been sent; whether there is one."""
        found = -1
        # What was sent stood at the head of the queue or close to it.
        for at, (message, its_flags, _) in enumerate(islice(self.queue, _NEAR_HEAD)):
            if message.ref == ref:
                found = at
                if its_flags == flags:
                    break
        if found < 0:
            return False
        delivery = self.queue[found]
        del self.queue[found]
        size = delivery[0].size_bytes
        self._queued_bytes -= size
        self._budget.used_bytes -= size
        self.last_packet_id = packet_id
        self.restore_inflight(packet_id, delivery)
        return True

    def adopt(self, limits: Limits, budget: Budget) -> None:
        """What was restored without limits counts for these from now on."""
        self._limits = limits
        self._inflight_bytes_max = limits.inflight_bytes
        budget.used_bytes += self._queued_bytes
        self._budget = budget

    # -- within --------------------------------------------------------------------------------

    def _send(self, delivery: Delivery, now_s: float) -> bytes | None:
        message, flags, identifiers = delivery
        inflight = self.inflight
        packet_id = self.last_packet_id % PACKET_ID_MAX + 1
        while packet_id in inflight:
            packet_id = packet_id % PACKET_ID_MAX + 1
        if identifiers:
            packet = message.packet(self._version, flags, packet_id, identifiers, now_s)
        else:
            head, tail = message.pieces(self._version << 4 | flags, now_s)
            packet = head + _packed_id(packet_id) + tail
        if self._packet_bytes_max is not None and len(packet) > self._packet_bytes_max:
            self._drop()  # as if it had been sent [MQTT-3.1.2-25]
            return None
        self.last_packet_id = packet_id
        inflight[packet_id] = delivery
        self._inflight_bytes += message.size_bytes
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

    def _wait(self, delivery: Delivery) -> None:
        size = delivery[0].size_bytes
        limits, budget = self._limits, self._budget
        if (
            len(self.queue) >= limits.queue_messages
            or self._queued_bytes + size > limits.queue_bytes
            or budget.used_bytes + size > budget.limit_bytes
        ):
            self._drop()
            return
        self.queue.append(delivery)
        self._queued_bytes += size
        budget.used_bytes += size

    def _drop(self) -> None:
        self.dropped += 1
        self._budget.dropped += 1


def _no_identifier(packet: str) -> PacketError:
    what = f"{packet} packet identifier"
    return PacketError(ReasonCode.PROTOCOL_ERROR, what, 0, "MQTT-2.2.1-3")
