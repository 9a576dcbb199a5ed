"""What clients publish in a row, from the read that brought it to the log's answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gateway.broker.outbound.message import Message
from tree_handler.batch import Row, cut

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.sessions.session import Session

PUBACK, PUBREC = b"\x40\x02", b"\x50\x02"


Alone = tuple["Connection", "Session", Message, bytes]
"""One plain message: its connection, the publisher's session, the message, PUBACK or PUBREC."""


class Run:
    """What one client published in a row: one message of any kind, or many plain ones.

    Attributes:
        connection: it came over; None for the broker's own (wills).
        session: the publisher's.
        messages: in the order of arrival; none if a QoS 2 message came again. If there are many,
            they are of QoS 1 and 2 and not retained.
        answers: PUBACK and PUBREC packets without reason, to be sent when these are in the log;
            one for each message, but for the broker's own and those of QoS 0.
        is_delivered: QoS 0, and delivered already.
        will: the number of the will that it is; 0 for none.

    """

    __slots__ = ("answers", "connection", "is_delivered", "messages", "session", "will")

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
        self.is_delivered = False
        self.will = 0

    def __len__(self) -> int:
        """Messages."""
        return len(self.messages)

    @property
    def retains(self) -> str | None:
        """The topic on which its one message is to be retained when the log has it."""
        if len(self.messages) != 1 or self.is_delivered or not self.messages[0].retain:
            return None
        return self.messages[0].topic

    def packet_id_of_2(self, at: int) -> int:
        """The packet identifier of a QoS 2 message, 0 for another."""
        answer = self.answers[at] if self.answers else b""
        return answer[2] << 8 | answer[3] if answer.startswith(PUBREC) else 0

    def split(self, count: int) -> tuple[Run, Run]:
        """Two runs of it, the first with so many messages; of one with many."""
        of = self.connection, self.session
        return (
            Run(*of, self.messages[:count], self.answers[:count]),
            Run(*of, self.messages[count:], self.answers[count:]),
        )

    @property
    def exchanges(self) -> list[tuple[Session, int]]:
        """The exchanges of QoS 2 messages that it is about: session and packet identifier."""
        session = self.session
        if session is None:
            return []
        return [
            (session, answer[2] << 8 | answer[3])
            for answer in self.answers
            if answer.startswith(PUBREC)
        ]


class Together:
    """Plain messages that came alone, from many clients: a run of each would cost more."""

    __slots__ = ("members",)
    will = 0
    """None of them is one."""

    def __init__(self, members: list[Alone]) -> None:
        self.members = members

    def __len__(self) -> int:
        """Messages."""
        return len(self.members)

    @property
    def messages(self) -> list[Message]:
        """In the order of arrival."""
        return [message for _, _, message, _ in self.members]

    def split(self, count: int) -> tuple[Together, Together]:
        """Two parts of it, the first with so many messages."""
        return Together(self.members[:count]), Together(self.members[count:])


def one_by_one(runs: Iterable[Run | Together]) -> Iterator[Run]:
    """All as runs, for what is seldom done."""
    for run in runs:
        if isinstance(run, Run):
            yield run
        else:
            for connection, session, message, answer in run.members:
                yield Run(connection, session, [message], [answer])


def batches(
    runs: Sequence[Run | Together], rows: Sequence[Row]
) -> Iterator[tuple[Sequence[Run | Together], Sequence[Row]]]:
    """Split a turn so that the log takes or refuses each part as a whole, as one batch."""
    parts = cut(rows)
    if len(parts) <= 1:
        if runs:
            yield runs, rows
        return
    left = deque(runs)
    for part in parts:
        some: list[Run | Together] = []
        room = len(part)
        while left and room >= len(left[0]):
            room -= len(left[0])
            some.append(left.popleft())
        if room:
            begun, rest = left.popleft().split(room)
            some.append(begun)
            left.appendleft(rest)
        yield some, part
