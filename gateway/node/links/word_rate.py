"""Rate of neighbours' words on which others are told something: hellos, agreements, clocks.

What such a word changes here is told to all other neighbours at once, and by them to theirs, so
that one who changes his mind all the time would keep a whole fleet busy and no tree would stand.

A hello says all that its sender has to say of the tree. So of more than a tree needs that forms,
the last one counts, a little later. And whoever says more words than that is read more slowly:
nothing is dropped, and they fill their sender's own queue. What a gateway has said counts for its
next link too.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from light_dataclasses import dataclass
from tree_handler.spanning.bpdu import Bpdu
from tree_handler.spanning.election import Root

MAX_NEIGHBOURS: Final = 1_024
"""Remembered; the one that was quiet longest goes."""
LONG_BYTES: Final = 4_096
"""Of so much a word counts as one more: of a hundred gateways, say."""


@dataclass(frozen=True, slots=True)
class WordAllowance:
    """So many words at once, and then so many a second."""

    at_once: float
    per_s: float


WORDS: Final = WordAllowance(500.0, 50.0)
HELLOS: Final = WordAllowance(100.0, 20.0)
ROOTS: Final = WordAllowance(20.0, 0.5)
"""Hellos that name another root than the one before: each may change the tree of all."""


class WordRates:
    """The words of each neighbour, as far as they may come now.

    Args:
        allowance: of each.

    """

    def __init__(self, allowance: WordAllowance = WORDS) -> None:
        self._allowance = allowance
        self._left: dict[Hashable, tuple[float, float]] = {}
        """The words that may still come, and since when, by id; the last who spoke is last."""

    def wait_s(self, peer_id: Hashable, now: float, size: float = 1.0) -> float:
        """Return for how long a word is to wait, 0 if it need not, and take it into account then.

        Args:
            peer_id: whose.
            now: the loop's time, in seconds.
            size: it counts as so many; those behind it wait for that.

        """
        at_once, per_s = self._allowance.at_once, self._allowance.per_s
        left, since = self._left.get(peer_id, (at_once, now))
        left = min(at_once, left + (now - since) * per_s)
        if left < 1.0:
            return (1.0 - left) / per_s
        self._left.pop(peer_id, None)
        self._left[peer_id] = (left - size, now)
        if len(self._left) > MAX_NEIGHBOURS:
            del self._left[next(iter(self._left))]
        return 0.0


class HelloPace:
    """Decides which hellos are taken at once, and keeps the last of each link that is not."""

    def __init__(self) -> None:
        self._hellos = WordRates(HELLOS)
        self._roots = WordRates(ROOTS)
        self._named: dict[int, Root] = {}
        """The root that each link's last hello named which was taken."""
        self._late: dict[int, Bpdu] = {}
        self._due: dict[int, float] = {}

    def link_down(self, link: int) -> None:
        """Forget a link."""
        self._named.pop(link, None)
        self._late.pop(link, None)
        self._due.pop(link, None)

    def may_pass(self, link: int, hello: Bpdu, now: float) -> bool:
        """Return whether a hello is to be taken now; else it is kept in the place of the last."""
        if link in self._due and now < self._due[link]:
            self._late[link] = hello
            return False
        wait_s = self._hellos.wait_s(hello.sender, now)
        if not wait_s and self._named.get(link) not in (None, hello.root):
            wait_s = self._roots.wait_s(hello.sender, now)
        if wait_s:
            self._late[link] = hello
            self._due[link] = now + wait_s
            return False
        self._named[link] = hello.root
        self._late.pop(link, None)
        self._due.pop(link, None)
        return True

    def next_timer(self) -> float:
        """Return when one that was kept is due."""
        return min(self._due.values(), default=float("inf"))

    def take_due(self, now: float) -> list[tuple[int, Bpdu]]:
        """Return those that were kept and are due, with their links."""
        found: list[tuple[int, Bpdu]] = []
        for link in [link for link, at in self._due.items() if at <= now]:
            hello = self._late.get(link)
            if hello is not None and self.may_pass(link, hello, now):
                found.append((link, hello))
        return found
