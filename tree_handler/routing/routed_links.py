"""A gateway that messages pass: it splits their destinations by its links, and keeps nothing.

As a bit-forwarding router does (RFC 8279, section 6.5), with names for bits. Over each link all
keeps its order but for what is urgent, so whoever hears an origin's word after its batches knows
that those have come, or never will.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tree_handler import batch
from tree_handler.batch import Flags, Header
from tree_handler.errors import BatchError
from tree_handler.routing.actions import SendRouted
from tree_handler.routing.locator import Locator
from tree_handler.routing.wire import Ack, Ask, Carry, Claim, Tell, pack_pairs, signed_part
from tree_handler.seal import Seals


class RoutedLinks:
    """The links of one gateway, as routed mode uses them.

    Args:
        locator: where all gateways are.
        counters: those of routed mode.
        seals: proves what this gateway says; None where nobody seals.

    """

    def __init__(
        self, locator: Locator, counters: Counter[str], seals: Seals | None = None
    ) -> None:
        self._seals = seals
        self._locator = locator
        self._counters = counters

    def carry(
        self, message: Carry, header: Header, source: int | None, hops: int
    ) -> list[SendRouted]:
        """Send a batch to its destinations over the tree.

        Args:
            message: the batch and those it is for.
            header: the batch's.
            source: the link that it came over; None if it begins here.
            hops: how many gateways it may still pass.

        """
        sends: list[SendRouted] = []
        for link, places in self._by_link([pair[0] for pair in message.to], source, hops).items():
            to = tuple(message.to[place] for place in places)
            listed = message.listed
            if not listed and header.flags & Flags.ADDRESSED and len(to) < len(message.to):
                listed = pack_pairs(message.to)
            part = Carry(to, message.frame, message.is_repair, listed=listed)
            sends.append(self._send_batch(link, part.encode(hops), header))
        return sends

    def carry_in_overlay(
        self, message: Carry, header: Header, links: Iterable[int], hops: int
    ) -> list[SendRouted]:
        """Send a batch over these links of its overlay."""
        if hops <= 0:
            self._counters["hops_used_up"] += 1
            return []
        payload = message.encode(hops)
        return [self._send_batch(link, payload, header) for link in sorted(links)]

    def claim(self, claim: Claim, source: int | None, hops: int) -> list[SendRouted]:
        """Send a claim to all that it is for; one that begins here is sealed."""
        if source is None and self._seals is not None:
            claim = replace(claim, seal=self._seals.say(signed_part(claim)))
        hops -= source is not None
        sends: list[SendRouted] = []
        for link, places in self._by_link([one[0] for one in claim.to], source, hops).items():
            part = claim
            if not claim.seal:  # what is sealed goes on as a whole
                to = tuple(claim.to[place] for place in places)
                part = Claim(claim.stream, claim.last, to)
            sends.append(SendRouted(link, part.encode(hops)))
        return sends

    def to(
        self, gateway_id: str, message: Tell | Ask | Ack, source: int | None, hops: int
    ) -> list[SendRouted]:
        """Send a message to one gateway; one that begins here is sealed."""
        said = self._said(message, source)
        hops -= source is not None
        is_urgent = not isinstance(message, Tell)
        return [
            SendRouted(link, said.encode(hops), is_urgent=is_urgent)
            for link in self._by_link((gateway_id,), source, hops)
        ]

    def _said(self, word: Tell | Ask | Ack, source: int | None) -> Tell | Ask | Ack:
        if source is not None or self._seals is None:
            return word
        return replace(word, seal=self._seals.say(signed_part(word)))

    def _send_batch(self, link: int, payload: bytes, header: Header) -> SendRouted:
        self._counters["carried"] += 1
        unlogged = 0 if header.logged else header.count
        return SendRouted(link, payload, is_batch=True, unlogged=unlogged)

    def _by_link(
        self, gateway_ids: Iterable[str], source: int | None, hops: int
    ) -> dict[int, list[int]]:
        """Return the links over which they are reached: by link, their places in the list."""
        if hops <= 0:
            self._counters["hops_used_up"] += 1
            return {}
        found: dict[int, list[int]] = {}
        for place, gateway_id in enumerate(gateway_ids):
            link = self._locator.link_of(gateway_id)
            if link is None:
                self._counters["out_of_reach"] += 1
            elif link == source:
                self._counters["would_go_back"] += 1
            else:
                found.setdefault(link, []).append(place)
        return found


def checked_batch(frame: bytes) -> Header:
    """Return the header of a batch that came between gateways.

    Raises:
        BatchError: it is none, or one that does not go this way.

    """
    header = batch.check(frame)
    if header.end != len(frame) or header.control or header.local:
        raise BatchError("routed batch", str(header))
    return header
