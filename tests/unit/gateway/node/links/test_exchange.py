"""Each word of a neighbour about batches, and what a gateway does and says then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from loop_turns import turns
from memory_link import MemoryLink
from tree_host import until

from gateway.log.errors import LogError
from gateway.log.message_log import MessageLog
from gateway.node.links.commit import GroupCommit
from gateway.node.links.exchange import Exchange
from gateway.node.links.settings import NodeReceiver
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import DeliverLogged
from tree_handler.replication.repair import Request, Summary
from tree_handler.replication.replication import Replication

STREAM = ("gw-z", 1)
PREFIX = b"$hedgerow/"


def frame_of(first: int, count: int = 1) -> bytes:
    entries = [Entry("a/b", b"%d" % (first + more), qos=1) for more in range(count)]
    return batch.encode(*STREAM, first, entries, flags=Flags.LOGGED, origin_time_us=0)


class TalkingNeighbour:
    """A neighbour of gw-a, to which the tree forwards, and what gw-a takes of it.

    Attributes:
        refuses: whether the log of gw-a takes nothing.

    """

    def __init__(self, log: MessageLog) -> None:
        self.refuses = False
        self.kept: list[bytes] = []
        self.outlived: list[int] = []
        self.delivered: list[bytes] = []
        self._far = MemoryLink()
        receiver = NodeReceiver(
            lambda entry, header: None,
            lambda rows, header: self.delivered.extend(bytes(row[2]) for row in rows),
            outlived=self.outlived.append,
            keep=self._keep,
        )
        commit, links = GroupCommit(log, sync=False), {1: self._far.link}
        core = Replication("gw-a", 5)
        self.exchange = Exchange(core, commit, links, receiver, spool_unlogged=False)
        self.exchange.link_up(1, 0.0)
        self.exchange.forwarding(1, forwards=True)

    def _keep(self, frame: bytes, header: Header) -> LogError | None:
        if self.refuses:
            return LogError("full")
        self.kept.append(frame)
        return None

    def says(self, word: bytes, payload: bytes, now: float = 0.0) -> None:
        self.exchange.receive(self._far.link, PREFIX + word, payload, now)

    def told(self) -> list[tuple[bytes, bytes]]:
        """Return what it is told since this was asked last, but for summaries."""
        found = [(topic.removeprefix(PREFIX), body) for topic, body in self._far.told()]
        return [one for one in found if one[0] != b"summary"]

    async def asked_for(self) -> list[tuple[int, int]]:
        """Return the numbers of `STREAM` that it is asked for since this was called last."""
        await turns(3)
        return [
            one
            for word, body in self.told()
            if word == b"request"
            for one in Request.decode(body).wanted[STREAM]
        ]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    log = MessageLog(tmp_path)
    log.open()
    yield log
    log.close()


@pytest.fixture
async def neighbour(log: MessageLog) -> TalkingNeighbour:
    return TalkingNeighbour(log)


def summary_to(last: int) -> bytes:
    return Summary({STREAM: Intervals([(1, last)])}, completes=True).encode()


async def test_a_neighbour_is_asked_for_what_it_has_and_for_the_next_when_it_has_sent_that(
    neighbour: TalkingNeighbour,
) -> None:
    neighbour.says(b"summary", summary_to(1_000_000))
    ((first, last),) = await neighbour.asked_for()
    assert first == 1 and last < 1_000_000
    neighbour.says(b"repair", frame_of(1))
    assert neighbour.kept == [frame_of(1)]
    assert await neighbour.asked_for() == []
    neighbour.says(b"done", b"")
    assert (await neighbour.asked_for())[0][0] == last + 1


async def test_a_neighbour_whose_batches_the_log_refuses_is_not_asked_again_at_once(
    neighbour: TalkingNeighbour,
) -> None:
    neighbour.says(b"summary", summary_to(2))
    assert await neighbour.asked_for() == [(1, 2)]
    neighbour.refuses = True
    neighbour.says(b"repair", frame_of(1), 1.0)
    neighbour.refuses = False
    neighbour.says(b"done", b"", 1.0)
    assert await neighbour.asked_for() == []
    neighbour.exchange.handle_timer(20.0)
    assert await neighbour.asked_for() == [(1, 2)]
    neighbour.says(b"repair", frame_of(1), 20.0)
    neighbour.says(b"repair", frame_of(2), 20.0)
    neighbour.says(b"done", b"", 20.0)
    neighbour.exchange.handle_timer(40.0)
    assert await neighbour.asked_for() == []


async def test_a_neighbour_that_knows_a_later_life_of_this_gateway_says_so_by_its_summary(
    neighbour: TalkingNeighbour,
) -> None:
    for epoch in (4, 5):
        neighbour.says(b"summary", Summary({("gw-a", epoch): Intervals([(1, 1)])}).encode())
    assert neighbour.outlived == []
    neighbour.says(b"summary", Summary({("gw-a", 6): Intervals([(1, 1)])}).encode())
    assert neighbour.outlived == [6]


async def test_a_neighbour_that_asks_gets_what_the_log_has_and_is_told_that_this_is_all(
    neighbour: TalkingNeighbour, log: MessageLog
) -> None:
    frames = [frame_of(number) for number in (1, 2, 3)]
    for frame in frames:
        log.append(frame, batch.check(frame))
    neighbour.says(b"request", Request({STREAM: Intervals([(2, 9)])}).encode())
    told: list[tuple[bytes, bytes]] = []
    await until(lambda: told.extend(neighbour.told()) is None and (b"done", b"") in told)
    assert told == [(b"repair", frames[1]), (b"repair", frames[2]), (b"done", b"")]


@pytest.mark.parametrize("word", [b"batch", b"repair", b"summary", b"request", b"seek", b"sought"])
async def test_a_word_that_is_none_is_refused(neighbour: TalkingNeighbour, word: bytes) -> None:
    with pytest.raises(ProtocolError):
        neighbour.says(word, b"nonsense")
    assert neighbour.kept == []
    assert neighbour.told() == []


@pytest.mark.parametrize(
    ("first", "last", "delivered"),
    [
        (1, 6, b"456"),  # those before are there no more
        (4, 6, b"456"),
        (5, 6, b"56"),
        (6, 9, b"6789"),
        (1, 3, b""),
    ],
)
async def test_of_what_the_log_has_the_numbers_that_are_due_are_handed_out_and_no_others(
    neighbour: TalkingNeighbour, log: MessageLog, first: int, last: int, delivered: bytes
) -> None:
    for frame in (frame_of(4, 3), frame_of(7, 3)):
        log.append(frame, batch.check(frame))
    neighbour.exchange.take([DeliverLogged(STREAM, first, last)])
    assert b"".join(neighbour.delivered) == delivered


async def test_a_number_that_the_log_has_twice_is_handed_out_once(
    neighbour: TalkingNeighbour, log: MessageLog
) -> None:
    for frame in (frame_of(1, 3), frame_of(2, 4), frame_of(6)):
        log.append(frame, batch.check(frame))
    neighbour.exchange.take([DeliverLogged(STREAM, 1, 6)])
    assert b"".join(neighbour.delivered) == b"123456"


async def test_an_exchange_that_stops_answers_nobody_any_more(
    neighbour: TalkingNeighbour, log: MessageLog
) -> None:
    frame = frame_of(1)
    log.append(frame, batch.check(frame))
    tasks = asyncio.all_tasks()
    neighbour.says(b"request", Request({STREAM: Intervals([(1, 1)])}).encode())
    await neighbour.exchange.stop()
    assert asyncio.all_tasks() == tasks
    assert neighbour.told() == []
