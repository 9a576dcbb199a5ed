"""Clocks of origins on the links of a node: told on at once, and looked at now and then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loop_turns import turns
from memory_link import MemoryLink, lone_node

from gateway.log.message_log import MessageLog
from gateway.node.links.clock_part import LOOK_S, SETTLE_S, ClockFile, ClockPart
from gateway.node.links.node import TreeNode
from gateway.node.links.wire import Additions
from tree_handler import origin_clocks
from tree_handler.errors import ProtocolError
from tree_handler.origin_clocks import OriginClocks

CLOCKS = b"$hedgerow/clocks"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    log = MessageLog(tmp_path)
    log.open()
    yield log
    log.close()


class ClockedNode:
    """gw-a, which has run for an hour, and links of it to gw-b."""

    def __init__(self, log: MessageLog, folder: Path | None = None) -> None:
        self.node: TreeNode = lone_node(log)
        self.now_us = 3_600_000_000
        self.clocks = OriginClocks(("gw-a", 1))
        file = None if folder is None else ClockFile(folder, "gw-a")
        self.part = ClockPart(self.node, self.clocks, lambda: self.now_us, file)
        self.node.add_part(self.part)

    def link(self, number: int, peer_id: str, additions: int = Additions.CLOCKS) -> MemoryLink:
        far = MemoryLink(number, additions)
        far.link.peer_id, far.link.peer_epoch = peer_id, 1
        self.node.links[number] = far.link
        self.part.link_up(number, peer_id, 0.0)
        return far


async def told(far: MemoryLink) -> dict[str, int]:
    """Return what the clock of each gateway read, as gw-a has told over a link."""
    found: dict[str, int] = {}
    await turns(2)
    for topic, payload in far.told():
        assert topic == CLOCKS
        found |= {name: reads_us for name, _, reads_us, _ in origin_clocks.unpack(payload)}
    return found


def hears(there: ClockedNode, link: int, name: str, reads_us: int, now: float = 0.0) -> None:
    (payload,) = origin_clocks.pack([(name, 1, reads_us, True)])
    there.part.receive(link, CLOCKS, payload, now)


async def test_a_neighbour_that_understands_is_told_at_once_and_so_is_what_others_tell(
    log: MessageLog,
) -> None:
    there = ClockedNode(log)
    one, other, old = there.link(1, "gw-b"), there.link(2, "gw-c"), there.link(3, "gw-d", 0)
    for far in (one, other):
        assert await told(far) == {"gw-a": there.now_us}
    hears(there, 1, "gw-b", 7_000_000)
    assert (await told(other)).keys() == {"gw-b"}
    there.part.link_down(2, 1.0)
    there.now_us += 1_000_000_000
    hears(there, 1, "gw-b", 907_000_000)
    for far in (one, other, old):
        assert await told(far) == {}


async def test_clocks_are_looked_at_soon_after_news_and_then_seldom(
    log: MessageLog, tmp_path: Path
) -> None:
    there = ClockedNode(log, tmp_path)
    there.link(1, "gw-b")
    there.part.handle_timer(10.0)
    assert there.part.next_timer() == 10.0 + LOOK_S
    hears(there, 1, "gw-b", 7_000_000, 20.0)
    assert there.part.next_timer() == 20.0 + SETTLE_S
    hears(there, 1, "gw-b", 8_000_000, 21.0)
    assert there.part.next_timer() == 20.0 + SETTLE_S
    there.part.handle_timer(19.0 + SETTLE_S)
    assert there.part.next_timer() == 20.0 + SETTLE_S
    there.part.handle_timer(20.0 + SETTLE_S)
    assert there.part.next_timer() == 20.0 + SETTLE_S + LOOK_S


async def test_what_is_no_word_of_clocks_is_refused(log: MessageLog) -> None:
    there = ClockedNode(log)
    there.link(1, "gw-b")
    with pytest.raises(ProtocolError):
        there.part.receive(1, CLOCKS, b"nonsense", 0.0)
