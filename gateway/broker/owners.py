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
from gateway.broker.inbound.acceptance import Acceptance
from gateway.broker.inbound.admission import Admission
from gateway.broker.inbound.arriving import Arriving
from gateway.broker.inbound.connection import Service
from gateway.broker.inbound.connections import Connections
from gateway.broker.inbound.departures import Departures
from gateway.broker.inbound.greeting import Greeting
from gateway.broker.inbound.publishing import Publishing
from gateway.broker.inbound.reception import Reception
from gateway.broker.inbound.requests import Requests
from gateway.broker.limits import Budget, Limits
from gateway.broker.outbound.channel import Output
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.outlet import Outlet
from gateway.broker.outbound.routes import KnownRoutes, Routes, SubscriberTree
from gateway.broker.retained.bridged import RetainedByBridges
from gateway.broker.retained.neighbours import SharedRetention
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.retained.retention import Retention
from gateway.broker.retained.sending import RetainedSending
from gateway.broker.sessions.inheritance import Inheritance
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.subscriptions import Subscriptions
from gateway.broker.sessions.wills import Wills
from gateway.broker.statistics.traffic import Traffic
from gateway.broker.topics.routes import RouteCache
from gateway.broker.topics.subscriptions import SubscriptionTree
from gateway.broker.upkeep import Upkeep
from gateway.trust.shares.log_room import LogRoom
from gateway.trust.shares.user_rates import UserRates
from gateway.trust.shares.user_turns import UserTurns
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerGround:
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
class Outbound:
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
        outlet: gives out what the log has.
        arriving: gives local subscribers what comes from elsewhere.
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
    outlet: Outlet
    arriving: Arriving
    output: Output


@dataclass(frozen=True, slots=True)
class Keeping:
    """The owners of sessions, and of what waits for the log.

    Attributes:
        budget: what the queues of all sessions hold.
        user_turns: of users whose connections have much to do.
        log_room: for what waits for the log.
        acceptance: what the turn has accepted.
        inheritance: what members of shared subscriptions leave.
        subscriptions, wills, sessions: of all clients.

    """

    budget: Budget
    user_turns: UserTurns
    log_room: LogRoom
    acceptance: Acceptance
    inheritance: Inheritance
    subscriptions: Subscriptions
    wills: Wills
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class Inbound:
    """The owners that deal with clients.

    Attributes:
        connections: all that are open.
        departures: ends clients' connections.
        admission: lets clients in.
        publishing: what comes from clients.
        service: serves connections.
        upkeep: looks after connections and sessions.

    """

    connections: Connections
    departures: Departures
    admission: Admission
    publishing: Publishing
    service: Service
    upkeep: Upkeep


def outbound(ground: BrokerGround) -> Outbound:
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
    outlet = Outlet(routes, delivery, retention, bridged, retained_backlogs, ground.failures)
    return Outbound(
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
        outlet=outlet,
        arriving=Arriving(routes, delivery, outlet, retention, durability, refusals, now),
        output=Output(ground.turns, limits, refusals, ground.traffic, now),
    )


def keeping(ground: BrokerGround, out: Outbound) -> Keeping:
    """Make those who keep sessions, and what waits for the log."""
    hooks, limits, durability, now = ground.hooks, ground.limits, ground.durability, ground.now
    events = (EachListener(hooks.events, ground.failures),)
    budget = Budget(limits)
    user_turns = UserTurns()
    log_room = LogRoom(limits.uncommitted_bytes, user_turns)
    acceptance = Acceptance(
        hooks.tree, out.outlet, out.retention, durability, ground.turns, log_room, now
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
    wills = Wills(acceptance, durability, ground.refusals, now)
    return Keeping(
        budget=budget,
        user_turns=user_turns,
        log_room=log_room,
        acceptance=acceptance,
        inheritance=inheritance,
        subscriptions=subscriptions,
        wills=wills,
        sessions=Sessions(
            budget, subscriptions, wills, out.retained_backlogs, durability, events, now
        ),
    )


def inbound(ground: BrokerGround, out: Outbound, kept: Keeping) -> Inbound:
    """Make those who deal with clients."""
    hooks, limits, refusals, now = ground.hooks, ground.limits, ground.refusals, ground.now
    connections = Connections(limits, refusals, now)
    departures = Departures(kept.sessions, kept.acceptance, ground.durability)
    sending = RetainedSending(
        out.retention,
        out.delivery,
        out.bridged,
        out.retained_backlogs,
        out.rights.may_deliver,
        limits,
        now,
    )
    admission = Admission(kept.sessions, kept.wills, departures, sending, hooks, limits, refusals)
    publishing = Publishing(
        out.routes,
        out.delivery,
        kept.acceptance,
        hooks.permissions,
        kept.budget,
        refusals,
        now,
    )
    requests = Requests(
        kept.subscriptions, sending, hooks.permissions, limits, refusals, hooks.private
    )
    greeting = Greeting(
        admission,
        hooks.links,
        connections,
        ground.tasks,
        ground.traffic,
        limits.packet_bytes,
    )
    service = Service(
        greeting,
        Reception(publishing, requests, departures, limits, ground.traffic),
        departures,
        kept.sessions,
        connections,
        out.output,
        ground.turns,
        limits,
        UserRates(limits.received_bytes_per_s_per_user),
        kept.user_turns,
    )
    return Inbound(
        connections=connections,
        departures=departures,
        admission=admission,
        publishing=publishing,
        service=service,
        upkeep=Upkeep(
            connections, departures, kept.sessions, kept.wills, kept.budget, refusals, now
        ),
    )


def make(ground: BrokerGround) -> tuple[Outbound, Keeping, Inbound]:
    """Make all owners of a broker that stands on this ground."""
    out = outbound(ground)
    kept = keeping(ground, out)
    return out, kept, inbound(ground, out, kept)
