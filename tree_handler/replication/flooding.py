"""Flooding: a batch is passed on over the links that forward, but for the one it came over.

A link that is full takes QoS 0 alone: for the rest the log is its queue, and what is read there is
sent by `replay` until the link has drained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from light_dataclasses import dataclass
from tree_handler.batch import CONTROL_PREFIX, NOTE_PREFIX, Epoch, Header, Seal
from tree_handler.replication.actions import ReplicationAction, RouteBatch, SendBatch
from tree_handler.replication.answering import answer
from tree_handler.replication.counters import Counters


@dataclass(slots=True)
class LinkState:
    """One link: whether it forwards, and whether it takes no more logged batches for now."""

    forwarding: bool = False
    full: bool = False
    forged: int = 0
    """Forged batches that came over it."""


@dataclass(slots=True)
class Flooding:
    """The links of one gateway.

    Args:
        own: this gateway's id and boot epoch.
        floods_clients: whether clients' streams go to all.
        counters: those of replication.
        seal: see `OwnBatches`.
        links: by number.

    """

    own: Epoch
    floods_clients: bool
    counters: Counters
    seal: Seal | None = None
    links: dict[int, LinkState] = field(default_factory=dict)

    def link_up(self, link: int) -> None:
        """A neighbour is there; the link does not forward yet."""
        self.links[link] = LinkState()

    def link_down(self, link: int) -> None:
        """The neighbour is gone."""
        self.links.pop(link, None)

    def __contains__(self, link: int) -> bool:
        """Return whether there is such a link."""
        return link in self.links

    def __bool__(self) -> bool:
        """Return whether there is any link."""
        return bool(self.links)

    def forwards(self, link: int) -> bool:
        """Return whether a link is there and forwards."""
        state = self.links.get(link)
        return state is not None and state.forwarding

    def set_forwarding(self, link: int, *, forwards: bool) -> bool:
        """Let a link forward or not; return whether it did otherwise before."""
        state = self.links.get(link)
        if state is None or state.forwarding == forwards:
            return False
        state.forwarding = forwards
        return True

    def set_full(self, link: int, *, is_full: bool) -> bool:
        """Note that a link is full or has drained; return whether it was otherwise before."""
        state = self.links.get(link)
        if state is None or state.full == is_full:
            return False
        state.full = is_full
        return True

    def count_forged(self, link: int) -> int:
        """Count a forged batch; return how many have come over this link, 0 if it has ended."""
        state = self.links.get(link)
        if state is None:
            return 0
        state.forged += 1
        return state.forged

    def with_room(self) -> Iterator[int]:
        """Return the links that are not full."""
        return (link for link, state in self.links.items() if not state.full)

    def flood(self, frame: bytes, header: Header, source: int | None) -> list[ReplicationAction]:
        """Pass a batch on that came over the link ``source``, or over no link if that is None."""
        if header.local:
            return []
        if not (self.floods_clients or header.control):
            is_ours = (header.origin, header.epoch) == self.own and not header.passed
            return [RouteBatch(frame, header)] if is_ours else []
        actions: list[ReplicationAction] = []
        unlogged = 0 if header.numbered else header.count
        for link, state in self.links.items():
            if link == source or not state.forwarding or (state.full and not unlogged):
                continue
            self.counters.forwarded += 1
            actions.append(SendBatch(link, frame, unlogged))
        return actions

    def flood_all(self, made: Iterable[tuple[bytes, Header]]) -> list[ReplicationAction]:
        """Send batches of this gateway's own on their way."""
        return [action for frame, header in made for action in self.flood(frame, header, None)]

    def is_flooded(self, stream: Epoch) -> bool:
        """Return whether a stream goes to all, by flooding and by repair between neighbours."""
        if stream[0].startswith(NOTE_PREFIX):
            return False
        return self.floods_clients or stream[0].startswith(CONTROL_PREFIX)

    def replay(self, link: int, frames: Iterable[tuple[bytes, Header]]) -> list[SendBatch]:
        """Send what the log has for a link that is full, as far as it is for that link."""
        if not self.forwards(link):
            return []
        sent = [row for row in frames if row[1].numbered and self.is_flooded(row[1].stream)]
        self.counters.forwarded += len(sent)
        return [SendBatch(link, frame) for frame in answer(sent, self.seal)]
