"""Other protocols that ride on a node's links: what the node calls of them.

The spanning tree and replication are a node's own. Whatever else neighbours say to each other
(retained messages, interest, membership) is a part: it has control topics of its own, is told of
links and of the tree, and has a timer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from gateway.base.event_log.failures import Failures
from tree_handler.errors import ProtocolError


class Part(Protocol):
    """One protocol between neighbours. All times are the loop's, in seconds.

    A part sends by `TreeNode.send`. A link is up when both ends have proved who they are.
    """

    @property
    def topics(self) -> frozenset[bytes]:
        """Control topics on links that are this part's, such as ``$hedgerow/retained``."""

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Note that a neighbour is there; the tree does not forward over the link yet."""

    def link_down(self, link: int, now: float) -> None:
        """Note that a neighbour is gone."""

    def tree_changed(self, now: float) -> None:
        """Note that root, parent, a role or a forwarding link is another one now."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take what a neighbour sent.

        Raises:
            ProtocolError: the neighbour is broken; its link ends.

        """

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity for never.

        It is asked for after each call of the node's; a part that was called by somebody else
        tells the node by `TreeNode.reschedule`.
        """

    def handle_timer(self, now: float) -> None:
        """Do what is due; may be called before it is."""


class Unheeded:
    """The part of a node that takes no notice of a protocol that its neighbours speak.

    Args:
        topic: the protocol's.

    """

    def __init__(self, topic: bytes) -> None:
        self.topics = frozenset((topic,))

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing."""

    def link_down(self, link: int, now: float) -> None:
        """Do nothing."""

    def tree_changed(self, now: float) -> None:
        """Do nothing."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Drop what a neighbour sent."""

    def next_timer(self) -> float:
        """Never."""
        return math.inf

    def handle_timer(self, now: float) -> None:
        """Do nothing."""


class Parts:
    """The parts of one node, called in the order in which they were added.

    What one of them fails to do keeps no other from its own.

    Args:
        failures: are told.

    """

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._parts: list[Part] = []
        self._by_topic: dict[bytes, Part] = {}

    def add(self, part: Part) -> None:
        """Take one more.

        Raises:
            ValueError: another part has one of its topics.

        """
        if taken := part.topics.intersection(self._by_topic):
            raise ValueError(f"topics that another part has: {sorted(taken)}")
        self._parts.append(part)
        self._by_topic.update(dict.fromkeys(part.topics, part))

    def add_all(self, *parts: Part) -> None:
        """Take several; see `add`."""
        for part in parts:
            self.add(part)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Tell all parts of the link."""
        self._each("link that is up", lambda part: part.link_up(link, peer_id, now))

    def link_down(self, link: int, now: float) -> None:
        """Tell all parts that the link is gone."""
        self._each("link that is down", lambda part: part.link_down(link, now))

    def tree_changed(self, now: float) -> None:
        """Tell all parts of the change."""
        self._each("change of the tree", lambda part: part.tree_changed(now))

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Give a message to the part that has its topic.

        Raises:
            ProtocolError: no part has it, or the part says so.

        """
        part = self._by_topic.get(topic)
        if part is None:
            raise ProtocolError("topic on a link", topic)
        part.receive(link, topic, payload, now)

    def next_timer(self) -> float:
        """Return when the first is due."""
        due = math.inf
        for part in self._parts:
            try:
                due = min(due, part.next_timer())
            except Exception as error:  # the others' timers go on
                self._failures.failed(f"timer of {type(part).__name__}", error)
        return due

    def handle_timer(self, now: float) -> None:
        """Call those that are due."""
        for part in self._parts:
            try:
                if part.next_timer() <= now:
                    part.handle_timer(now)
            except Exception as error:  # the others' timers go on
                self._failures.failed(f"timer of {type(part).__name__}", error)

    def _each(self, what: str, step: Callable[[Part], None]) -> None:
        for part in self._parts:
            try:
                step(part)
            except Exception as error:  # the others are told all the same
                self._failures.failed(f"{what}, for {type(part).__name__}", error)
