"""Rate of neighbours' words on which others are told something: hellos, agreements, clocks.

What such a word changes here is told to all other neighbours at once, and by them to theirs, so
that one who changes his mind all the time would keep a whole fleet busy and no tree would stand.

A hello says all that its sender has to say of the tree. So of more than a tree needs that forms,
the last one counts, a little later. And whoever says more words than that is read more slowly:
nothing is dropped, and they fill their sender's own queue. What a gateway has said counts for its
next link too.
"""

from __future__ import annotations

from typing import Final

from light_dataclasses import dataclass
from tree_handler.rate_limit import RateLimit
from tree_handler.spanning.bpdu import Bpdu, Kind
from tree_handler.spanning.election import Root

MAX_NEIGHBOURS: Final = 1_024
"""Remembered; the one that was quiet longest goes."""
LONG_BYTES: Final = 4_096
"""Of so much a word counts as one more: of a hundred gateways, say."""


@dataclass(frozen=True, slots=True)
class WordAllowance:
    """So many words at once, and then so many a second."""

    at_once: int
    per_s: float


WORDS: Final = WordAllowance(500, 50.0)
HELLOS: Final = WordAllowance(100, 20.0)
REQUESTS: Final = WordAllowance(20, 5.0)
ROOTS: Final = WordAllowance(20, 0.5)
"""Hellos that name another root than the one before: each may change the tree of all."""

_Paced = tuple[int, Kind]
"""A link, and what comes over it."""


class WordRates:
    """The words of each neighbour, as far as they may come now.

    Args:
        allowance: of each.

    """

    def __init__(self, allowance: WordAllowance = WORDS) -> None:
        self._limit = RateLimit(allowance.per_s, allowance.at_once, MAX_NEIGHBOURS)

    def wait_s(self, peer_id: str, now: float, size: float = 1.0) -> float:
        """Return for how long a word is to wait, 0 if it need not, and take it into account then.

        Args:
            peer_id: whose.
            now: the loop's time, in seconds.
            size: it counts as so many; those behind it wait for that.

        """
        wait_s = self._limit.wait_s(peer_id, now)
        if not wait_s:
            self._limit.count(peer_id, now, size)
        return wait_s

    def spend(self, peer_id: str, now: float, size: float = 1.0) -> float:
        """Take a word into account that is dealt with in any case.

        Args:
            peer_id: whose.
            now: the loop's time, in seconds.
            size: it counts as so many.

        Returns:
            For how long the next one is to wait.

        """
        self._limit.count(peer_id, now, size)
        return self._limit.wait_s(peer_id, now, 0.0)


class HelloPace:
    """Decides which hellos and requests are taken at once, and keeps the last of each that is not.

    A request for a newer sequence is like a hello in that its last one says all; it is passed on.
    """

    def __init__(self) -> None:
        self._rates = {Kind.HELLO: WordRates(HELLOS), Kind.SEQUENCE_REQUEST: WordRates(REQUESTS)}
        self._roots = WordRates(ROOTS)
        self._named: dict[int, Root] = {}
        """The root that each link's last hello named which was taken."""
        self._late: dict[_Paced, Bpdu] = {}
        self._due: dict[_Paced, float] = {}

    def link_down(self, link: int) -> None:
        """Forget a link."""
        self._named.pop(link, None)
        for kind in self._rates:
            self._late.pop((link, kind), None)
            self._due.pop((link, kind), None)

    def may_pass(self, link: int, bpdu: Bpdu, now: float) -> bool:
        """Return whether a BPDU is to be taken now; else it is kept in the place of the last."""
        rates = self._rates.get(bpdu.kind)
        if rates is None:
            return True
        paced, is_hello = (link, bpdu.kind), bpdu.kind is Kind.HELLO
        if now < self._due.get(paced, now):
            self._late[paced] = bpdu
            return False
        wait_s = rates.wait_s(bpdu.sender, now)
        if is_hello and not wait_s and self._named.get(link) not in (None, bpdu.root):
            wait_s = self._roots.wait_s(bpdu.sender, now)
        if wait_s:
            self._late[paced] = bpdu
            self._due[paced] = now + wait_s
            return False
        if is_hello:
            self._named[link] = bpdu.root
        self._late.pop(paced, None)
        self._due.pop(paced, None)
        return True

    def next_timer(self) -> float:
        """Return when one that was kept is due."""
        return min(self._due.values(), default=float("inf"))

    def take_due(self, now: float) -> list[tuple[int, Bpdu]]:
        """Return those that were kept and are due, with their links."""
        found: list[tuple[int, Bpdu]] = []
        for paced in [paced for paced, at in self._due.items() if at <= now]:
            bpdu = self._late.get(paced)
            if bpdu is not None and self.may_pass(paced[0], bpdu, now):
                found.append((paced[0], bpdu))
        return found
