"""What clients are told when the log refuses what they published."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from gateway.broker.hooks import Committed
from gateway.broker.inbound.acceptance import Acceptance
from gateway.broker.inbound.runs import PUBREC, Alone
from gateway.broker.outbound.message import Message
from gateway.links.commit import GroupCommit
from gateway.log.message_log import LogError, MessageLog
from tree_handler import batch
from tree_handler.batch import MAX_BODY_BYTES, MAX_ENTRIES, Entry, Flags, Row


class Client:
    """Session and connection of a publisher, and the answers that it got."""

    def __init__(self) -> None:
        self.incoming: set[int] = set()
        self.answers: list[tuple[str, int]] = []

    def refuse_incoming(self, *packet_ids: int) -> None:
        self.incoming.difference_update(packet_ids)

    def answer(self, answers: Sequence[bytes]) -> None:
        for answer in answers:
            packet_id = int.from_bytes(answer[2:], "big")
            is_2 = answer.startswith(PUBREC)
            self.answers.append(("acknowledged", -packet_id if is_2 else packet_id))

    def refuse(self, packet_id: int, _: int) -> None:
        self.answers.append(("refused", packet_id))

    def stall(self) -> None:
        pass

    def resume(self) -> None:
        pass


class Broker:
    """An acceptance whose commits are settled by the test."""

    def __init__(self) -> None:
        self.handed_in: list[tuple[Sequence[Row], Committed | None]] = []
        self.delivered: list[Message] = []
        self.acceptance = Acceptance(
            lambda logged, _, done: self.handed_in.append((logged, done)),
            lambda run, _: self.delivered.extend(run.messages),
            lambda: None,
            lambda: 0.0,
            1 << 30,
            deliver_together=self._deliver_together,
            stamp=lambda message: None,
        )

    def _deliver_together(self, together: Sequence[Alone], _: float) -> None:
        for connection, _session, message, answer in together:
            self.delivered.append(message)
            connection.answer([answer])

    def publish_alone(self, client: Client, packet_id: int) -> None:
        """A QoS 2 message that came alone in its read."""
        client.incoming.add(packet_id)
        message = Message("t", b"t", b"x", 2, False)
        alone = (client, client, message, PUBREC + packet_id.to_bytes(2, "big"))
        self.acceptance.begin_together().append(alone)  # type: ignore[arg-type]  # as above
        self.acceptance.rows.append(message.row())

    def publish(
        self,
        client: Client,
        packet_id: int,
        *,
        qos: int = 1,
        size: int = 1,
        retain: bool = False,
    ) -> None:
        message = Message("t", b"t", bytes(size), qos, retain)
        if qos == 2:
            client.incoming.add(packet_id)
            packet_id = -packet_id
        self.acceptance.add(message, client, client if packet_id else None, packet_id)  # type: ignore[arg-type]  # what a publisher is asked for

    def again(self, client: Client, packet_id: int) -> None:
        self.acceptance.again(client, client, packet_id)  # type: ignore[arg-type]

    def settle(self, error: OSError | None = None) -> None:
        _, done = self.handed_in.pop(0)
        assert done is not None
        done(0 if error else 1, error)


FULL = LogError("disk full")


def test_a_refused_turn_is_neither_acknowledged_nor_delivered() -> None:
    broker, client = Broker(), Client()
    broker.publish(client, 1)
    broker.publish(client, 2, qos=2)
    broker.acceptance.commit()
    broker.settle(FULL)
    assert client.answers == [("refused", 1), ("refused", -2)]
    assert (broker.delivered, client.incoming) == ([], set())


def test_qos_0_goes_on_when_it_was_to_be_retained_too() -> None:
    broker, client = Broker(), Client()
    broker.publish(client, 0, qos=0, retain=True)
    broker.publish(client, 1)
    broker.acceptance.commit()
    broker.settle(FULL)
    assert [(m.qos, m.retain) for m in broker.delivered] == [(0, True)]


@pytest.mark.parametrize("error", [None, FULL], ids=["taken", "refused"])
def test_a_message_that_comes_again_is_answered_as_its_first_coming(
    error: LogError | None,
) -> None:
    """Its own commit may fare otherwise: nothing of it is in there."""
    broker, client = Broker(), Client()
    broker.publish(client, 7, qos=2)
    broker.acceptance.commit()
    broker.again(client, 7)
    broker.acceptance.commit()
    broker.settle(error)
    broker.settle(None if error else FULL)
    answer = "refused" if error else "acknowledged"
    assert client.answers == [(answer, -7), (answer, -7)]
    assert len(broker.delivered) == (0 if error else 1)


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_refused_identifier_can_be_used_for_another_message(*, is_alone: bool) -> None:
    broker, client = Broker(), Client()

    def publish() -> None:
        if is_alone:
            broker.publish_alone(client, 7)
        else:
            broker.publish(client, 7, qos=2)

    publish()
    broker.acceptance.commit()
    broker.publish(client, 1)  # so that something waits for the log all the time
    broker.acceptance.commit()
    broker.settle(FULL)
    publish()
    broker.acceptance.commit()
    broker.again(client, 7)
    broker.acceptance.commit()
    broker.settle()
    broker.settle()
    broker.settle()
    taken = [("acknowledged", packet_id) for packet_id in (1, -7, -7)]
    assert client.answers == [("refused", -7), *taken]


@pytest.mark.parametrize(
    ("count", "size"),
    [(MAX_ENTRIES + 1, 1), (3, MAX_BODY_BYTES // 2), (2, MAX_BODY_BYTES * 2)],
)
def test_what_is_answered_alike_is_one_batch_of_the_log(count: int, size: int) -> None:
    """Else a part would be in the log and be refused nevertheless."""
    broker, client = Broker(), Client()
    for packet_id in range(1, count + 1):
        broker.publish(client, packet_id, size=size)
    broker.acceptance.commit()
    assert len(broker.handed_in) > 1
    for entries, _ in broker.handed_in:
        assert len(list(batch.cut(entries))) == 1
    assert sum(len(entries) for entries, _ in broker.handed_in) == count
    broker.settle()
    while broker.handed_in:
        broker.settle(FULL)
    assert [packet_id for _, packet_id in client.answers] == list(range(1, count + 1))
    assert len({answer for answer, _ in client.answers}) == 2


# -- group commit ----------------------------------------------------------------------------------


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[MessageLog]:
    made = MessageLog(tmp_path / "log")
    made.open()
    yield made
    made.close()


def frame(first: int) -> tuple[bytes, batch.Header]:
    made = batch.encode("gw", 1, first, [Entry("t", b"", 1)], flags=Flags.LOGGED, origin_time_us=0)
    return made, batch.check(made)


async def test_who_waits_while_a_sync_fails_is_refused_too(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk did not take may have been theirs; the kernel tells it once only."""
    told: list[tuple[str, OSError | None]] = []
    commit = GroupCommit(log, sync=True)

    def tell(name: str) -> Callable[[OSError | None], None]:
        return lambda error: told.append((name, error))

    loop = asyncio.get_running_loop()
    syncing, failing = asyncio.Event(), asyncio.Event()

    def sync() -> None:
        loop.call_soon_threadsafe(syncing.set)
        asyncio.run_coroutine_threadsafe(failing.wait(), loop).result(10)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(log, "start_sync", lambda: sync)
        commit.append(*frame(1))
        commit.settle([tell("first")])
        await syncing.wait()
        commit.append(*frame(2))
        commit.settle([tell("meanwhile")])
        failing.set()
        await commit.drain()
    assert [(name, type(error)) for name, error in told] == [
        ("first", OSError),
        ("meanwhile", OSError),
    ]
    told.clear()
    commit.append(*frame(3))
    commit.settle([tell("later")])
    await commit.drain()
    assert told == [("later", None)]


async def test_a_full_disk_is_counted_and_named_once_a_second_at_most(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    commit = GroupCommit(log, sync=False)

    def full(*_: object) -> None:
        raise LogError("state/log: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", full)
        for _ in range(100):
            assert commit.append(*frame(1)) is not None
    assert commit.refusals["batch refused by the log"] == 100
    assert len(caplog.records) <= 2
    assert "No space left" in caplog.text
    caplog.clear()
    assert commit.append(*frame(1)) is None
    assert [record.getMessage() for record in caplog.records] == ["the log takes batches again"]
