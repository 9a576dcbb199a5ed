"""A loop turn's accepted messages: into the log together, and only then acknowledged.

A QoS 1, 2 or retained message is delivered and acknowledged from the callback of the commit
that took it, in the order of arrival; a QoS 0 message has been delivered already and is handed
in for the tree alone. If the log refuses, nobody is acknowledged: a 5.0 client is told the
reason, a 3.1.1 client is disconnected and sends again [MQTT-3.3.5-2]. QoS 0 goes on: a message
that was to be retained is delivered all the same.

What one client published in a row is kept together as a run: it is answered by one write and
delivered topic by topic, so that a message of many costs little more than its bytes.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.hooks import Commit
from gateway.broker.inbound.runs import PUBACK, PUBREC, Alone, Run, Together, batches, one_by_one
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.session import Session
from gateway.mqtt import ReasonCode
from tree_handler.batch import Row

if TYPE_CHECKING:
    from gateway.broker.durability.durable import Durable
    from gateway.broker.durability.journal import Ref
    from gateway.broker.inbound.connection import Connection

TURN_S = 0.01
"""Delivering goes on for so long before others have their turn."""
PORTION = 32
"""Messages before the first look at the clock; more while they cost little."""


@dataclass(slots=True)
class _Commit:
    """What is left to deliver of a commit.

    Attributes:
        runs: in their order.
        first: the number of their first message in the log.
        size_bytes: of all that was committed.

    """

    runs: deque[Run | Together]
    first: int
    size_bytes: int


class Acceptance:
    """Gathers what is accepted during a turn of the event loop.

    Args:
        commit: takes messages and calls back when they are durable.
        deliver: hands the messages of a run to their subscribers.
        settled: called when a commit is dealt with.
        now: the loop's clock, in seconds.
        limit_bytes: beyond so many bytes that wait for the log, publishers are not read from.
        deliver_together: does it with messages that came alone, and acknowledges them.
        stamp: gives a message that is to be retained its version.

    Attributes:
        run: the last run, if more plain messages may be added to it, and to `rows`.
        rows: what the log gets, in the order of arrival: a row for each message of each run.
        unlogged: QoS 0 messages for the tree.
        durable: keeps durable sessions, where there are any.

    """

    __slots__ = (
        "_commit",
        "_deliver",
        "_deliver_together",
        "_limit_bytes",
        "_now",
        "_refused",
        "_runs",
        "_settled",
        "_settling",
        "_stalled",
        "_stamp",
        "_to_retain",
        "_waiting_bytes",
        "durable",
        "rows",
        "run",
        "unlogged",
    )

    def __init__(
        self,
        commit: Commit,
        deliver: Callable[[Run, float], None],
        settled: Callable[[], None],
        now: Callable[[], float],
        limit_bytes: int,
        *,
        deliver_together: Callable[[Sequence[Alone], float], None],
        stamp: Callable[[Message], None],
    ) -> None:
        self._commit = commit
        self._deliver = deliver
        self._deliver_together = deliver_together
        self._settled = settled
        self._now = now
        self._limit_bytes = limit_bytes
        self._stamp = stamp
        self._runs: list[Run | Together] = []
        self.run: Run | None = None
        self.rows: list[Row] = []
        self.unlogged: list[Row] = []
        self._waiting_bytes = 0
        self._stalled: set[Connection] = set()
        self._refused: set[tuple[Session, int]] = set()
        """QoS 2 messages refused while others wait, which may be the same ones again."""
        self._to_retain: Counter[str] = Counter()
        self.durable: Durable | None = None
        self._settling: deque[_Commit] = deque()
        """Those that are durable and not delivered to the end, in their order."""

    @property
    def waiting_bytes(self) -> int:
        """Payloads of what is accepted and not delivered yet."""
        return self._waiting_bytes

    @property
    def has_due(self) -> bool:
        """Whether there is anything to hand in."""
        return bool(self._runs or self.unlogged)

    def is_to_retain(self, topic: str) -> bool:
        """Whether a message that waits for the log is to be retained on a topic."""
        return topic in self._to_retain

    def begin(self, run: Run) -> None:
        """Take a run of plain messages, whose rows the caller adds."""
        self._runs.append(run)
        self.run = run

    def begin_together(self) -> list[Alone]:
        """Take plain messages that came alone, which the caller adds, and their rows."""
        members: list[Alone] = []
        self._runs.append(Together(members))
        self.run = None
        return members

    def add(
        self,
        message: Message,
        session: Session | None,
        connection: Connection | None = None,
        packet_id: int = 0,
        *,
        is_delivered: bool = False,
        will: int = 0,
    ) -> None:
        """Take any message that is to be logged.

        Args:
            message: the message.
            session: its publisher's; None for the broker's own.
            connection: where it is acknowledged.
            packet_id: negative for QoS 2, 0 if nobody waits.
            is_delivered: it is of QoS 0 and has been.
            will: the number of the will that it is.

        """
        if message.retain:
            self._stamp(message)
        answers: list[bytes] = []
        if packet_id:
            answers.append(
                (PUBACK if packet_id > 0 else PUBREC) + abs(packet_id).to_bytes(2, "big")
            )
        run = Run(connection, session, [message], answers)
        run.is_delivered = is_delivered
        run.will = will
        if run.retains:
            self._to_retain[run.retains] += 1
        self._runs.append(run)
        self.rows.append(message.row())
        self.run = None

    def again(self, session: Session, connection: Connection, packet_id: int) -> None:
        """A QoS 2 message that came before came again: acknowledge it after what came before."""
        self._runs.append(Run(connection, session, [], [PUBREC + packet_id.to_bytes(2, "big")]))
        self.run = None

    def commit(self) -> None:
        """Hand in what the log is to have."""
        if not self._runs:
            return
        runs, self._runs = self._runs, []
        rows, self.rows = self.rows, []
        self.run = None
        for some, some_rows in batches(runs, rows):
            self._commit_runs(some, some_rows)

    def _commit_runs(self, runs: Sequence[Run | Together], rows: Sequence[Row]) -> None:
        size_bytes = sum([len(row[2]) for row in rows]) + len(runs)
        self._waiting_bytes += size_bytes
        error = None
        if self.durable is not None and rows:
            error = self.durable.precede(runs)
        if error is None:
            self._commit(rows, (), partial(self._committed, runs, size_bytes))
        else:
            self._committed(runs, size_bytes, 0, error)
        if self._waiting_bytes > self._limit_bytes:
            self._stall(runs)

    def pass_on(self) -> None:
        """Hand in what the tree alone gets; those here have it already."""
        if not self.unlogged:
            return
        unlogged, self.unlogged = self.unlogged, []
        self._commit((), unlogged, None)

    def _stall(self, runs: Sequence[Run | Together]) -> None:
        for run in one_by_one(runs):
            if run.connection is not None and run.connection not in self._stalled:
                self._stalled.add(run.connection)
                run.connection.stall()

    def _committed(
        self, runs: Sequence[Run | Together], size_bytes: int, first: int, error: OSError | None
    ) -> None:
        if error is not None:
            if self.durable is not None:
                self.durable.journal.was_refused()
            self._refuse(runs)
            runs = ()
        self._settling.append(_Commit(deque(runs), first, size_bytes))
        if len(self._settling) == 1:
            self._go_on()

    def finish(self) -> None:
        """Deliver and acknowledge all that is durable, however long it takes."""
        self._settle(math.inf)

    def _go_on(self) -> None:
        self._settle(self._now() + TURN_S)
        if self._settling:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _settle(self, until_s: float) -> None:
        """Deliver and acknowledge in the order of the commits, until a time or the end."""
        while self._settling:
            commit = self._settling[0]
            self._settle_some(commit, until_s)
            if commit.runs:
                break
            self._settling.popleft()
            self._waiting_bytes -= commit.size_bytes
        if not self._waiting_bytes:
            self._refused.clear()
        if self._stalled and self._waiting_bytes <= self._limit_bytes // 2:
            stalled, self._stalled = self._stalled, set()
            for connection in stalled:
                connection.resume()
        self._settled()

    def _settle_some(self, commit: _Commit, until_s: float) -> None:
        now_s = self._now()
        journal = None if self.durable is None or not commit.first else self.durable.journal
        runs = commit.runs
        portion = unlooked = PORTION
        while runs:
            run = runs.popleft()
            count = len(run)
            if count > unlooked:
                run, rest = run.split(unlooked)
                runs.appendleft(rest)
                count = unlooked
            if journal is not None:
                if journal.has_sessions or (count == 1 and run.messages[0].retain):
                    _number(run, (journal.own, commit.first))
                commit.first += count
            if isinstance(run, Together):
                self._settle_together(run, now_s)
            else:
                self._settle_run(run, now_s)
            unlooked -= count
            if unlooked <= 0 and runs:
                left_s = until_s - self._now()
                if left_s < 0:
                    break
                if left_s > TURN_S / 2:
                    portion *= 2
                unlooked = portion
        if journal is not None:
            journal.has_delivered(journal.own, commit.first - 1)

    def _settle_run(self, run: Run, now_s: float) -> None:
        if not run.messages:
            self._answer_again(run)
            return
        if self._to_retain:
            self._is_dealt_with(run)
        if self._refused:
            self._refused.difference_update(run.exchanges)
        if not run.is_delivered:  # first: who waits for it waits longer than its publisher
            self._deliver(run, now_s)
        elif self.durable is not None:
            self.durable.retained_placed(run.messages[0])
        if run.answers and run.connection is not None:
            run.connection.answer(run.answers)

    def _settle_together(self, together: Together, now_s: float) -> None:
        if self._refused:
            for run in one_by_one((together,)):
                self._refused.difference_update(run.exchanges)
        self._deliver_together(together.members, now_s)

    def _answer_again(self, run: Run) -> None:
        """What came before says whether it is in the log."""
        connection = run.connection
        assert connection is not None
        for exchange in run.exchanges:
            if exchange in self._refused:
                connection.refuse(-exchange[1], ReasonCode.QUOTA_EXCEEDED)
            else:
                connection.answer(run.answers)

    def _is_dealt_with(self, run: Run) -> None:
        if (topic := run.retains) is not None and topic in self._to_retain:
            self._to_retain[topic] -= 1
            if not self._to_retain[topic]:
                del self._to_retain[topic]

    def _refuse(self, runs: Sequence[Run | Together]) -> None:
        for run in one_by_one(runs):
            self._is_dealt_with(run)
            if not run.messages:
                self._answer_again(run)
            elif not run.messages[0].qos:  # it was to be retained; QoS 0 goes on
                if not run.is_delivered:
                    self._deliver(run, self._now())
            elif run.connection is not None and run.session is not None:
                exchanges = run.exchanges
                self._refused.update(exchanges)
                run.session.refuse_incoming(*(packet_id for _, packet_id in exchanges))
                for answer in run.answers:
                    number = int.from_bytes(answer[2:], "big")
                    packet_id = -number if answer.startswith(PUBREC) else number
                    run.connection.refuse(packet_id, ReasonCode.QUOTA_EXCEEDED)


def _number(run: Run | Together, first: Ref) -> None:
    """Tell messages where they stand in the log; those of them that anybody may ask."""
    own, first_number = first
    for number, message in enumerate(run.messages, first_number):
        message.ref = (own, number)
