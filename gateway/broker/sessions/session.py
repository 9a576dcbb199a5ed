"""A client's session: what it subscribed to, how long it lasts, and the messages in flight.

A session outlives connections; it knows nothing of sockets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.broker.sessions.backlog import Delivery, Logged
from gateway.broker.sessions.in_flight import InFlight
from gateway.mqtt import Will

if TYPE_CHECKING:
    from gateway.broker.durability.journal import Ref
    from gateway.broker.hooks import Client
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.limits import Budget, Limits
    from gateway.broker.retained.owed import Owed

NEVER_EXPIRES_S = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client asked for with a filter (MQTT 5.0, section 3.8.3.1)."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    """0 if there is none."""


class Session(InFlight):
    """The state of one client.

    Attributes:
        client: who it is, as of its last connection.
        connection: the connection that serves it, or None.
        expiry_s: how long it is kept without a connection.
        away_since_s: when its last connection ended, on the loop's clock.
        ends_at_s: when it ends, on the same; None while connected.
        subscriptions: by filter.
        no_local: whether it has, or had, a subscription without its own messages.
        owed: what is retained for it and was not sent yet; None if nothing.

    """

    __slots__ = (
        "away_since_s",
        "client",
        "connection",
        "ends_at_s",
        "expiry_s",
        "no_local",
        "owed",
        "subscriptions",
        "will",
    )

    def __init__(
        self, client: Client, limits: Limits, budget: Budget, log: Logged | None = None
    ) -> None:
        super().__init__(client.version, limits, budget, log)
        self.client = client
        self.connection: Connection | None = None
        self.expiry_s = 0
        self.away_since_s = 0.0
        self.ends_at_s: float | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.will: tuple[float, Will] | None = None
        """When it is published, on the loop's clock, unless the client comes back; and what."""
        self.no_local = False
        self.owed: Owed | None = None

    @property
    def client_id(self) -> str:
        """The client identifier."""
        return self.client.client_id

    def attach(
        self, client: Client, receive_maximum: int, packet_bytes_max: int | None, now_s: float
    ) -> list[bytes]:
        """A connection serves it from now on; return what is sent again (MQTT-4.4.0-1)."""
        self.client = client
        self.ends_at_s = None
        return self.begin(client.version, receive_maximum, packet_bytes_max, now_s)

    def detach(self, since_s: float) -> None:
        """No connection serves it any more, since then."""
        self.pause()
        self.away_since_s = since_s
        self.ends_at_s = since_s + self.expiry_s
        if self.expiry_s == NEVER_EXPIRES_S:
            self.ends_at_s = float("inf")

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
