"""Turns of writers to a resource: several side by side, or one alone who has looked before.

Whoever writes only if a resource is what he takes it for must not be overtaken between his look and
his write. So he has the resource alone for both, and all other writes wait, his own predecessors'
being done. Writes without a condition do not wait for each other. Those who wait begin in the order
in which they came.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable

_log = logging.getLogger(__name__)


class WriteTurn:
    """One write, from its coming to its end.

    Args:
        resource: what it writes to; whatever is equal is the same resource.
        begin: begins it, as soon as it may.
        is_alone: it must not be side by side with another one.

    """

    __slots__ = ("_begin", "is_alone", "resource")

    def __init__(
        self, resource: Hashable, begin: Callable[[], None], *, is_alone: bool = False
    ) -> None:
        self.resource = resource
        self._begin = begin
        self.is_alone = is_alone

    def begin(self) -> None:
        """Begin the write; only once, since who made this turn is let go of then."""
        begin, self._begin = self._begin, _is_over
        begin()

    def give_up(self) -> None:
        """Let go of who made this turn: it does not begin any more."""
        self._begin = _is_over


def _is_over() -> None:
    pass


class _Writes:
    """Those to one resource."""

    __slots__ = ("is_handing_out", "under_way", "waiting")

    def __init__(self) -> None:
        self.is_handing_out = False
        """Somebody begins those that waited, and goes on with what they let go at once."""
        self.under_way: list[WriteTurn] = []
        self.waiting: deque[WriteTurn] = deque()

    def may_begin(self, turn: WriteTurn) -> bool:
        """Return whether a write may be side by side with those that are under way."""
        if not self.under_way:
            return True
        return not turn.is_alone and not self.under_way[0].is_alone


class WriteTurns:
    """The writes to all resources of a gateway. Who asks for them bounds how many there are."""

    def __init__(self) -> None:
        self._of: dict[Hashable, _Writes] = {}

    def __len__(self) -> int:
        """Return the number of resources to which somebody writes, or waits to."""
        return len(self._of)

    def enter(self, turn: WriteTurn) -> None:
        """Begin a write now, or as soon as those before it are over."""
        writes = self._of.get(turn.resource)
        if writes is None:
            writes = self._of[turn.resource] = _Writes()
        if writes.waiting or not writes.may_begin(turn):
            writes.waiting.append(turn)
            return
        writes.under_way.append(turn)
        try:
            turn.begin()
        except BaseException:  # it is over, and others wait for that
            self.leave(turn)
            raise

    def leave(self, turn: WriteTurn) -> None:
        """End a write, or give it up while it waits; a second time that does nothing."""
        writes = self._of.get(turn.resource)
        if writes is None:
            return
        if turn in writes.waiting:
            writes.waiting.remove(turn)
            turn.give_up()
        elif turn in writes.under_way:
            writes.under_way.remove(turn)
        else:
            return
        if writes.is_handing_out:
            return
        writes.is_handing_out = True
        try:
            while writes.waiting and writes.may_begin(writes.waiting[0]):
                begun = writes.waiting.popleft()
                writes.under_way.append(begun)
                try:
                    begun.begin()
                except Exception:  # whose turn is over has no part in it, nor those that wait
                    _log.exception("a write of %r failed as it began", turn.resource)
                    writes.under_way.remove(begun)
        finally:
            writes.is_handing_out = False
        if not writes.under_way and not writes.waiting and self._of.get(turn.resource) is writes:
            del self._of[turn.resource]
