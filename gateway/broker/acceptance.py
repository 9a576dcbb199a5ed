"""A loop turn's accepted messages: into the log together, and only then acknowledged.

A QoS 1, 2 or retained message is delivered and acknowledged from the callback of the commit
that took it, in the order of arrival; a QoS 0 message has been delivered already and is handed
in for the tree alone. If the log refuses, nobody is acknowledged: a 5.0 client is told the
reason, a 3.1.1 client is disconnected and sends again [MQTT-3.3.5-2].

What one client published in a row is kept together as a run: it is answered by one write and
delivered topic by topic, so that a message of many costs little more than its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.hooks import Commit
from gateway.broker.message import Message
from gateway.broker.packets import ReasonCode
from gateway.broker.sessions import Session
from tree_handler.batch import Row

if TYPE_CHECKING:
    from gateway.broker.connection import Connection

PUBACK, PUBREC = b"\x40\x02", b"\x50\x02"


class Run:
    """What one client published in a row: one message of any kind, or many plain ones.

    Attributes:
        connection: it came over; None for the broker's own (wills).
        session: the publisher's.
        messages: in the order of arrival; none if a QoS 2 message came again. If there are many,
            they are of QoS 1 and 2 and not retained.
        answers: PUBACK and PUBREC packets without reason, to be sent when these are in the log.

    """

    __slots__ = ("answers", "connection", "messages", "session")

    def __init__(
        self,
        connection: Connection | None,
        session: Session | None,
        messages: list[Message],
        answers: list[bytes],
    ) -> None:
        self.connection = connection
        self.session = session
        self.messages = messages
        self.answers = answers


class Acceptance:
    """Gathers what is accepted during a turn of the event loop.

    Args:
        commit: takes messages and calls back when they are durable.
        deliver: hands the messages of a run to their subscribers.
        settled: called when a commit is dealt with.
        now: the loop's clock, in seconds.
        limit_bytes: beyond so many bytes that wait for the log, publishers are not read from.

    Attributes:
        run: the last run, if more plain messages may be added to it, and to `rows`.
        rows: what the log gets, in the order of arrival: a row for each message of each run.
        unlogged: QoS 0 messages for the tree.

    """

    __slots__ = (
        "_commit",
        "_deliver",
        "_limit_bytes",
        "_now",
        "_runs",
        "_settled",
        "_stalled",
        "_waiting_bytes",
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
    ) -> None:
        self._commit = commit
        self._deliver = deliver
        self._settled = settled
        self._now = now
        self._limit_bytes = limit_bytes
        self._runs: list[Run] = []
        self.run: Run | None = None
        self.rows: list[Row] = []
        self.unlogged: list[Row] = []
        self._waiting_bytes = 0
        self._stalled: set[Connection] = set()

    @property
    def has_due(self) -> bool:
        """Whether there is anything to hand in."""
        return bool(self._runs or self.unlogged)

    def begin(self, run: Run) -> None:
        """Take a run of plain messages, whose rows the caller adds."""
        self._runs.append(run)
        self.run = run

    def add(
        self,
        message: Message,
        session: Session | None,
        connection: Connection | None = None,
        packet_id: int = 0,
    ) -> None:
        """Take any message that is to be logged.

        Args:
            message: the message.
            session: its publisher's; None for the broker's own.
            connection: where it is acknowledged.
            packet_id: negative for QoS 2, 0 if nobody waits.

        """
        answers: list[bytes] = []
        if packet_id:
            answers.append(
                (PUBACK if packet_id > 0 else PUBREC) + abs(packet_id).to_bytes(2, "big")
            )
        self._runs.append(Run(connection, session, [message], answers))
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
        size_bytes = sum([len(row[2]) for row in rows])
        self._waiting_bytes += size_bytes
        self._commit(rows, (), partial(self._committed, runs, size_bytes))
        if self._waiting_bytes > self._limit_bytes:
            self._stall(runs)

    def pass_on(self) -> None:
        """Hand in what the tree alone gets; those here have it already."""
        if not self.unlogged:
            return
        unlogged, self.unlogged = self.unlogged, []
        self._commit((), unlogged, None)

    def _stall(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if run.connection is not None and run.connection not in self._stalled:
                self._stalled.add(run.connection)
                run.connection.stall()

    def _committed(
        self, runs: Sequence[Run], size_bytes: int, _first: int, error: OSError | None
    ) -> None:
        self._waiting_bytes -= size_bytes
        if error is None:
            self._settle(runs)
        else:
            for run in runs:
                _refuse(run)
        if self._stalled and self._waiting_bytes <= self._limit_bytes // 2:
            stalled, self._stalled = self._stalled, set()
            for connection in stalled:
                connection.resume()
        self._settled()

    def _settle(self, runs: Sequence[Run]) -> None:
        now_s = self._now()
        for run in runs:
            if run.messages:  # first: who waits for a message waits longer than its publisher
                self._deliver(run, now_s)
            if run.answers and run.connection is not None:
                run.connection.answer(run.answers)


def _refuse(run: Run) -> None:
    connection, session = run.connection, run.session
    if connection is None or session is None:
        return
    for answer in run.answers:
        packet_id = answer[2] << 8 | answer[3]
        if not run.messages:  # the first time it was taken, by an earlier commit, or refused
            if packet_id in session.incoming:
                connection.answer([answer])
            continue
        if answer.startswith(PUBREC):
            session.incoming.discard(packet_id)
            packet_id = -packet_id
        connection.refuse(packet_id, ReasonCode.QUOTA_EXCEEDED)
