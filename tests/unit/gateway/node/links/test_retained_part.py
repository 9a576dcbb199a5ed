"""Retained messages on a link of a node: compared when it is up, stamped, and told if refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgpack
import pytest
from memory_link import MemoryLink, lone_node

from gateway.log.message_log import MessageLog
from gateway.node.links.retained_part import STAMPED, TOPIC, RetainedPart
from gateway.node.links.send_times import STAMP_BYTES, SendTimes
from gateway.node.links.wire import Additions
from tree_handler.origin_clocks import OriginClocks
from tree_handler.proof import Verdict
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.sync_state import RefusedRetained, RetainedSource
from tree_handler.retained.sync_wire import END, SyncKind, pack
from tree_handler.retained.versions import BUCKETS, HASH_BYTES, RetainedVersions
from tree_handler.seal import Seals
from tree_handler.simulation.model_keys import ModelRing, ModelSigner


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    log = MessageLog(tmp_path)
    log.open()
    yield log
    log.close()


class RetainingNode:
    """A node that has no retained message, and a neighbour, gw-b, which says that it has."""

    def __init__(self, log: MessageLog, *, signs: bool = False, additions: int = 0) -> None:
        seals = Seals(ModelSigner("gw-a"), ModelRing(), "t") if signs else None
        self.node = lone_node(log, seals=seals)
        self.learnt: list[Retained] = []
        self.refused: list[tuple[RefusedRetained, str]] = []
        store = SimpleNamespace(
            versions=RetainedVersions(), may_speak=lambda retained: True, learn=self._learn
        )
        self.part = RetainedPart(
            self.node, cast(RetainedSource, store), refused=lambda *one: self.refused.append(one)
        )
        self.far = MemoryLink(7, additions)
        self.node.links[7] = self.far.link

    def _learn(self, retained: Retained, now: float, *, is_news: bool) -> bool:
        self.learnt.append(retained)
        return True

    def says(self, *fields: object, stamp: bytes | None = None) -> None:
        payload = pack(fields)
        if stamp is None:
            self.part.receive(7, TOPIC, payload, 1.0)
        else:
            self.part.receive(7, STAMPED, stamp + payload, 1.0)

    def is_told(self, stamp: bytes | None = None) -> None:
        """The neighbour has a message that expires: the node asks for it, and is told."""
        self.part.link_up(7, "gw-b", 0.0)
        self.says(int(SyncKind.DIGEST), b"x" * BUCKETS * HASH_BYTES, False, stamp=stamp)
        told = Retained("a/b", RetainedVersion(1, 0, "gw-b", 1), 1, 1, b"on", {}, 60.0)
        self.says(int(SyncKind.ANSWER), END, [told.row()], stamp=stamp)


async def test_a_neighbour_is_told_of_what_is_here_from_when_its_link_is_up_until_it_is_down(
    log: MessageLog,
) -> None:
    there = RetainingNode(log)
    assert there.part.next_timer() == math.inf
    there.part.link_up(7, "gw-b", 10.0)
    due = there.part.next_timer()
    assert 10.0 < due < 11.0
    there.part.handle_timer(due - 0.01)
    assert there.far.told() == []
    there.part.handle_timer(due)
    ((topic, payload),) = there.far.told()
    assert topic == TOPIC
    assert msgpack.unpackb(payload)[0] == SyncKind.ROOT
    there.part.link_down(7, 20.0)
    there.part.handle_timer(there.part.next_timer())
    assert there.part.next_timer() == math.inf


async def test_what_a_neighbour_tells_is_learnt_as_old_as_it_is_and_stamped_as_it_says(
    log: MessageLog,
) -> None:
    there, clocks = RetainingNode(log, additions=Additions.CLOCKS), OriginClocks(("gw-a", 1))
    there.far.link.peer_epoch = 1
    clocks.accepted(("gw-b", 1), 40_000_000, 90_000_000)
    there.part.count_by(SendTimes(there.node.links, clocks, lambda: 90_000_000))
    stamp = (30_000_000).to_bytes(STAMP_BYTES, "big")
    there.is_told(stamp)
    (learnt,) = there.learnt
    assert learnt.left_s == pytest.approx(50.0, abs=1.0)
    ((topic, payload),) = there.far.told()
    assert topic == STAMPED
    assert int.from_bytes(payload[:STAMP_BYTES], "big") == 90_000_000
    assert msgpack.unpackb(payload[STAMP_BYTES:])[0] == SyncKind.ASK
    assert there.refused == []


@pytest.mark.parametrize("stamp", [None, bytes(STAMP_BYTES)])
async def test_what_a_neighbour_tells_is_as_old_as_it_says_where_nothing_is_known_of_clocks(
    log: MessageLog, stamp: bytes | None
) -> None:
    there = RetainingNode(log)
    there.is_told(stamp)
    assert [one.left_s for one in there.learnt] == [60.0]
    assert [topic for topic, _ in there.far.told()] == [TOPIC]


async def test_what_is_not_believed_is_told_of_with_the_neighbour_that_handed_it_over(
    log: MessageLog,
) -> None:
    there = RetainingNode(log, signs=True)
    there.is_told()
    assert there.learnt == []
    ((refused, peer_id),) = there.refused
    assert (refused.retained.topic, refused.verdict, refused.link) == ("a/b", Verdict.UNSIGNED, 7)
    assert peer_id == "gw-b"
    assert there.part.status()["unproven"] == 1
