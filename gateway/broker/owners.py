"""The owners of one broker, each made once, of those that it needs, and before who needs it.

What each owner needs it is given in its constructor; here is the one place that knows them all.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.tasks import Tasks
from gateway.base.turns import Turns
from gateway.broker.delivery_rights import DeliveryRights
from gateway.broker.durability.persistence import Persistence
from gateway.broker.each_listener import EachListener
from gateway.broker.hooks import Hooks
from gateway.broker.inbound.admission import Admission
from gateway.broker.inbound.commit_queue import CommitQueue
from gateway.broker.inbound.connection import Service
from gateway.broker.inbound.connections import Connections
from gateway.broker.inbound.disconnections import Disconnections
from gateway.broker.inbound.first_packet import FirstPacketReader
from gateway.broker.inbound.packet_dispatcher import PacketDispatcher
from gateway.broker.inbound.publish_authorizer import PublishAuthorizer
from gateway.broker.inbound.remote_delivery import RemoteDelivery
from gateway.broker.inbound.subscribe_requests import SubscribeRequests
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.channel import PendingWrites
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.local_distribution import LocalDistribution
from gateway.broker.outbound.routes import KnownRoutes, Routes, SubscriberTree
from gateway.broker.retained.bridged import RetainedByBridges
from gateway.broker.retained.neighbours import SharedRetention
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.retained.retained_sender import RetainedSender
from gateway.broker.retained.retention import Retention
from gateway.broker.sessions.inheritance import Inheritance
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.subscriptions import Subscriptions
from gateway.broker.sessions.wills import Wills
from gateway.broker.statistics.traffic import Traffic
from gateway.broker.topics.route_cache import RouteCache
from gateway.broker.topics.subscription_tree import SubscriptionTree
from gateway.broker.upkeep import Upkeep
from gateway.trust.shares.log_room import LogRoom
from gateway.trust.shares.user_rates import UserRates
from gateway.trust.shares.user_turns import UserTurns
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerFoundation:
    """The parts that all owners of one broker need.

    Attributes:
        hooks: those around the broker.
        limits: of clients.
        durability: keeps sessions and retained messages, or forgets them.
        refusals: what was refused or dropped.
        failures: what failed beside.
        tasks: what runs beside.
        turns: of the event loop.
        traffic: what has come and gone.
        now: the clock, in seconds.

    """

    hooks: Hooks
    limits: Limits
    durability: Persistence
    refusals: CountedLines
    failures: Failures
    tasks: Tasks
    turns: Turns
    traffic: Traffic
    now: Callable[[], float]


@dataclass(frozen=True, slots=True)
class DeliveryOwners:
    """The owners that bring messages to subscribers.

    Attributes:
        tree: all subscriptions.
        known_routes: routes that were asked for, until a change touches them.
        rights: who may receive what.
        routes: where topics go.
        delivery: hands messages to sessions.
        retained_backlogs: retained messages that subscribers still get.
        bridged: what bridges have retained.
        retention: what is retained.
        shared_retention: the same, for neighbours.
        distribution: gives out what the log has.
        remote_delivery: gives local subscribers what comes from elsewhere.
        output: what all channels share.

    """

    tree: SubscriberTree
    known_routes: KnownRoutes
    rights: DeliveryRights
    routes: Routes
    delivery: Delivery
    retained_backlogs: RetainedBacklogs
    bridged: RetainedByBridges
    retention: Retention
    shared_retention: SharedRetention
    distribution: LocalDistribution
    remote_delivery: RemoteDelivery
    output: PendingWrites


@dataclass(frozen=True, slots=True)
class SessionOwners:
    """The owners of sessions, and of what waits for the log.

    Attributes:
        budget: what the queues of all sessions hold.
        user_turns: of users whose connections have much to do.
        commit_queue: what the turn has accepted.
        inheritance: what members of shared subscriptions leave.
        subscriptions, wills, sessions: of all clients.

    """

    budget: Budget
    user_turns: UserTurns
    commit_queue: CommitQueue
    inheritance: Inheritance
    subscriptions: Subscriptions
    wills: Wills
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class ClientOwners:
    """The owners that deal with clients.

    Attributes:
        connections: all that are open.
        disconnections: ends clients' connections.
        admission: lets clients in.
        publishing: what comes from clients.
        service: serves connections.
        upkeep: looks after connections and sessions.

    """

    connections: Connections
    disconnections: Disconnections
    admission: Admission
    publishing: PublishAuthorizer
    service: Service
    upkeep: Upkeep


def outbound(ground: BrokerFoundation) -> DeliveryOwners:
    """Make those who bring messages to subscribers."""
    hooks, limits, durability = ground.hooks, ground.limits, ground.durability
    refusals, now = ground.refusals, ground.now
    tree: SubscriberTree = SubscriptionTree(limits.topic_levels)
    known_routes: KnownRoutes = RouteCache()
    rights = DeliveryRights(hooks.permissions, known_routes, ground.tasks)
    routes = Routes(tree, known_routes, limits, rights.may_deliver, hooks.groups)
    delivery = Delivery(hooks.groups)
    retained_backlogs = RetainedBacklogs()
    bridged = RetainedByBridges(limits.retained_messages)
    retention = Retention(limits, durability, refusals, now, hooks.origins)
    distribution = LocalDistribution(
        routes, delivery, retention, bridged, retained_backlogs, ground.failures
    )
    return DeliveryOwners(
        tree=tree,
        known_routes=known_routes,
        rights=rights,
        routes=routes,
        delivery=delivery,
        retained_backlogs=retained_backlogs,
        bridged=bridged,
        retention=retention,
        shared_retention=SharedRetention(
            retention, routes, delivery, retained_backlogs, durability, refusals, ground.turns
        ),
        distribution=distribution,
        remote_delivery=RemoteDelivery(
            routes, delivery, distribution, retention, durability, refusals, now
        ),
        output=PendingWrites(ground.turns, limits, refusals, ground.traffic, now),
    )


def keeping(ground: BrokerFoundation, out: DeliveryOwners) -> SessionOwners:
    """Make those who keep sessions, and what waits for the log."""
    hooks, limits, durability, now = ground.hooks, ground.limits, ground.durability, ground.now
    events = (EachListener(hooks.events, ground.failures),)
    budget = Budget(limits)
    user_turns = UserTurns()
    log_room = LogRoom(limits.uncommitted_bytes, user_turns)
    commit_queue = CommitQueue(
        hooks.tree, out.distribution, out.retention, durability, ground.turns, log_room, now
    )
    may_deliver = None if hooks.permissions is None else out.rights.may_deliver
    inheritance = Inheritance(out.tree, hooks.groups, may_deliver, durability, budget, now)
    subscriptions = Subscriptions(
        out.tree,
        out.known_routes,
        out.delivery,
        inheritance,
        events,
        hooks.interest,
        hooks.groups,
    )
    wills = Wills(commit_queue, durability, ground.refusals, now)
    return SessionOwners(
        budget=budget,
        user_turns=user_turns,
        commit_queue=commit_queue,
        inheritance=inheritance,
        subscriptions=subscriptions,
        wills=wills,
        sessions=Sessions(
            budget, subscriptions, wills, out.retained_backlogs, durability, events, now
        ),
    )


def inbound(ground: BrokerFoundation, out: DeliveryOwners, kept: SessionOwners) -> ClientOwners:
    """Make those who deal with clients."""
    hooks, limits, refusals, now = ground.hooks, ground.limits, ground.refusals, ground.now
    connections = Connections(limits, refusals, now)
    disconnections = Disconnections(kept.sessions, kept.commit_queue, ground.durability)
    sending = RetainedSender(
        out.retention,
        out.delivery,
        out.bridged,
        out.retained_backlogs,
        out.rights.may_deliver,
        limits,
        now,
    )
    admission = Admission(
        kept.sessions, kept.wills, disconnections, sending, hooks, limits, refusals
    )
    publishing = PublishAuthorizer(
        out.routes,
        out.delivery,
        kept.commit_queue,
        hooks.permissions,
        kept.budget,
        refusals,
        now,
    )
    requests = SubscribeRequests(
        kept.subscriptions, sending, hooks.permissions, limits, refusals, hooks.private
    )
    first_packets = FirstPacketReader(
        admission,
        hooks.links,
        connections,
        ground.tasks,
        ground.traffic,
        limits.packet_bytes,
    )
    service = Service(
        first_packets,
        PacketDispatcher(publishing, requests, disconnections, limits, ground.traffic),
        disconnections,
        kept.sessions,
        connections,
        out.output,
        ground.turns,
        limits,
        UserRates(limits.received_bytes_per_s_per_user),
        kept.user_turns,
    )
    return ClientOwners(
        connections=connections,
        disconnections=disconnections,
        admission=admission,
        publishing=publishing,
        service=service,
        upkeep=Upkeep(
            connections, disconnections, kept.sessions, kept.wills, kept.budget, refusals, now
        ),
    )


def make(ground: BrokerFoundation) -> tuple[DeliveryOwners, SessionOwners, ClientOwners]:
    """Make all owners of a broker that stands on this ground."""
    out = outbound(ground)
    kept = keeping(ground, out)
    return out, kept, inbound(ground, out, kept)
