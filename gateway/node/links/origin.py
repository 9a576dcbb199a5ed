"""Messages that this gateway publishes: batched, logged, settled, and sent on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from gateway.base import wall_clock
from gateway.base.event_log.failures import Failures
from gateway.log.commit_callback import Committed
from gateway.log.errors import PartlyTakenError
from gateway.log.message_log import AfterSync, LogError
from gateway.node.links.commit import GroupCommit
from gateway.node.links.gathering import Gathering
from gateway.node.links.link import Link
from gateway.node.links.outbox import Outbox
from gateway.node.links.scope import Scope
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header, Row
from tree_handler.replication.replication import Append, Replication, ReplicationAction, RouteBatch
from tree_handler.routing.runs import Run


class Router(Protocol):
    """Sends clients' messages to those who want them, where they are not flooded."""

    def runs(self, rows: Sequence[Row]) -> Iterable[Run]:
        """Cut messages so that a batch goes to the same gateways as a whole."""

    def address(self, run: Run, flags: int) -> bytes:
        """Return what the seal of a run's batch says of whom it is for.

        Nothing if it says nothing.
        """

    def accepted(self, frame: bytes, header: Header, run: Run) -> Iterable[Any]:
        """Take a numbered batch of a run, which is in the log if it is to be."""

    def carry_out(self, actions: Iterable[Any]) -> None:
        """Do it, and what replication decided."""


class TopicListener(Protocol):
    """Hears what this gateway's own clients publish: sensors and actuators, or its page."""

    @property
    def is_listening(self) -> bool:
        """Return whether anything is of interest now."""

    def hear(self, rows: Iterable[Row]) -> None:
        """Take messages."""


class Origin:
    """This gateway as the origin of batches.

    Args:
        replication: numbers the batches and says where they go.
        commit: appends them to the log, and tells who waits when it has them.
        replicate: carries out what replication decides.
        scope: which messages of clients leave this gateway.
        links: to neighbours, as they come and go.
        spool_unlogged: whether QoS 0 messages are wanted without any, too.

    """

    def __init__(
        self,
        replication: Replication,
        commit: GroupCommit,
        replicate: Callable[[Iterable[ReplicationAction]], None],
        scope: Scope,
        links: Mapping[int, Link],
        *,
        spool_unlogged: bool,
    ) -> None:
        self._links = links
        self._spool_unlogged = spool_unlogged
        self._replication = replication
        self._commit = commit
        self._replicate = replicate
        self._scope = scope
        self._router: Router | None = None
        self._listeners: list[TopicListener] = []
        self._failures = Failures(commit.refusals)
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(self.flush)
        is_sealed = replication.settings.seals is not None
        self._gathering = Gathering(self._send_gathered) if is_sealed else None

    def _send_gathered(self, rows: Sequence[Row]) -> None:
        self._accept([(Flags.NONE, part) for part in batch.cut(rows)], [])

    def stop(self) -> None:
        """Make batches of all that waits."""
        self.flush()
        if self._gathering is not None:
            self._gathering.end()

    def route(self, router: Router) -> None:
        """Have a router send clients' messages: see `TreeNode.route`."""
        self._router = router

    def overheard_by(self, listener: TopicListener) -> None:
        """Let one more hear what clients publish: what is logged when the log has it."""
        self._listeners.append(listener)

    def rescope(self, scope: Scope) -> None:
        """Change which topics leave this gateway: see `TreeNode.rescope`."""
        self._scope = scope

    def leaves(self, topic: str) -> bool:
        """Return whether clients' messages on a topic are for other gateways, too."""
        return self._scope.leaves(topic)

    def publish(self, entry: Entry, *, control: bool) -> asyncio.Future[None] | None:
        """Number, log and send a message: see `TreeNode.publish`."""
        return self._outbox.add(entry, control=control)

    @property
    def carries_unlogged(self) -> bool:
        """Return whether QoS 0 messages are wanted: to be sent to someone, or to be heard."""
        if self._links or self._spool_unlogged:
            return True
        for listener in self._listeners:  # noqa: SIM110  # each turn asks: no generator for it
            if listener.is_listening:
                return True
        return False

    def publish_all(
        self, logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None
    ) -> None:
        """Accept messages that local clients handed in during one turn: `hooks.Tree`.

        Who listens hears them first. What was published by `publish` before, or by who has heard
        them, is a batch of its own, and an earlier one.
        """
        for listener in self._listeners:
            if listener.is_listening:
                if unlogged:
                    self._have_hear(listener, unlogged)
                if logged:
                    done = partial(self._heard, listener, logged, done)
        if not self._links and not self._spool_unlogged:  # they were for listeners alone
            unlogged = ()
        if self._outbox.rows:
            self.flush()
        if self._gathering is not None and unlogged:
            unlogged = self._gathering.add(unlogged)
        gathered: list[tuple[int, Sequence[Row]]] = []
        if logged:
            gathered.append((Flags.LOGGED, logged))
        if unlogged:
            gathered += [(Flags.NONE, part) for part in batch.cut(unlogged)]
        self._accept(gathered, [], done)

    def _heard(
        self,
        listener: TopicListener,
        logged: Sequence[Row],
        done: Committed | None,
        first: int,
        error: OSError | None,
    ) -> None:
        """Let a listener hear what the log has, then tell who waits for that."""
        if error is None:
            self._have_hear(listener, logged)
        if done is not None:
            done(first, error)

    def _have_hear(self, listener: TopicListener, rows: Sequence[Row]) -> None:
        """Let a listener hear; one that fails keeps no message from anybody else."""
        self._failures.tried(
            "messages heard by a part of this gateway", partial(listener.hear, rows)
        )

    def flush(self) -> None:
        """Make batches of what `publish` has gathered."""
        if self._outbox.rows:
            gathered, waiting = self._outbox.take()
            parts = [(flags, part) for flags in gathered for part in batch.cut(gathered[flags])]
            self._accept(parts, waiting)

    def _accept(
        self,
        gathered: Iterable[tuple[int, Sequence[Row]]],
        waiting: list[AfterSync],
        done: Committed | None = None,
    ) -> None:
        """Make batches of messages, and have those who wait told what becomes of them.

        Args:
            gathered: the messages of each batch, with its flags.
            waiting: these are told whether the log has them; the list is this call's.
            done: is told as well, with their numbers.

        """
        try:
            refused, taken, first = self._log_and_send(gathered)
        except Exception as error:  # whoever waits gets an answer
            if done is not None:
                waiting.append(partial(done, 0))
            self._commit.refuse(waiting, LogError(f"not logged: {error!r}"))
            raise
        if done is not None:
            waiting.append(partial(done, first))
        if refused is None:
            self._commit.settle(waiting)
        elif not taken:
            self._commit.refuse(waiting, refused)
        else:  # what was taken stands in the log, and nobody may send it again
            partly = PartlyTakenError(refused, taken)
            self._commit.settle([_told_partly(done, partly) for done in waiting])

    def _log_and_send(
        self, gathered: Iterable[tuple[int, Sequence[Row]]]
    ) -> tuple[LogError | None, int, int]:
        """Append batches up to the first that is refused.

        Returns:
            Why it is refused, how many of clients' messages were taken, and the number of the first
            of them, 0 for none.

        Nothing goes into the log behind what it refused: batches depend on those before them.
        """
        now_us = wall_clock.now_us()
        router = self._router
        sends: list[Any] = []
        refused: LogError | None = None
        taken = first = 0
        for flags, rows in gathered if self._scope.is_everything else self._by_scope(gathered):
            is_routed = router is not None and not flags & (Flags.CONTROL | Flags.LOCAL)
            for run in router.runs(rows) if router and is_routed else (Run(rows),):
                if refused is not None and flags & Flags.LOGGED:
                    continue
                address = router.address(run, flags) if router and is_routed else b""
                for action in self._replication.publish(run.rows, flags, now_us, address):
                    if not isinstance(action, Append):
                        sends += self._routed(action, run)
                    elif refused is None:
                        refused = self._commit.append(action.frame, action.header)
                        if refused is None:
                            if not action.header.control:
                                first = first or action.header.first
                                taken += action.header.count
                            for after in self._replication.appended(action):
                                sends += self._routed(after, run)
        if sends:  # when this turn has written: local clients do not wait for links
            self._loop.call_soon(router.carry_out if router else self._replicate, sends)
        return refused, taken, first

    def _routed(self, action: ReplicationAction, run: Run) -> Iterable[Any]:
        if self._router is None or not isinstance(action, RouteBatch):
            return (action,)
        return self._router.accepted(action.frame, action.header, run)

    def _by_scope(
        self, gathered: Iterable[tuple[int, Sequence[Row]]]
    ) -> Iterator[tuple[int, Sequence[Row]]]:
        """Cut so that a batch stays here as a whole or leaves as a whole."""
        for flags, rows in gathered:
            if flags & Flags.CONTROL:
                yield flags, rows
                continue
            for stays, run in self._scope.runs(rows):
                if not stays:
                    yield flags, run
                elif flags & Flags.LOGGED:  # else nobody is to get it
                    yield flags | Flags.LOCAL, run


def _told_partly(done: AfterSync, partly: PartlyTakenError) -> AfterSync:
    def told(error: OSError | None) -> None:
        done(partly if error is None else error)

    return told
