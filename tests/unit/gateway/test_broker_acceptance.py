"""What publishers are told when the log takes their messages, and when it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.hooks import Committed
from gateway.broker.inbound.acceptance import Acceptance
from gateway.broker.outbound.message import Message


class Publisher:
    """Stands for a connection and its session."""

    def __init__(self) -> None:
        self.incoming: set[int] = set()
        self.answers: list[bytes] = []
        self.refusals: list[int] = []
        self.is_read = True

    def refuse_incoming(self, *packet_ids: int) -> None:
        self.incoming.difference_update(packet_ids)

    def answer(self, answers: list[bytes]) -> None:
        self.answers += answers

    def refuse(self, packet_id: int, _reason: int) -> None:
        self.refusals.append(packet_id)

    def stall(self) -> None:
        self.is_read = False

    def resume(self) -> None:
        self.is_read = True


class Log:
    """Stands for the log: remembers whom to tell."""

    def __init__(self) -> None:
        self.waiting: list[Committed | None] = []
        self.delivered: list[bytes] = []

    def tell(self, error: OSError | None = None) -> None:
        done = self.waiting.pop(0)
        assert done is not None
        done(0 if error else 1, error)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def acceptance(log: Log) -> Acceptance:
    return Acceptance(
        lambda rows, unlogged, done: log.waiting.append(done),
        lambda run, now_s: log.delivered.extend(message.payload for message in run.messages),
        lambda: None,
        lambda: 0.0,
        limit_bytes=100,
        deliver_together=lambda together, now_s: None,
        stamp=lambda message: None,
    )


def publish(acceptance: Acceptance, publisher: Any, packet_id: int, payload: bytes = b"x") -> None:
    qos = 1 if packet_id > 0 else 2
    if qos == 2:
        publisher.incoming.add(-packet_id)
    acceptance.add(Message("t", b"t", payload, qos, False), publisher, publisher, packet_id)


def test_nobody_is_answered_or_served_before_the_log_has_it(
    acceptance: Acceptance, log: Log
) -> None:
    publisher = Publisher()
    publish(acceptance, publisher, 5)
    publish(acceptance, publisher, -6)
    acceptance.commit()
    assert (publisher.answers, log.delivered) == ([], [])
    log.tell()
    assert publisher.answers == [b"\x40\x02\x00\x05", b"\x50\x02\x00\x06"]
    assert log.delivered == [b"x", b"x"]


def test_a_refused_qos_2_message_is_unknown_afterwards(acceptance: Acceptance, log: Log) -> None:
    publisher = Publisher()
    publish(acceptance, publisher, -6)
    acceptance.again(publisher, publisher, 6)  # type: ignore[arg-type]
    acceptance.commit()
    log.tell(OSError(28, "disk full"))
    assert (publisher.answers, publisher.refusals) == ([], [-6, -6])
    assert publisher.incoming == set()


def test_a_message_that_an_earlier_commit_took_is_acknowledged_though_the_log_refuses_now(
    acceptance: Acceptance, log: Log
) -> None:
    publisher = Publisher()
    publish(acceptance, publisher, -6)
    acceptance.commit()
    log.tell()
    acceptance.again(publisher, publisher, 6)  # type: ignore[arg-type]
    publish(acceptance, publisher, 7)
    acceptance.commit()
    log.tell(OSError(28, "disk full"))
    assert publisher.answers == [b"\x50\x02\x00\x06"] * 2
    assert (publisher.refusals, publisher.incoming) == ([7], {6})


def test_a_publisher_is_not_read_from_while_too_much_waits_for_the_log(
    acceptance: Acceptance, log: Log
) -> None:
    publisher = Publisher()
    publish(acceptance, publisher, 1, bytes(101))
    acceptance.commit()
    assert not publisher.is_read
    log.tell()
    assert publisher.is_read
