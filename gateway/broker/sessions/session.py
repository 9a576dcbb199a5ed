"""A client's session: what it subscribed to, how long it lasts, and the messages in flight.

A session outlives connections; it knows nothing of sockets.
"""

from __future__ import annotations

from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.channel import Channel
from gateway.broker.outbound.message import Message
from gateway.broker.retained.owed import Owed
from gateway.broker.sessions.backlog import Delivery, Logged
from gateway.broker.sessions.in_flight import InFlight
from gateway.broker.sessions.subscription import Subscription
from gateway.mqtt import Will
from tree_handler.batch import Ref

_PUBLISH = 0x30
NEVER_EXPIRES_S = 0xFFFF_FFFF


class Session(InFlight):
    """The state of one client.

    Attributes:
        client: who it is, as of its last connection.
        channel: what it is served over, or None.
        expiry_s: how long it is kept without a connection.
        away_since_s: when its last connection ended, on the loop's clock.
        ends_at_s: when it ends, on the same; None while connected.
        subscriptions: by filter.
        no_local: whether it has, or had, a subscription without its own messages.
        owed: what is retained for it and was not sent yet; None if nothing.

    """

    __slots__ = (
        "away_since_s",
        "channel",
        "client",
        "ends_at_s",
        "expiry_s",
        "no_local",
        "owed",
        "subscriptions",
        "will",
        "will_at_s",
    )

    def __init__(
        self, client: Client, limits: Limits, budget: Budget, log: Logged | None = None
    ) -> None:
        super().__init__(client.version, limits, budget, log)
        self.client = client
        self.channel: Channel | None = None
        self.expiry_s = 0
        self.away_since_s = 0.0
        self.ends_at_s: float | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.will: Will | None = None
        """What is published unless the client says DISCONNECT."""
        self.will_at_s: float | None = None
        """When, on the loop's clock, unless the client comes back; None while it is there."""
        self.no_local = False
        self.owed: Owed | None = None

    @property
    def client_id(self) -> str:
        """The client identifier."""
        return self.client.client_id

    @property
    def ticket(self) -> int:
        """The last journal frame that must be safe before what it sent may be written."""
        return 0 if self.record is None else self.record.ticket

    def attach(self, channel: Channel, client: Client, receive_maximum: int, now_s: float) -> None:
        """It is served over this channel from now on, which is sent again what is open.

        What is sent again comes first [MQTT-4.4.0-1].
        """
        self.client = client
        self.ends_at_s = None
        self.channel = channel
        channel.serve(self)
        self._push(self.begin(client.version, receive_maximum, channel.packet_bytes_max, now_s))

    def deliver(
        self, message: Message, flags: int, identifiers: tuple[int, ...], now_s: float
    ) -> None:
        """Send a QoS 1 or 2 message, or let it wait.

        Args:
            message: the message.
            flags: QoS and RETAIN as delivered.
            identifiers: of the subscriptions that it matched.
            now_s: on the loop's clock.

        """
        packet = self.submit(message, flags, identifiers, now_s)
        if packet is not None and self.channel is not None:
            self.channel.send_message(packet)

    def resume(self, now_s: float) -> None:
        """The client reads again: send what waits."""
        self.release()
        self.go_on(now_s)

    def go_on(self, now_s: float) -> None:
        """Send what waits, as far as there is room."""
        if self.is_busy and self.channel is not None and not self.channel.is_closing:
            self._push(self.send_waiting(now_s))

    def _push(self, packets: list[bytes]) -> None:
        channel = self.channel
        if channel is not None:
            for packet in packets:
                if packet[0] & 0xF0 == _PUBLISH:
                    channel.send_message(packet)
                else:
                    channel.send(packet)

    def detach(self, since_s: float) -> None:
        """No channel serves it any more, since then."""
        if self.channel is not None:
            self.channel.serve(None)
            self.channel = None
        self.pause()
        self.away_since_s = since_s
        self.ends_at_s = since_s + self.expiry_s
        if self.expiry_s == NEVER_EXPIRES_S:
            self.ends_at_s = float("inf")

    def __str__(self) -> str:
        return str(self.client)

    # -- after a crash -------------------------------------------------------------------------

    def restore_inflight(self, packet_id: int, delivery: Delivery | None) -> None:
        """A message had been sent under this identifier; None: and released."""
        self.inflight[packet_id] = delivery
        if delivery is not None:
            self._inflight_bytes += delivery[0].size_bytes

    def was_sent(self, packet_id: int, flags: int, ref: Ref) -> bool:
        """The message that waits under this reference had been sent; whether there is one.

        Or was: one that the log no longer has is dropped, and counted. Of QoS 2 the client may have
        had it, so that exchange goes on with PUBREL, to its end.
        """
        delivery = self.backlog.remove(ref, flags)
        if delivery is None and not self.backlog.is_trimmed(ref):
            return False
        self.last_packet_id = packet_id
        if delivery is not None or flags & 6 == 4:
            self.restore_inflight(packet_id, delivery)
        return True

    def adopt(self, limits: Limits, budget: Budget) -> None:
        """What was restored without limits counts for these from now on."""
        self._limits = limits
        self._inflight_bytes_max = limits.inflight_bytes
        self.backlog.adopt(limits, budget)
