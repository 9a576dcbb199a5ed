"""The data plane of one broker: has its owners made, and ends the turns of the event loop for them.

Who there is, and who needs whom, stands in `owners`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.periodic_timer import PeriodicTimer
from gateway.base.tasks import Tasks
from gateway.base.turns import Turns
from gateway.broker import owners
from gateway.broker.durability.checkpoints import Checkpoints
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.history import History
from gateway.broker.durability.offline_spill import OfflineSpill
from gateway.broker.durability.persistence import Persistence
from gateway.broker.durability.recovered import RecoveryCounts
from gateway.broker.durability.recovery import Recovery
from gateway.broker.durability.restored_sessions import RestoreTargets
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.snapshot import Snapshots
from gateway.broker.durability.store import Store
from gateway.broker.hooks import Hooks
from gateway.broker.inbound.remote_delivery import HAD_BEFORE
from gateway.broker.limits import DROPS, Limits, counted_refusals
from gateway.broker.outbound.channel import Channel
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.session import Session
from gateway.broker.statistics.traffic import Traffic
from gateway.broker.upkeep import SWEEP_S, TURN_S
from gateway.broker.will_recovery import WillRecovery
from gateway.mqtt import ReasonCode

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
        commit_queue: what the turn has accepted.
        remote_delivery: gives local subscribers what comes from elsewhere.
        disconnections: ends clients' connections.
        upkeep: looks after connections and sessions.
        service: serves connections.
        tasks: what runs beside.
        may_deliver: tells whether a session's client may receive a topic.
        checkpoints: what is saved now and then; None before `recover`, and for one that forgets.

    """

    def __init__(
        self,
        hooks: Hooks,
        limits: Limits | None = None,
        durability: Persistence | None = None,
        refusals: CountedLines | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.limits = limits or Limits()
        self.now = now or loop.time
        self.refusals = refusals or counted_refusals(self.now)
        self.traffic = Traffic()
        self._hooks = hooks
        self._durability = durability or Persistence()
        self._failures = Failures(self.refusals)
        self.tasks = Tasks(self._failures)
        self._turns = Turns(self._end_turn)
        out, kept, come = owners.make(
            owners.BrokerFoundation(
                hooks=hooks,
                limits=self.limits,
                durability=self._durability,
                refusals=self.refusals,
                failures=self._failures,
                tasks=self.tasks,
                turns=self._turns,
                traffic=self.traffic,
                now=self.now,
            )
        )
        self.origins = hooks.origins
        self.may_deliver = out.rights.may_deliver
        self.known_routes = out.known_routes
        self.routes = out.routes
        self.delivery = out.delivery
        self.retention = out.retention
        self.shared_retention = out.shared_retention
        self.remote_delivery = out.remote_delivery
        self._output = out.output
        self._retained_backlogs = out.retained_backlogs
        self.budget = kept.budget
        self.commit_queue = kept.commit_queue
        self.subscriptions = kept.subscriptions
        self.wills = kept.wills
        self.sessions = kept.sessions
        self._inheritance = kept.inheritance
        self.connections = come.connections
        self.disconnections = come.disconnections
        self.publishing = come.publishing
        self.service = come.service
        self.upkeep = come.upkeep
        self._admission = come.admission
        self.checkpoints: Checkpoints | None = None
        self._unsafe: list[Channel] = []
        """Channels whose output must wait, for what it stands on could not be looked at."""
        again = lambda: SWEEP_S if self.sweep() else TURN_S  # noqa: E731
        self._sweeping = PeriodicTimer(loop, "sweep", again, SWEEP_S, self._failures)

    # -- who may have what -----------------------------------------------------------------------

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
        self.disconnections.disconnect(session, reason, why)

    # -- life ------------------------------------------------------------------------------------

    def recover(
        self, durable: DurablePersistence, history: History, store: Store, saved: Checkpoint
    ) -> RecoveryCounts:
        """Go on from what was there before the last stop or crash; keep it from now on.

        Args:
            durable: the durability that this was made with.
            history: the log.
            store: for checkpoints.
            saved: the last of them.

        Raises:
            StoreError: a checkpoint is needed at once and can't be written.

        """
        parts = RestoreTargets(
            self.sessions,
            self.subscriptions,
            self.routes,
            self.retention,
            self._retained_backlogs,
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
            OfflineSpill(self.sessions, history, self.limits),
            self.commit_queue.commit,
            self.now,
        )
        checkpoints.go_on_from(saved)
        self.checkpoints = checkpoints
        durable.write()  # what a neighbour brings from now on stands behind where this life begins
        permissions, failures = self._hooks.permissions, self._failures
        left = WillRecovery(
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
            self.disconnections.disconnect(
                session, ReasonCode.USE_ANOTHER_SERVER, "this gateway is draining"
            )

    def stop(self) -> None:
        """Close every connection; wills are not published."""
        self.connections.take_no_more()
        self._sweeping.stop()
        self.commit_queue.commit()
        self.commit_queue.finish()
        # Who is to last comes last: it goes on with what the others leave (`Inheritance`).
        for peer in sorted(self.connections, key=lambda one: one.session_expiry_s > 0):
            channel, session = peer.channel, peer.session
            if session is not None:
                # No will: it is no fault of the client's.
                reason = ReasonCode.SERVER_SHUTTING_DOWN
                self.disconnections.disconnect(session, reason, publishes_will=False)
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
        """Commit, write and hand on what is due; return whether anything is due again."""
        self.commit_queue.commit()
        output, is_due = self._output, False
        channels, output.dirty = output.dirty, []
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
            is_due = self.commit_queue.hand_on()
            if output.is_unread:
                output.is_unread = False
                self.upkeep.clients_do_not_read(self.now())
        except Exception as error:  # as above
            self._failures.failed("end of a turn", error)
            is_due = self.commit_queue.is_due
        return is_due or bool(output.dirty)

    def start(self) -> None:
        """Look at what is due with time from now on, again and again."""
        self._sweeping.start(SWEEP_S)

    def sweep(self) -> bool:
        """Look at all that is due now, and return whether that was all."""
        now_s, tried = self.now(), self._failures.tried
        unsafe, self._unsafe = self._unsafe, []
        for channel in unsafe:
            channel.due()
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
