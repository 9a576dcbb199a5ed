"""Several protocols on the links of a node: each is told all, whatever another one does."""

from __future__ import annotations

import logging
import math

import pytest

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.node.links.part import Part, Parts, Unheeded
from tree_handler.errors import ProtocolError


class ToldPart:
    """A part that notes what it is told, and its topic."""

    def __init__(self, topic: bytes, due: float = math.inf) -> None:
        self.topics = frozenset((topic,))
        self.due = due
        self.told: list[tuple[object, ...]] = []

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        self.told.append(("up", link, peer_id, now))

    def link_down(self, link: int, now: float) -> None:
        self.told.append(("down", link, now))

    def tree_changed(self, now: float) -> None:
        self.told.append(("changed", now))

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        self.told.append((link, topic, payload, now))

    def next_timer(self) -> float:
        return self.due

    def handle_timer(self, now: float) -> None:
        self.told.append(("timer", now))


class FailingPart:
    """A part that can do nothing it is asked for; whether it knows when it is due is given."""

    def __init__(self, due: float | None = None) -> None:
        self.topics = frozenset((b"failing",))
        self._due = due

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        raise ValueError("up")

    def link_down(self, link: int, now: float) -> None:
        raise ValueError("down")

    def tree_changed(self, now: float) -> None:
        raise ValueError("changed")

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        raise ProtocolError("message of a failing part", payload)

    def next_timer(self) -> float:
        if self._due is None:
            raise ValueError("next")
        return self._due

    def handle_timer(self, now: float) -> None:
        raise ValueError("due")


def joined(*added: Part) -> tuple[Parts, CountedLines]:
    lines = CountedLines(logging.getLogger(__name__), lambda: 0.0)
    parts = Parts(Failures(lines))
    parts.add_all(*added)
    return parts, lines


def test_each_part_is_told_of_links_and_of_the_tree_and_gets_its_own_topics_alone() -> None:
    one, other = ToldPart(b"one"), ToldPart(b"other")
    parts, lines = joined(one, other)
    parts.link_up(7, "gw-b", 1.0)
    parts.tree_changed(2.0)
    parts.receive(7, b"other", b"payload", 3.0)
    parts.link_down(7, 4.0)
    assert one.told == [("up", 7, "gw-b", 1.0), ("changed", 2.0), ("down", 7, 4.0)]
    assert other.told == [*one.told[:2], (7, b"other", b"payload", 3.0), *one.told[2:]]
    with pytest.raises(ProtocolError, match="topic on a link"):
        parts.receive(7, b"third", b"payload", 3.0)
    assert not lines.counts


def test_a_topic_is_taken_once() -> None:
    parts, _ = joined(ToldPart(b"one"), ToldPart(b"other"))
    with pytest.raises(ValueError, match=r"topics that another part has: \[b'other'\]"):
        parts.add(ToldPart(b"other"))


def test_the_first_timer_counts_and_those_that_are_due_are_called() -> None:
    now, later, never = ToldPart(b"now", 5.0), ToldPart(b"later", 5.1), ToldPart(b"never")
    parts, lines = joined(never, later, now)
    assert parts.next_timer() == 5.0
    parts.handle_timer(5.0)
    assert (now.told, later.told, never.told) == ([("timer", 5.0)], [], [])
    assert joined()[0].next_timer() == math.inf
    assert not lines.counts


def test_a_part_that_fails_keeps_no_other_waiting_and_is_told_of_with_its_name() -> None:
    last = ToldPart(b"last", 1.0)
    parts, lines = joined(FailingPart(1.0), last)
    parts.link_up(7, "gw-b", 1.0)
    parts.link_down(7, 1.0)
    parts.tree_changed(1.0)
    assert parts.next_timer() == 1.0
    parts.handle_timer(1.0)
    assert [told[0] for told in last.told] == ["up", "down", "changed", "timer"]
    assert lines.counts == {
        "set aside: link that is up, for FailingPart": 1,
        "set aside: link that is down, for FailingPart": 1,
        "set aside: change of the tree, for FailingPart": 1,
        "set aside: timer of FailingPart": 1,
    }
    with pytest.raises(ProtocolError, match="message of a failing part"):
        parts.receive(7, b"failing", b"payload", 1.0)


def test_a_part_that_can_not_say_when_it_is_due_is_told_of_each_time_it_is_asked() -> None:
    last = ToldPart(b"last", 1.0)
    parts, lines = joined(FailingPart(), last)
    assert parts.next_timer() == 1.0
    assert lines.counts == {"set aside: timer of FailingPart": 1}
    parts.handle_timer(1.0)
    assert lines.counts == {"set aside: timer of FailingPart": 2}
    assert last.told == [("timer", 1.0)]


def test_a_topic_that_nobody_heeds_here_costs_no_link_and_no_time() -> None:
    parts, lines = joined(Unheeded(b"unheeded"))
    parts.link_up(7, "gw-b", 1.0)
    parts.receive(7, b"unheeded", b"payload", 1.0)
    parts.tree_changed(1.0)
    parts.handle_timer(1.0)
    parts.link_down(7, 1.0)
    assert parts.next_timer() == math.inf
    assert not lines.counts
