"""The outlet of messages that may be given out: each is retained, then delivered."""

from __future__ import annotations

from collections.abc import Container

from gateway.base.event_log.failures import Failures
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.routes import Routes
from gateway.broker.retained.bridged import RetainedByBridges
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.retained.retention import Retention
from gateway.broker.sessions.session import Session
from tree_handler.holders import SharedGroup


class LocalDistribution:
    """Gives messages out to local subscribers.

    Args:
        routes: where topics go.
        delivery: hands messages over.
        retention: keeps what is to be retained.
        bridged: remembers what of it came from bridges.
        retained_backlogs: which sessions are owed what is retained.
        failures: is told of what could not be given out.

    Attributes:
        failures: as given.

    """

    def __init__(
        self,
        routes: Routes,
        delivery: Delivery,
        retention: Retention,
        bridged: RetainedByBridges,
        retained_backlogs: RetainedBacklogs,
        failures: Failures,
    ) -> None:
        self.failures = failures
        self._routes = routes
        self._delivery = delivery
        self._retention = retention
        self._bridged = bridged
        self._retained_backlogs = retained_backlogs

    def share(self, message: Message) -> None:
        """Choose whose members of shared subscriptions get a message that is accepted here.

        Raises:
            PacketError: its topic is none, or over a limit.

        """
        self._delivery.share(message, self._routes.of(message.key))

    def give_out(self, message: Message, publisher: Session | None, now_s: float) -> None:
        """Retain a message if it says so, and give it to its subscribers.

        Args:
            message: on a topic that is one.
            publisher: whose it is; None for the broker itself and for other gateways.
            now_s: on the loop's clock.

        """
        route = self._routes.of(message.key)
        if message.retain:
            self._retain(message, publisher)
        if route.has_receivers:  # else it is for other gateways or the cloud alone
            self._delivery.deliver(message, route, publisher, now_s)
        if message.sharing[1] and message.qos:
            self._delivery.hand_on(message, route, now_s)

    def give_to_member(self, message: Message, group: SharedGroup, now_s: float) -> bool:
        """Give a message to one member of a shared subscription; return whether one may."""
        route = self._routes.of(message.key)
        return not route.closed and self._delivery.give_to_member(message, route, group, now_s)

    def give_out_but(self, message: Message, had: Container[int], now_s: float) -> int:
        """Give out a QoS 2 message that some sessions have had; return how many were left out.

        Args:
            message: another gateway's, or of an earlier life.
            had: those sessions, by the numbers of their records.
            now_s: on the loop's clock.

        """

        def has_had(session: Session) -> bool:
            return session.record is not None and session.record.number in had

        if message.retain:
            self._retain(message, None)
        route, count = self._routes.of(message.key).without(has_had)
        self._delivery.deliver(message, route, None, now_s)
        return count

    def _retain(self, message: Message, publisher: Session | None) -> None:
        owner = None if publisher is None else publisher.client.owner
        if self._retention.retain(message, owner):
            self._bridged.retained(message.topic, publisher)
            if message.qos:
                self._retained_backlogs.replaced(message.topic)
