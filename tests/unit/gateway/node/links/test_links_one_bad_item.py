"""Goal: between gateways, what fails for one costs no other part, batch, link or answer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tree_host import Start, never_linked, started, until

import gateway.node.links.neighbours as neighbours_module
from gateway.log.message_log import MessageLog
from gateway.node.links.backlog import LinkBacklog
from gateway.node.links.commit import GroupCommit
from gateway.node.links.link import Link
from gateway.node.links.neighbours import Neighbours
from gateway.node.links.tcp import TcpAddress
from gateway.node.links.transport import Address
from gateway.trust.shares.password_checks import PasswordChecks
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header, Row


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with started(tmp_path) as make:
        yield make


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[MessageLog]:
    made = MessageLog(tmp_path / "log")
    made.open()
    yield made
    made.close()


class BadPart:
    """A protocol that fails at whatever it is asked."""

    topics: frozenset[bytes] = frozenset((b"$hedgerow/bad",))

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        raise RuntimeError("up")

    def link_down(self, link: int, now: float) -> None:
        raise RuntimeError("down")

    def tree_changed(self, now: float) -> None:
        raise RuntimeError("changed")

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        raise RuntimeError("received")

    def next_timer(self) -> float:
        raise RuntimeError("timer")

    def handle_timer(self, now: float) -> None:
        raise RuntimeError("due")


class GoodPart:
    """One that notes what it is told."""

    topics: frozenset[bytes] = frozenset()

    def __init__(self) -> None:
        self.told: set[str] = set()
        self.due = 0.0

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        self.told.add("up")

    def link_down(self, link: int, now: float) -> None:
        self.told.add("down")

    def tree_changed(self, now: float) -> None:
        self.told.add("changed")

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        self.told.add("received")

    def next_timer(self) -> float:
        return self.due

    def handle_timer(self, now: float) -> None:
        self.told.add("due")
        self.due = math.inf


def message(text: str) -> Entry:
    return Entry("t", text.encode(), 1)


async def test_a_part_that_fails_keeps_no_other_from_links_the_tree_and_its_timer(
    start: Start,
) -> None:
    one, other = await start("gw-a", 2.0), await start("gw-b", 1.0)
    good = GoodPart()
    for part in (BadPart(), good):
        one.node.add_part(part)
    other.neighbours.add_static(one.address)
    await until(lambda: good.told >= {"up", "changed", "due"})
    other.node.publish(message("hello"))
    await until(lambda: one.got == ["gw-b:hello"])
    other.node.drop("gw-a", "the test says so")
    await until(lambda: "down" in good.told)
    counts = one.node.commit.refusals.counts
    assert counts["set aside: link that is up, for BadPart"]
    assert counts["set aside: timer of BadPart"]


async def test_a_batch_that_can_not_be_handed_out_costs_neither_the_link_nor_the_next_one(
    start: Start,
) -> None:
    got: list[bytes] = []

    def deliver(rows: list[Row], header: Header) -> None:
        if rows[0][2] == b"bad":
            raise RuntimeError("a subscriber's own")
        got.extend(row[2] for row in rows)

    one, other = await start("gw-a", 2.0, deliver=deliver), await start("gw-b", 1.0)
    other.neighbours.add_static(one.address)
    await until(lambda: one.node.is_linked("gw-b"))
    (link,) = one.node.links
    for text in ("bad", "good"):
        other.node.publish(message(text))
        await asyncio.sleep(0)
    await until(lambda: got == [b"good"])
    assert list(one.node.links) == [link]
    assert one.node.commit.refusals.counts["set aside: hand out a batch"] == 1


async def test_a_neighbour_is_dialled_again_whatever_an_attempt_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbours_module, "FIRST_RETRY_S", 0.01)
    attempts = 0
    linked = asyncio.Event()

    async def dial(address: Address, _: Callable[[str], None]) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ValueError("what a library did not like about a certificate")
        linked.set()
        await asyncio.get_running_loop().create_future()

    neighbours = Neighbours("gw-a", dial, lambda _: False, never_linked)
    neighbours.add_static(TcpAddress("10.0.0.1", 1))
    async with asyncio.timeout(30):
        await linked.wait()
    assert neighbours.status()["static"] == 1
    await neighbours.stop()


async def test_who_waits_for_the_log_is_answered_though_no_thread_could_be_started(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, type[BaseException]]] = []
    commit = GroupCommit(log, sync=True)

    def tell(name: str) -> Callable[[OSError | None], None]:
        return lambda error: told.append((name, type(error)))

    def no_thread() -> Callable[[], None]:
        raise RuntimeError("can't start new thread")

    made = batch.encode("gw", 1, 1, [message("x")], flags=Flags.LOGGED, origin_time_us=0)
    with monkeypatch.context() as patched:
        patched.setattr(log, "start_sync", no_thread)
        commit.append(made, batch.check(made))
        commit.settle([tell("first")])
        await commit.drain()
    commit.settle([tell("later")])
    await commit.drain()
    assert [name for name, _ in told] == ["first", "later"]
    assert issubclass(told[0][1], OSError)
    assert told[1][1] is type(None)


@pytest.mark.parametrize("sync", [False, True])
async def test_who_fails_at_an_answer_of_the_log_keeps_no_other_from_his(
    log: MessageLog, *, sync: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[OSError | None] = []

    def fail(error: OSError | None) -> None:
        raise RuntimeError("who waited")

    commit = GroupCommit(log, sync=sync)
    commit.settle([fail, told.append])
    await commit.drain()
    assert told == [None]
    assert [one.levelno for one in caplog.records] == [logging.ERROR]


async def test_a_link_whose_backlog_fails_is_sent_batches_as_they_come_again(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught_up = asyncio.Event()

    def fail(position: int, limit_bytes: int) -> None:
        raise ValueError("not foreseen")

    monkeypatch.setattr(log, "reading_on", fail)
    backlog = LinkBacklog(Link(), log, lambda frame, header: None, caught_up.set)
    made = batch.encode("gw", 1, 1, [message("x")], flags=Flags.LOGGED, origin_time_us=0)
    log.append(made, batch.check(made))
    async with asyncio.timeout(30):
        await caught_up.wait()
    await backlog.stop()


async def test_a_password_that_no_thread_can_check_takes_nobody_his_turn() -> None:
    checks = PasswordChecks(1)
    checks._threads.shutdown()
    for _ in range(3):
        with pytest.raises(RuntimeError):
            await checks.run("192.0.2.1", "alice", lambda: True, lambda: True)
    checks._threads = ThreadPoolExecutor(1)
    async with asyncio.timeout(30):
        assert await checks.run("192.0.2.1", "alice", lambda: True, lambda: True)
