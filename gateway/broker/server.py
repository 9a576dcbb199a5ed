"""The broker's state.

`BrokerCore` owns sessions, subscriptions, routes and retained messages. It does no I/O but
through connections and hooks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from gateway.broker.durability.durable import Durable, History
from gateway.broker.durability.journal import Ref
from gateway.broker.durability.lasting_clock import Clocks, LastingClock
from gateway.broker.durability.recovery import Recovered, Recovery
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import Store
from gateway.broker.hooks import Client, Hooks, Interest
from gateway.broker.inbound import alone, arriving
from gateway.broker.inbound.acceptance import Acceptance
from gateway.broker.inbound.bridges import RetainedByBridges
from gateway.broker.inbound.connection import Connection
from gateway.broker.inbound.runs import Run
from gateway.broker.inbound.turns import Turns
from gateway.broker.limits import DROPS, Budget, Limits, Refusals
from gateway.broker.listeners.arrivals import Arrivals
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.outgoing import Outgoing, flush
from gateway.broker.outbound.targets import Route, resolve
from gateway.broker.retained.owed import Owing
from gateway.broker.retained.retention import Retention
from gateway.broker.retained.sending import RetainedSending
from gateway.broker.sessions import wills
from gateway.broker.sessions.session import NEVER_EXPIRES_S, Session, Subscription
from gateway.broker.statistics.traffic import Traffic
from gateway.broker.topics import (
    RetainedMessages,
    RouteCache,
    SubscriptionTree,
    split_share,
)
from gateway.broker.upkeep import Upkeep
from gateway.mqtt import PacketError, ReasonCode
from tree_handler.batch import Entry, Epoch, Row

_by_key = attrgetter("key")

_log = logging.getLogger(__name__)


class BrokerCore:
    """The data plane of one broker.

    Attributes:
        sessions: by client identifier.
        connections: all that are open.
        routes: where topics go.
        retained: of clients and of the tree.
        retention: decides by versions what is retained.
        bridged: which of them came from bridges.
        statistics: the broker's own retained messages, ``$SYS``.
        traffic: what has passed.
        offline: sessions that wait for their client.
        owing: sessions that were not sent all that was retained when they subscribed.
        dirty: connections with something to write.
        turns: ends turns of the event loop: commits and writes.
        durable: keeps durable sessions; None for a broker that forgets them at its end.
        interest: is told of every subscription that comes and goes, those of clients that are away
            included; None where nobody asks.
        gathers_unlogged: whether QoS 0 messages are wanted by the tree.

    """

    def __init__(self, hooks: Hooks, limits: Limits | None = None) -> None:
        self.hooks = hooks
        self.limits = limits or Limits()
        self.now = asyncio.get_running_loop().time
        self.budget = Budget(self.limits.all_queues_bytes)
        self.refusals = Refusals()
        self.traffic = Traffic()
        self.sessions: dict[str, Session] = {}
        self.connections: set[Connection] = set()
        self.tree: SubscriptionTree[Session, Subscription] = SubscriptionTree(
            self.limits.topic_levels
        )
        self.routes: RouteCache[Route] = RouteCache()
        self.retained: RetainedMessages[Message] = RetainedMessages(
            lambda m: m.size_bytes, self.limits.retained_messages, self.limits.retained_bytes
        )
        self.retention = Retention(self)
        self.bridged = RetainedByBridges(self.limits.retained_messages)
        self.statistics: RetainedMessages[Message] = RetainedMessages(lambda m: m.size_bytes)
        self.dirty: list[Outgoing] = []
        self.delivery = Delivery(self.dirty)
        self.turns = Turns(self.dirty, self._flush, self._turn_ended)
        self.acceptance = Acceptance(
            hooks.commit,
            self._deliver_run,
            self.turns.kick,
            self.now,
            self.limits.uncommitted_bytes,
            deliver_together=partial(alone.deliver, self),
            stamp=self.retention.stamp,
        )
        self.turns.acceptance = self.acceptance
        self.turns.read = partial(alone.read, self)
        self.durable: Durable | None = None
        self.interest: Interest | None = None
        self.gathers_unlogged = hooks.carries_unlogged()
        self._loop = asyncio.get_running_loop()
        self._arrivals = Arrivals(self.limits)
        self.offline: set[Session] = set()
        self._connected = 0
        self._tasks: set[asyncio.Future[Any]] = set()
        self.upkeep = Upkeep(self)
        self.owing = Owing()
        self._is_stopping = False
        self.is_closed_to_clients = False
        """Whether every CONNECT is refused, while links stay."""

    def recover(
        self, history: History, store: Store, saved: Checkpoint, clocks: Clocks
    ) -> Recovered:
        """Go on from what was there before the last stop or crash; keep it from now on.

        Args:
            history: the log.
            store: for checkpoints.
            saved: the last of them.
            clocks: of this machine.

        Raises:
            StoreError: a checkpoint is needed at once and can't be written.

        """
        self.retention.own = history.own
        found = Recovery(self, history, LastingClock(clocks, history.own[1])).run(saved)
        self.durable = Durable(self, history, store, found)
        self.durable.start(saved)
        self.acceptance.durable = self.durable
        for one in found.wills.standing.values():
            wills.left_standing(self, one.client, one.will)
        return found

    # -- messages ------------------------------------------------------------------------------

    def publish(self, entries: Iterable[Entry]) -> None:
        """Give local subscribers what no log has (plugins)."""
        now_s = self.now()
        for entry in entries:
            self.publish_one(entry, None, now_s)
        self.turns.kick()

    def publish_batch(self, rows: Sequence[Row], key: Epoch, last: int) -> None:
        """Give local subscribers what other gateways accepted; see `arriving.publish`."""
        arriving.publish(self, rows, key, last)

    def publish_one(self, entry: Entry, ref: Ref | None, now_s: float) -> None:
        """Give local subscribers one message that comes from elsewhere."""
        try:
            message = Message.of(entry, now_s)
            message.ref = ref
            if not message.expired(now_s):
                self._deliver(message, None, now_s)
            elif message.retain:  # it waited too long on its way; its version counts
                self.retention.retain(message)
        except PacketError as error:
            self.refused("message of the tree that no packet can carry", str(error))

    def accept(self, message: Message, will_of: str | None = None) -> None:
        """Publish for the broker itself or for a client that has gone (a will)."""
        standing = None if self.durable is None or will_of is None else self.durable.wills
        if message.qos or message.retain:
            will = 0 if standing is None else standing.published(will_of or "")
            self.acceptance.add(message, None, will=will)
        else:
            if standing is not None:
                standing.ended(will_of or "")
            self.pass_on(message, self.route(message.key), None)
        self.turns.kick()

    def accept_retained(self, message: Message, publisher: Session | None) -> None:
        """Publish a retained QoS 0 message: nobody waits for the log, so neither does it.

        Unless an earlier message does that is to be retained on the same topic.
        """
        self.retention.stamp(message)
        is_delivered = not self.acceptance.is_to_retain(message.topic)
        if is_delivered:
            self._deliver(message, publisher, self.now())
        self.acceptance.add(message, publisher, is_delivered=is_delivered)

    def announce(self, topic: str, payload: bytes) -> None:
        """Publish a statistic, retained: for those who may read it, and for this broker alone."""
        message = Message(topic, topic.encode(), payload, 0, True)
        self.statistics.set(topic, message)
        # Without the cache, whose `#` is cheaper to touch where it holds no `$` topics.
        route = resolve(message.key, self.tree, self.may_deliver)
        self.delivery.deliver(message, route, None, self.now())
        self.turns.kick()

    def retained_for(self, topic_filter: str) -> Iterator[tuple[str, Message]]:
        """What is retained for a new subscription."""
        kept = self.statistics if topic_filter.startswith("$SYS") else self.retained
        return kept.match(topic_filter, self.now())

    def pass_on(self, message: Message, route: Route, publisher: Session | None) -> None:
        """Deliver a QoS 0 message and give it to the tree."""
        self.delivery.deliver(message, route, publisher, self.now())
        if self.gathers_unlogged:
            self.acceptance.unlogged.append(message.row())

    def forward(self, route: Route, key: bytes, payload: bytes, others: list[Connection]) -> None:
        """Give a QoS 0 message to the clients of the other protocol version."""
        version = others[0].version
        packet = Message(route.topic, key, payload, 0, False).packet(version, 0, 0, (), 0.0)
        for receiver in others:
            receiver.offer(packet)

    def route(self, key: bytes) -> Route:
        """Where a topic's messages go.

        Raises:
            PacketError: it is no topic name, or longer or deeper than allowed.

        """
        route = self.routes.get(key)
        if route is None:
            if len(key) > self.limits.topic_bytes or key.count(b"/") >= self.limits.topic_levels:
                raise PacketError(ReasonCode.TOPIC_NAME_INVALID, "topic over the limit", key)
            route = resolve(key, self.tree, self.may_deliver)
            self.routes.put(key, route)
        return route

    def may_deliver(self, session: Session, topic: str) -> bool:
        """Whether a session's client may receive a topic."""
        may_deliver = self.hooks.may_deliver
        return may_deliver is None or may_deliver(session.client, topic)

    def _deliver_run(self, run: Run, now_s: float) -> None:
        if len(run.messages) == 1:
            self._deliver(run.messages[0], run.session, now_s)
            return
        for key, messages in groupby(run.messages, _by_key):
            route = self.routes.get(key) or self.route(key)
            self.delivery.deliver_all(list(messages), route, run.session, now_s)

    def _deliver(self, message: Message, publisher: Session | None, now_s: float) -> None:
        route = self.routes.get(message.key) or self.route(message.key)
        if message.retain and self.retention.retain(message):
            self.bridged.retained(message.topic, publisher)
            if message.qos:
                self.owing.replaced(message.topic)
        self.delivery.deliver(message, route, publisher, now_s)

    # -- subscriptions -------------------------------------------------------------------------

    def subscribe(self, session: Session, topic_filter: str, subscription: Subscription) -> bool:
        """Add or replace a subscription [MQTT-3.8.4-3]; whether it is new.

        Raises:
            FilterError: the filter is malformed or too deep.

        """
        is_new = self.place(session, topic_filter, subscription)
        if session.record is not None:
            session.record.journal.subscribed(session.record, topic_filter, subscription)
        if self.hooks.events is not None:
            self.hooks.events.subscribed(session, topic_filter, subscription.qos)
        return is_new

    def place(self, session: Session, topic_filter: str, subscription: Subscription) -> bool:
        """Have a subscription stand where routes find it; whether it is new.

        Raises:
            FilterError: the filter is malformed or too deep.

        """
        is_new = self.tree.add(topic_filter, session, subscription)
        if is_new and self.interest is not None:
            self.interest.subscribed(topic_filter)
        session.subscriptions[topic_filter] = subscription
        session.no_local |= subscription.no_local
        self.routes.touched(topic_filter)
        return is_new

    def unsubscribe(self, session: Session, topic_filter: str) -> bool:
        """End a subscription [MQTT-3.10.4-1]; whether there was one."""
        if session.subscriptions.pop(topic_filter, None) is None:
            return False
        self.routes.touched(topic_filter)
        self.leave(session, topic_filter)
        if session.record is not None:
            session.record.journal.unsubscribed(session.record, topic_filter)
        if self.hooks.events is not None:
            self.hooks.events.unsubscribed(session, topic_filter)
        return True

    def leave(self, session: Session, topic_filter: str) -> None:
        """Take a subscription from where routes find it, once they are touched."""
        if self.tree.remove(topic_filter, session) and self.interest is not None:
            self.interest.unsubscribed(topic_filter)
        share, proper = split_share(topic_filter)
        if share:
            self.delivery.forget_turns((share, proper))

    # -- sessions ------------------------------------------------------------------------------

    def attach(
        self,
        session: Session,
        connection: Connection,
        client: Client,
        expiry_s: int,
        receive_maximum: int,
    ) -> None:
        """An accepted connection serves a session from now on."""
        self.sessions[client.client_id] = session
        self._connected += 1
        self.traffic.clients_max = max(self.traffic.clients_max, self._connected)
        self.offline.discard(session)
        self.upkeep.delayed.discard(session)
        session.connection = connection
        waiting = session.attach(client, receive_maximum, connection.packet_bytes_max, self.now())
        for packet in waiting:
            (connection.send_message if packet[0] & 0xF0 == 0x30 else connection.send)(packet)
        self._touch(session)
        self.set_expiry(session, expiry_s)
        if self.durable is not None:
            self.durable.wills.connected(client, connection.will)
        if self.hooks.events is not None:
            self.hooks.events.connected(session)
        if session.owed is not None:
            RetainedSending(connection, session).go_on(session.owed)
        self.turns.kick()

    def set_expiry(self, session: Session, expiry_s: int) -> None:
        """Keep a session so long once its client has gone."""
        longest = self.limits.session_expiry_s
        session.expiry_s = min(expiry_s, longest) if longest < NEVER_EXPIRES_S else expiry_s
        if self.durable is not None:
            self.durable.session_opened(session)

    def take_over(self, session: Session, clean_start: bool) -> None:
        """Close a session's connection, for the client has come again [MQTT-3.1.4-3]."""
        connection = session.connection
        assert connection is not None
        will, connection.will = connection.will, None
        # With a delay the will waits, and the client is back (section 3.1.3.2.2).
        if will is not None and (clean_start or not wills.delay_s(will)):
            self.accept(wills.message(will, self.now()), session.client_id)
        connection.disconnect(ReasonCode.SESSION_TAKEN_OVER)
        self._detach(session, connection)

    def end(self, session: Session) -> None:
        """End a session: its subscriptions and what waited go with it."""
        self._touch(session)
        for topic_filter in session.subscriptions:
            self.leave(session, topic_filter)
        session.subscriptions.clear()
        self.publish_will(session)
        session.end()
        self.owing.settled(session)
        self.offline.discard(session)
        self.upkeep.delayed.discard(session)
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]
        if self.durable is not None:
            self.durable.session_ended(session)

    def _detach(self, session: Session, connection: Outgoing) -> None:
        session.connection = None
        self._connected -= 1
        self.is_offline(session, self.now())
        if self.durable is not None:
            self.durable.session_away(session)
        self._touch(session)
        if self.hooks.events is not None:
            self.hooks.events.disconnected(session)

    def is_offline(self, session: Session, since_s: float) -> None:
        """A session waits for its client, who went then."""
        session.detach(since_s)
        self.offline.add(session)

    def _touch(self, session: Session) -> None:
        self.routes.touched_by(session.subscriptions)

    @property
    def dropped(self) -> int:
        """Messages that did not reach a subscriber for want of room or time."""
        return self.budget.dropped + sum(self.refusals.counts[kind] for kind in DROPS)

    @property
    def client_count(self) -> int:
        """Clients that are connected."""
        return self._connected

    # -- connections ---------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A connection has come; it may be closed at once."""
        self.traffic.sockets += 1
        self.connections.add(connection)
        why = self._arrivals.opened(connection.address, self.now())
        if why or self._is_stopping:
            self.refused(why or "connection while stopping", connection.address)
            connection.abort()

    def closed(self, connection: Connection) -> None:
        """A connection has gone, or has become a link."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self._arrivals.closed(connection.address)
        self.left(connection)

    def left(self, connection: Outgoing) -> None:
        """A connection serves its session no longer; the connection itself may still linger."""
        session = connection.session
        if session is None or session.connection is not connection:
            return
        will, connection.will = connection.will, None
        self._detach(session, connection)
        if will is not None and not self._is_stopping:
            session.will = (self.now() + wills.delay_s(will), will)
            self.upkeep.delayed.add(session)
        elif self.durable is not None:
            self.durable.wills.ended(session.client_id)
            self.durable.write()  # nothing is sent that would see to it
        if not session.expiry_s:
            self.end(session)  # publishes the will [MQTT-3.1.2-8]
        elif will is not None and not wills.delay_s(will):
            self.publish_will(session)
        self.turns.kick()

    def publish_will(self, session: Session) -> None:
        """Publish the will of a session whose client has gone."""
        self.upkeep.delayed.discard(session)
        if session.will is not None:
            _, will = session.will
            session.will = None
            self.accept(wills.message(will, self.now()), session.client_id)

    # -- time ----------------------------------------------------------------------------------

    def _turn_ended(self) -> None:
        self.gathers_unlogged = self.hooks.carries_unlogged()

    def _flush(self, dirty: list[Outgoing]) -> None:
        if self.durable is not None:
            self.durable.flush(dirty)
            return
        flush(dirty, self.traffic)

    def may_leave(self, connection: Outgoing) -> bool:
        """Whether what a connection has to write stands on nothing that a crash takes back."""
        return self.durable is None or self.durable.may_leave(connection)

    # -- the rest ------------------------------------------------------------------------------

    def refused(self, kind: str, who: str) -> None:
        """Count what was refused or dropped, and log it now and then."""
        self.refusals.count(kind, who, self.now())

    def start_task(self, work: Awaitable[None]) -> None:
        """Run something beside, until it ends or the broker stops."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close_to_clients(self) -> None:
        """Let no client in any more, and send those that are here to another gateway."""
        self.is_closed_to_clients = True
        for connection in list(self.connections):
            if connection.session is not None:
                connection.disconnect(ReasonCode.USE_ANOTHER_SERVER, "this gateway is draining")

    def stop(self) -> None:
        """Close every connection; wills are not published."""
        self._is_stopping = True
        self.upkeep.stop()
        self.turns.commit()
        self.acceptance.finish()
        for connection in list(self.connections):
            if self.durable is not None and connection.session is not None:
                self.durable.wills.ended(connection.session.client_id)
                self.durable.session_away(connection.session)  # in time for the last checkpoint
            connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN)
            if connection.is_paused or connection.is_lingering:
                connection.abort()
        for task in self._tasks:
            task.cancel()
