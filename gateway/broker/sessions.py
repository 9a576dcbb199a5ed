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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.broker.message import DUP, Message
from gateway.broker.packets import Version, Will

if TYPE_CHECKING:
    from gateway.broker.connection import Connection
    from gateway.broker.hooks import Client
    from gateway.broker.limits import Budget, Limits

PACKET_ID_MAX = 65_535
NEVER_EXPIRES_S = 0xFFFF_FFFF
PUBREL = 0x62

Delivery = tuple[Message, int, tuple[int, ...]]
"""A message, the flags it is delivered with, and the subscription identifiers."""


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
        ends_at_s: when it ends, on the loop's clock; None while connected.
        subscriptions: by filter.
        incoming: QoS 2 identifiers of the client's messages that are not released.
        dropped: messages that found the queue full, or had expired in it.

    """

    __slots__ = (
        "_budget",
        "_inflight",
        "_inflight_bytes",
        "_inflight_bytes_max",
        "_last_id",
        "_limits",
        "_open",
        "_packet_bytes_max",
        "_queue",
        "_queued_bytes",
        "_unsent",
        "_version",
        "_window",
        "client",
        "connection",
        "dropped",
        "ends_at_s",
        "expiry_s",
        "incoming",
        "subscriptions",
        "will",
    )

    def __init__(self, client: Client, limits: Limits, budget: Budget) -> None:
        self.client = client
        self.connection: Connection | None = None
        self.expiry_s = 0
        self.ends_at_s: float | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.incoming: set[int] = set()
        self.dropped = 0
        self.will: tuple[float, Will] | None = None
        """When it is published, on the loop's clock, unless the client comes back; and what."""
        self._limits = limits
        self._budget = budget
        self._version = client.version
        self._open = False
        self._window = 0
        self._packet_bytes_max: int | None = None
        self._last_id = 0
        self._inflight: dict[int, Delivery | None] = {}
        """By packet identifier; None once released."""
        self._inflight_bytes = 0
        self._inflight_bytes_max = limits.inflight_bytes
        self._unsent: deque[int] = deque()
        """Identifiers in flight that this connection has not been sent yet."""
        self._queue: deque[Delivery] = deque()
        self._queued_bytes = 0

    # -- what is asked of it -------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """The client identifier."""
        return self.client.client_id

    @property
    def inflight_count(self) -> int:
        """Messages sent and not acknowledged to the end."""
        return len(self._inflight)

    @property
    def queued_count(self) -> int:
        """Messages that wait."""
        return len(self._queue)

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
        return bool(self._queue or self._unsent)

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
        self._unsent = deque(self._inflight)
        return self.send_waiting(now_s)

    def detach(self, now_s: float) -> None:
        """No connection serves it any more."""
        self._open = False
        self._unsent.clear()
        self.ends_at_s = now_s + self.expiry_s
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
        self._queue.clear()
        self._inflight.clear()
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
            self._queue
            or not self._open
            or self._unsent
            or len(self._inflight) >= self._window
            or self._inflight_bytes >= self._inflight_bytes_max
        ):
            self._wait((message, flags, identifiers))
            return None
        return self._send((message, flags, identifiers), now_s)

    def puback(self, packet_id: int) -> None:
        """A QoS 1 message has arrived."""
        delivery = self._inflight.get(packet_id)
        if delivery is not None and delivery[1] & 6 == 2:
            del self._inflight[packet_id]
            self._inflight_bytes -= delivery[0].size_bytes

    def pubrec(self, packet_id: int, *, failed: bool) -> bool:
        """A QoS 2 message has arrived, or was refused; whether its identifier is known."""
        if packet_id not in self._inflight:
            return False
        delivery = self._inflight[packet_id]
        if delivery is not None and delivery[1] & 6 == 4:
            self._inflight_bytes -= delivery[0].size_bytes
            if failed:  # [MQTT-4.3.3-4]: the identifier is free
                del self._inflight[packet_id]
            else:
                self._inflight[packet_id] = None
        return True

    def pubcomp(self, packet_id: int) -> None:
        """The exchange of a QoS 2 message is complete."""
        if packet_id in self._inflight and self._inflight[packet_id] is None:
            del self._inflight[packet_id]

    def send_waiting(self, now_s: float) -> list[bytes]:
        """What may be sent now of that which waits: first what is sent again, then the queue."""
        packets: list[bytes] = []
        if not self._open:
            return packets
        sent = len(self._inflight) - len(self._unsent)
        while self._unsent and sent < self._window:
            packet_id = self._unsent.popleft()
            if packet_id not in self._inflight:
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
            self._queue
            and not self._unsent
            and len(self._inflight) < self._window
            and self._inflight_bytes < self._inflight_bytes_max
        ):
            delivery = self._queue.popleft()
            size = delivery[0].size_bytes
            self._queued_bytes -= size
            self._budget.used_bytes -= size
            if delivery[0].expired(now_s):
                self._drop()
            elif (fresh := self._send(delivery, now_s)) is not None:
                packets.append(fresh)
        return packets

    def waiting(self) -> Iterator[Delivery]:
        """What is in flight and not released, then what is queued."""
        yield from (delivery for delivery in self._inflight.values() if delivery is not None)
        yield from self._queue

    # -- within --------------------------------------------------------------------------------

    def _send(self, delivery: Delivery, now_s: float) -> bytes | None:
        message, flags, identifiers = delivery
        inflight = self._inflight
        packet_id = self._last_id % PACKET_ID_MAX + 1
        while packet_id in inflight:
            packet_id = packet_id % PACKET_ID_MAX + 1
        packet = message.packet(self._version, flags, packet_id, identifiers, now_s)
        if self._packet_bytes_max is not None and len(packet) > self._packet_bytes_max:
            self._drop()  # as if it had been sent [MQTT-3.1.2-25]
            return None
        self._last_id = packet_id
        inflight[packet_id] = delivery
        self._inflight_bytes += message.size_bytes
        return packet

    def _again(self, packet_id: int, now_s: float) -> bytes:
        delivery = self._inflight[packet_id]
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
            len(self._queue) >= limits.queue_messages
            or self._queued_bytes + size > limits.queue_bytes
            or budget.used_bytes + size > budget.limit_bytes
        ):
            self._drop()
            return
        self._queue.append(delivery)
        self._queued_bytes += size
        budget.used_bytes += size

    def _drop(self) -> None:
        self.dropped += 1
        self._budget.dropped += 1
