"""The data plane of one broker: makes its owners, and ends the turns of the event loop for them.

What each owner needs it is given in its constructor; here is the one place that knows them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.broker.durability.checkpoints import Checkpoints
from gateway.broker.durability.durability import Durability
from gateway.broker.durability.durable import Durable
from gateway.broker.durability.history import History
from gateway.broker.durability.recovered import Recovered
from gateway.broker.durability.recovery import Recovery
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.sessions_again import Restorable
from gateway.broker.durability.snapshot import Snapshots
from gateway.broker.durability.sparing import Sparing
from gateway.broker.durability.store import Store
from gateway.broker.each_listener import EachListener
from gateway.broker.hooks import Hooks
from gateway.broker.inbound.acceptance import Acceptance
from gateway.broker.inbound.admission import Admission
from gateway.broker.inbound.arriving import HAD_BEFORE, Arriving
from gateway.broker.inbound.connection import Service
from gateway.broker.inbound.connections import Connections
from gateway.broker.inbound.departures import Departures
from gateway.broker.inbound.greeting import Greeting
from gateway.broker.inbound.publishing import Publishing
from gateway.broker.inbound.reception import Reception
from gateway.broker.inbound.requests import Requests
from gateway.broker.left_wills import LeftWills
from gateway.broker.limits import DROPS, Budget, Limits, counted_refusals
from gateway.broker.outbound.channel import Channel, Output
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.outlet import Outlet
from gateway.broker.outbound.routes import KnownRoutes, Routes, SubscriberTree
from gateway.broker.retained.bridged import RetainedByBridges
from gateway.broker.retained.neighbours import SharedRetention
from gateway.broker.retained.owing import Owing
from gateway.broker.retained.retention import Retention
from gateway.broker.retained.sending import RetainedSending
from gateway.broker.sessions.inheritance import Inheritance
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscriptions import Subscriptions
from gateway.broker.sessions.wills import Wills
from gateway.broker.statistics.traffic import Traffic
from gateway.broker.topics.routes import RouteCache
from gateway.broker.topics.subscriptions import SubscriptionTree
from gateway.broker.upkeep import SWEEP_S, TURN_S, Upkeep
from gateway.event_log.counted_lines import CountedLines
from gateway.event_log.failures import Failures
from gateway.mqtt import ReasonCode
from gateway.repeating import Repeating
from gateway.shares.log_room import LogRoom
from gateway.shares.user_rates import UserRates
from gateway.shares.user_turns import UserTurns
from gateway.tasks import Tasks
from gateway.turns import Turns

LEFT_OUT: Final = "retained message left out of this start for want of room"


class DataPlane:
    """Everything between the sockets of clients and the log.

    Args:
        hooks: those around the broker.
        limits: of clients; the usual ones if not given.
        durability: keeps sessions and retained messages; forgets them if not given.
        refusals: counts what is refused or dropped; a new count if not given.
        now: a clock, in seconds; the loop's if not given.

    Attributes:
        limits: as given.
        origins: decides what is retained of what gateways publish; None for all.
        now: the clock, in seconds.
        refusals: what was refused or dropped.
        traffic: what has come and gone.
        budget: what the queues of all sessions hold.
        routes: where topics go.
        known_routes: those that were asked for, until a change touches them.
        subscriptions, sessions, wills: of all clients.
        publishing, delivery: what comes from clients, and what goes to them.
        retention: what is retained.
        shared_retention: the same, for neighbours.
        connections: all that are open.
        log_room: for what waits for the log.
        acceptance: what the turn has accepted.
        arriving: gives local subscribers what comes from elsewhere.
        departures: ends clients' connections.
        upkeep: looks after connections and sessions.
        service: serves connections.
        tasks: what runs beside.
        checkpoints: what is saved now and then; None before `recover`, and for one that forgets.

    """

    def __init__(
        self,
        hooks: Hooks,
        limits: Limits | None = None,
        durability: Durability | None = None,
        refusals: CountedLines | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._hooks = hooks
        self.origins = hooks.origins
        self._durability = durability or Durability()
        self.checkpoints: Checkpoints | None = None
        self.limits = limits or Limits()
        self.now = now or self._loop.time
        self.refusals = refusals or counted_refusals(self.now)
        self._failures = Failures(self.refusals)
        self.tasks = Tasks(self._failures)
        self.traffic = Traffic()
        self.budget = Budget(self.limits)
        self._turns = Turns(self._end_turn)
        self._user_turns = UserTurns()
        self.log_room = LogRoom(self.limits.uncommitted_bytes, self._user_turns)
        self._output = Output(self._turns, self.limits, self.refusals, self.traffic, self.now)
        self._make_outbound()
        self._make_sessions()
        self.service = self._make_inbound()
        self.upkeep = Upkeep(
            self.connections,
            self.departures,
            self.sessions,
            self.wills,
            self.budget,
            self.refusals,
            self.now,
        )
        again = lambda: SWEEP_S if self.sweep() else TURN_S  # noqa: E731
        self._sweeping = Repeating(self._loop, "sweep", again, SWEEP_S, self._failures)
        self._unsafe: list[Channel] = []
        """Channels whose output must wait, for what it stands on could not be looked at."""

    # -- the owners ------------------------------------------------------------------------------

    def _make_outbound(self) -> None:
        limits, durability, refusals = self.limits, self._durability, self.refusals
        self._tree: SubscriberTree = SubscriptionTree(limits.topic_levels)
        self.known_routes: KnownRoutes = RouteCache()
        self.routes = Routes(
            self._tree, self.known_routes, limits, self.may_deliver, self._hooks.groups
        )
        self.delivery = Delivery(self._hooks.groups)
        self._owing = Owing()
        self._bridged = RetainedByBridges(limits.retained_messages)
        self.retention = Retention(limits, durability, refusals, self.now, self.origins)
        self.shared_retention = SharedRetention(
            self.retention,
            self.routes,
            self.delivery,
            self._owing,
            durability,
            refusals,
            self._turns,
        )
        self._outlet = Outlet(
            self.routes,
            self.delivery,
            self.retention,
            self._bridged,
            self._owing,
            self._failures,
        )
        self.arriving = Arriving(
            self.routes,
            self.delivery,
            self._outlet,
            self.retention,
            durability,
            refusals,
            self.now,
        )

    def _make_sessions(self) -> None:
        durability = self._durability
        events = (EachListener(self._hooks.events, self._failures),)
        self.acceptance = Acceptance(
            self._hooks.tree,
            self._outlet,
            self.retention,
            durability,
            self._turns,
            self.log_room,
            self.now,
        )
        may_deliver = None if self._hooks.permissions is None else self.may_deliver
        self._inheritance = Inheritance(
            self._tree,
            self._hooks.groups,
            may_deliver,
            durability,
            self.budget,
            self.now,
        )
        self.subscriptions = Subscriptions(
            self._tree,
            self.known_routes,
            self.delivery,
            self._inheritance,
            events,
            self._hooks.interest,
            self._hooks.groups,
        )
        self.wills = Wills(self.acceptance, durability, self.refusals, self.now)
        self.sessions = Sessions(
            self.budget,
            self.subscriptions,
            self.wills,
            self._owing,
            durability,
            events,
            self.now,
        )

    def _make_inbound(self) -> Service:
        hooks, limits, refusals = self._hooks, self.limits, self.refusals
        self.connections = Connections(limits, refusals, self.now)
        self.departures = Departures(self.sessions, self.acceptance, self._durability)
        sending = RetainedSending(
            self.retention,
            self.delivery,
            self._bridged,
            self._owing,
            self.may_deliver,
            limits,
            self.now,
        )
        self._admission = Admission(
            self.sessions, self.wills, self.departures, sending, hooks, limits, refusals
        )
        self.publishing = Publishing(
            self.routes,
            self.delivery,
            self.acceptance,
            hooks.permissions,
            self.budget,
            refusals,
            self.now,
        )
        requests = Requests(
            self.subscriptions, sending, hooks.permissions, limits, refusals, hooks.private
        )
        reception = Reception(self.publishing, requests, self.departures, limits, self.traffic)
        greeting = Greeting(
            self._admission,
            hooks.links,
            self.connections,
            self.tasks,
            self.traffic,
            limits.packet_bytes,
        )
        return Service(
            greeting,
            reception,
            self.departures,
            self.sessions,
            self.connections,
            self._output,
            self._turns,
            limits,
            UserRates(limits.received_bytes_per_s_per_user),
            self._user_turns,
        )

    # -- who may have what -----------------------------------------------------------------------

    def may_deliver(self, session: Session, topic: str) -> bool:
        """Whether a session's client may receive a topic; not while a decision takes time."""
        if self._hooks.permissions is None:
            return True
        verdict = self._hooks.permissions.may_deliver(session.client, topic)
        if isinstance(verdict, bool):
            return verdict
        self.tasks.start(self._decided_late(verdict, topic))
        return False

    async def _decided_late(self, verdict: Awaitable[bool], topic: str) -> None:
        if await verdict:
            self.known_routes.touched(topic)

    def forget_decisions(self) -> None:
        """Rules have changed: decide anew about every topic and client."""
        self.known_routes.clear()
        for peer in self.connections:
            if peer.publisher is not None:
                peer.publisher.permitted.forget()
            elif not peer.channel.is_closing:
                peer.channel.abort()  # what is being decided about it is decided by the old rules

    def expel(self, session: Session, reason: ReasonCode, why: str) -> None:
        """End a client's connection and drop its will; its session waits for it."""
        self.wills.void(session)
        self.departures.disconnect(session, reason, why)

    # -- life ------------------------------------------------------------------------------------

    def recover(
        self, durable: Durable, history: History, store: Store, saved: Checkpoint
    ) -> Recovered:
        """Go on from what was there before the last stop or crash; keep it from now on.

        Args:
            durable: the durability that this was made with.
            history: the log.
            store: for checkpoints.
            saved: the last of them.

        Raises:
            StoreError: a checkpoint is needed at once and can't be written.

        """
        parts = Restorable(
            self.sessions,
            self.subscriptions,
            self.routes,
            self.retention,
            self._owing,
            self.budget,
            self._hooks.groups,
        )
        durable.reads_too(store)
        recovery = Recovery(parts, history, durable, self.now())
        found = recovery.run(saved)
        if found.had_before:
            self.refusals.count(HAD_BEFORE, "at the start", found.had_before)
        if found.left_out:
            self.refusals.count(LEFT_OUT, "at the start", found.left_out)
        snapshots = Snapshots(self.sessions, self.retention, durable, self.now)
        checkpoints = Checkpoints(
            durable,
            history,
            store,
            snapshots,
            Sparing(self.sessions, history, self.limits),
            self.acceptance.commit,
            self.now,
        )
        checkpoints.go_on_from(saved)
        self.checkpoints = checkpoints
        durable.write()  # what a neighbour brings from now on stands behind where this life begins
        permissions, failures = self._hooks.permissions, self._failures
        left = LeftWills(
            durable, self.sessions, self.wills, permissions, self.tasks, failures, self.refusals
        )
        for one in recovery.wills_standing:
            left.deal_with(one)
        for estate in recovery.estates:
            self._inheritance.resume(estate)
        return found

    async def keep(self) -> None:
        """The broker has stopped: write a last checkpoint, where there are any."""
        if self.checkpoints is not None:
            await self.checkpoints.stop()

    def close_to_clients(self) -> None:
        """Let no client in any more, and send those that are here to another gateway."""
        self._admission.close()
        for session in list(self.sessions.values()):
            self.departures.disconnect(
                session, ReasonCode.USE_ANOTHER_SERVER, "this gateway is draining"
            )

    def stop(self) -> None:
        """Close every connection; wills are not published."""
        self.connections.take_no_more()
        self._sweeping.stop()
        self.acceptance.commit()
        self.acceptance.finish()
        # Who is to last comes last: it goes on with what the others leave (`Inheritance`).
        for peer in sorted(self.connections, key=lambda one: one.session_expiry_s > 0):
            channel, session = peer.channel, peer.session
            if session is not None:
                # No will: it is no fault of the client's.
                reason = ReasonCode.SERVER_SHUTTING_DOWN
                self.departures.disconnect(session, reason, publishes_will=False)
            else:
                channel.close()
            if channel.is_paused or channel.is_lingering:
                channel.abort()
        self._inheritance.finish()
        self._durability.write()
        self.tasks.stop()

    # -- messages of the broker's own --------------------------------------------------------------

    def announce(self, topic: str, payload: bytes) -> None:
        """Publish a statistic, retained: for those who may read it, and for this broker alone."""
        message = Message(topic, topic.encode(), payload, 0, True)
        self.retention.retain_statistic(message)
        # Without the cache, whose `#` is cheaper to touch where it holds no `$` topics.
        self.delivery.deliver(message, self.routes.unkept(message.key), None, self.now())

    # -- time --------------------------------------------------------------------------------------

    def _end_turn(self) -> bool:
        """Commit, write and hand on what is due; whether anything is due again."""
        self.acceptance.commit()
        channels = self._output.take()
        try:
            self._durability.hold_back(channels)
        except Exception as error:  # nothing leaves that a crash could take back
            self._failures.failed("look at what output stands on", error)
            self._unsafe += channels
            channels = []
        for channel in channels:
            try:
                channel.write()
            except Exception as error:  # the others have their turn all the same
                self._failures.failed("write to a connection", error, str(channel))
                channel.abort()
        try:
            self.acceptance.hand_on()
            if self._output.take_unread():
                self.upkeep.clients_do_not_read(self.now())
        except Exception as error:  # as above
            self._failures.failed("end of a turn", error)
        return self.acceptance.is_due or self._output.is_due

    def start(self) -> None:
        """Look at what is due with time from now on, again and again."""
        self._sweeping.start(SWEEP_S)

    def sweep(self) -> bool:
        """Look at all that is due now; whether that was all."""
        now_s, tried = self.now(), self._failures.tried
        unsafe, self._unsafe = self._unsafe, []
        for channel in unsafe:
            self._output.due(channel)
        is_done = self.upkeep.sweep(now_s)
        tried("what members of shared subscriptions left", self._inheritance.sweep)
        tried("expiry of retained messages", lambda: self.retention.expire(now_s))
        tried("journal", lambda: self._durability.sweep(now_s))
        kept = self.checkpoints
        if kept is not None:
            waits = self._inheritance.is_pending
            tried("begin of a checkpoint", lambda: kept.sweep(now_s, waits=waits))
        self._turns.need()  # and ask anew what the tree carries
        return is_done and not self._inheritance.is_busy

    @property
    def dropped(self) -> int:
        """Messages that did not reach a subscriber for want of room or time."""
        return self.budget.dropped + sum([self.refusals.counts[kind] for kind in DROPS])
