"""A gateway follows the tree: it asks, it answers for itself, and says who is suspect or absent."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gateway.node.links.node import TreeNode
from gateway.node.members.membership import ABSENT_TOPIC, TOPIC, Members
from gateway.node.members.watch import (
    ANSWER_TOPIC,
    ANSWERS_AT_ONCE,
    ANSWERS_PER_S,
    ASK_TOPIC,
    NAMED_AT_ONCE,
    MemberWatch,
)
from tree_handler.batch import Entry, Header
from tree_handler.errors import ProtocolError
from tree_handler.members.member import MemberRecord
from tree_handler.members.suspicion import Patience, Question

OWN = "gw-a"


class Standing:
    """A node whose tree is as a test says, the members that it knows, and what was sent."""

    def __init__(self, folder: Path, root: str = OWN) -> None:
        self.reached: frozenset[str] = frozenset()
        self.sent: list[Entry] = []
        self._told_of_moves: list[Callable[[float], None]] = []
        self.locator = self
        self.exchange = SimpleNamespace(tell_of_trims=lambda _: None, tell_of_losses=lambda _: None)
        self.next_control = 1
        self.tree = SimpleNamespace(identity=SimpleNamespace(gateway_id=OWN), root_id=root)
        self.members = Members(folder)
        for gateway_id in (OWN, "gw-b", "gw-c"):
            self.members.known.update(
                MemberRecord(gateway_id, 1, 1, "", "", "10.0.0.1", 1883, capability=1.0)
            )
        self.now = 1_000.0
        self.watch = MemberWatch(cast(TreeNode, self), self.members, 60.0, lambda: self.now)

    def tell_of_moves(self, told: Callable[[float], None]) -> None:
        self._told_of_moves.append(told)

    def moved(self, now: float) -> None:
        for told in self._told_of_moves:
            told(now)

    def reschedule(self) -> None:
        assert self.watch.next_timer() < math.inf

    def publish(self, entry: Entry, *, control: bool) -> None:
        assert control
        self.sent.append(entry)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.watch.next_timer()) <= until:
            self.now = max(self.now, due)
            self.watch.handle_timer(self.now)
        self.now = until

    def hear(self, topic: str, origin: str, payload: bytes = b"") -> None:
        header = SimpleNamespace(origin=origin, epoch=1)
        self.watch.hear(Entry(topic, payload), cast(Header, header))

    def told(self) -> list[int]:
        """The versions of its record that it has told."""
        own = [entry for entry in self.sent if entry.topic == TOPIC + OWN]
        return [MemberRecord.decode(entry.payload).version for entry in own]

    @property
    def topics(self) -> list[str]:
        return [entry.topic for entry in self.sent]


def test_who_leaves_the_tree_is_asked_then_suspect_and_absent_in_the_end(
    tmp_path: Path,
) -> None:
    at = Standing(tmp_path)
    at.reached = frozenset({"gw-b", "gw-c"})
    at.moved(at.now)
    at.pass_time(10.0)
    assert at.sent == []
    at.reached = frozenset({"gw-b"})
    at.moved(at.now)
    at.pass_time(5.0)
    assert at.topics == [ASK_TOPIC]
    assert Question.decode(at.sent[0].payload).ids == ("gw-c",)
    assert at.members.known.suspects == {"gw-c"}
    assert at.members.known.get("gw-c") is not None
    at.pass_time(80.0)
    assert at.topics == [ASK_TOPIC, ABSENT_TOPIC + "gw-c"]
    assert at.members.known.get("gw-c") is None
    assert at.members.known.suspects == frozenset()


def test_who_is_absent_is_looked_for_four_times_in_the_time_after_which_one_is(
    tmp_path: Path,
) -> None:
    at = Standing(tmp_path)
    at.reached = frozenset({"gw-b", "gw-c"})
    at.watch.handle_timer(at.now)
    assert at.watch.next_timer() == at.now + 15.0


def test_who_answers_for_itself_is_neither_suspect_nor_absent(tmp_path: Path) -> None:
    at = Standing(tmp_path)
    at.reached = frozenset({"gw-b"})
    at.moved(at.now)
    for _ in range(60):
        at.pass_time(3.0)
        at.hear(ANSWER_TOPIC, "gw-c")
    assert at.members.known.suspects == frozenset()
    assert ABSENT_TOPIC + "gw-c" not in at.topics


def test_a_gateway_that_is_asked_for_again_and_again_answers_twice_a_minute(
    tmp_path: Path,
) -> None:
    at = Standing(tmp_path)
    at.hear(ASK_TOPIC, "gw-b", Question(("gw-c",)).encode())
    assert at.sent == []
    for _ in range(100):
        at.hear(ASK_TOPIC, "gw-b", Question(("gw-c", OWN)).encode())
    assert at.topics == [ANSWER_TOPIC] * ANSWERS_AT_ONCE
    at.sent.clear()
    for _ in range(60):
        at.now += 1.0
        at.hear(ASK_TOPIC, "gw-b", Question((OWN,)).encode())
    assert 1 <= len(at.sent) <= 2


def test_whoever_needs_an_answer_gets_one_however_often_others_ask() -> None:
    assert Patience().believed_s > 1 / ANSWERS_PER_S


def test_bytes_that_are_no_question_are_nobodys(tmp_path: Path) -> None:
    at = Standing(tmp_path)
    with pytest.raises(ProtocolError):
        at.hear(ASK_TOPIC, "gw-b", b"\xc1")
    assert at.sent == []


def test_only_the_root_says_who_is_absent(tmp_path: Path) -> None:
    at = Standing(tmp_path, root="gw-b")
    at.reached = frozenset({"gw-b"})
    at.moved(at.now)
    at.pass_time(300.0)
    assert at.members.known.suspects == {"gw-c"}
    assert at.topics == [ASK_TOPIC]


def test_a_gateway_that_others_may_have_taken_out_tells_its_record_anew(tmp_path: Path) -> None:
    at = Standing(tmp_path)
    at.reached = frozenset({"gw-b", "gw-c"})
    record = MemberRecord(OWN, 1, 5, "", "", "10.0.0.1", 1883, capability=1.0)
    at.members.publish(cast(TreeNode, at), record)
    at.moved(at.now)
    at.pass_time(10.0)
    at.reached = frozenset({"gw-b"})  # for less than the time-out
    at.moved(at.now)
    at.pass_time(30.0)
    at.reached = frozenset({"gw-b", "gw-c"})
    at.moved(at.now)
    at.pass_time(10.0)
    assert at.told() == [5]
    at.reached = frozenset({"gw-b"})
    at.moved(at.now)
    at.pass_time(70.0)
    at.reached = frozenset({"gw-b", "gw-c"})  # what gw-c said of it may be in no log any more
    at.moved(at.now)
    at.pass_time(10.0)
    assert at.told() == [5, 6]


def test_a_gateway_whose_clock_stood_still_tells_its_record_anew(tmp_path: Path) -> None:
    at = Standing(tmp_path)
    at.reached = frozenset({"gw-b", "gw-c"})
    record = MemberRecord(OWN, 1, 5, "", "", "10.0.0.1", 1883, capability=1.0)
    at.members.publish(cast(TreeNode, at), record)
    for _ in range(3):  # it loses all links, and finds them again within seconds of its own clock
        at.moved(at.now)
        at.pass_time(5.0)
        at.reached = frozenset()
        at.moved(at.now)
        at.pass_time(5.0)
        at.reached = frozenset({"gw-b", "gw-c"})
    assert at.told() == [5, 6]


def test_thousands_that_go_at_once_are_not_all_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    at = Standing(tmp_path)
    others = [f"gw-y{number}" for number in range(2_000)]
    for gateway_id in others:
        record = MemberRecord(gateway_id, 1, 1, "", "", "10.0.0.1", 1883, capability=1.0)
        at.members.known.update(record)
    for _ in range(2):
        for reached in (frozenset({"gw-b", "gw-c"}), frozenset({"gw-b", "gw-c", *others})):
            at.reached = reached
            at.moved(at.now)
            at.pass_time(10.0)
    assert caplog.messages[0].endswith("is out of reach and does not answer: it heads nothing")
    assert NAMED_AT_ONCE < len(caplog.messages) < 2 * NAMED_AT_ONCE
    assert any("out of reach, or there again" in line for line in caplog.messages)
