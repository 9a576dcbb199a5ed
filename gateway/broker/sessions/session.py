"""A client's session: what it subscribed to, how long it lasts, and the messages in flight.

A session outlives connections; it knows nothing of sockets.
"""

from __future__ import annotations

from typing import Final

from gateway.broker.durability.journal import SessionRecord
from gateway.broker.hooks import Client
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.channel import Channel
from gateway.broker.outbound.message import Message
from gateway.broker.retained.retained_backlog import RetainedBacklog
from gateway.broker.sessions.in_flight import InFlight
from gateway.broker.sessions.queue_log import QueueLog
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.sessions.unreleased import UnreleasedIdentifiers
from gateway.mqtt import Will

_PUBLISH: Final = 0x30
NEVER_EXPIRES_S: Final = 0xFFFF_FFFF


class Session:
    """The state of one client.

    Attributes:
        client: who it is, as of its last connection.
        channel: what it is served over, or None.
        expiry_s: how long it is kept without a connection.
        away_since_s: when its last connection ended, on the loop's clock.
        ends_at_s: when it ends, on the same; None while connected.
        subscriptions: by filter.
        outgoing: QoS 1 and 2 messages to the client, sent or waiting.
        incoming: the client's QoS 2 messages that it has not released.
        no_local: whether it has, or had, a subscription without its own messages.
        owed: what is retained for it and was not sent yet; None if nothing.

    """

    __slots__ = (
        "away_since_s",
        "channel",
        "client",
        "ends_at_s",
        "expiry_s",
        "incoming",
        "no_local",
        "outgoing",
        "owed",
        "subscriptions",
        "will",
        "will_at_s",
    )

    def __init__(
        self, client: Client, limits: Limits, budget: Budget, log: QueueLog | None = None
    ) -> None:
        self.outgoing = InFlight(client.version, limits, budget, log)
        self.incoming = UnreleasedIdentifiers()
        self.client = client
        self.channel: Channel | None = None
        self.expiry_s = 0
        self.away_since_s = 0.0
        self.ends_at_s: float | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.will: Will | None = None
        """The message that is published unless the client says DISCONNECT."""
        self.will_at_s: float | None = None
        """The time of its publication, on the loop's clock; None while the client is there."""
        self.no_local = False
        self.owed: RetainedBacklog | None = None

    @property
    def client_id(self) -> str:
        """The client identifier."""
        return self.client.client_id

    @property
    def record(self) -> SessionRecord | None:
        """Its side of the journal; None unless it is to outlive a crash."""
        return self.outgoing.record

    def keep_record(self, record: SessionRecord | None) -> None:
        """Tell this journal from now on; None for none any more."""
        self.outgoing.record = self.incoming.record = record

    @property
    def ticket(self) -> int:
        """The last journal frame that must be safe before what it sent may be written."""
        record = self.outgoing.record
        return 0 if record is None else record.ticket

    def attach(self, channel: Channel, client: Client, receive_maximum: int, now_s: float) -> None:
        """It is served over this channel from now on, which is sent again what is open.

        What is sent again comes first [MQTT-4.4.0-1].
        """
        self.client = client
        self.ends_at_s = None
        self.channel = channel
        channel.serve(self)
        again = self.outgoing.begin(
            client.version, receive_maximum, channel.packet_bytes_max, now_s
        )
        self._push(again)

    def deliver(
        self,
        message: Message,
        flags: int,
        identifiers: tuple[int, ...],
        now_s: float,
        *,
        retained: bool = False,
    ) -> None:
        """Send a QoS 1 or 2 message, or let it wait.

        Args:
            message: the message.
            flags: QoS and RETAIN as delivered.
            identifiers: of the subscriptions that it matched.
            now_s: on the loop's clock.
            retained: because of a new subscription.

        """
        packet = self.outgoing.submit(message, flags, identifiers, now_s, retained=retained)
        if packet is not None and self.channel is not None:
            self.channel.send_message(packet)

    def hold(self) -> None:
        """The client does not read: messages wait."""
        self.outgoing.hold()

    def resume(self, now_s: float) -> None:
        """The client reads again: send what waits."""
        self.outgoing.release()
        self.go_on(now_s)

    def go_on(self, now_s: float) -> None:
        """Send what waits, as far as there is room."""
        if self.outgoing.is_busy and self.channel is not None and not self.channel.is_closing:
            self._push(self.outgoing.send_waiting(now_s))

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
        self.outgoing.pause()
        self.away_since_s = since_s
        self.ends_at_s = since_s + self.expiry_s
        if self.expiry_s == NEVER_EXPIRES_S:
            self.ends_at_s = float("inf")

    def is_overdue(self, now_s: float) -> bool:
        """Return whether its client did not come back in time."""
        return self.ends_at_s is not None and self.ends_at_s <= now_s

    def end(self) -> None:
        """It is no more; what waited is given back."""
        self.outgoing.end()
        self.incoming.clear()

    def __str__(self) -> str:
        return str(self.client)
