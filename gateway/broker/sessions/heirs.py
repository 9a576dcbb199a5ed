"""Heirs: members that go on with what another member of a shared subscription left."""

from __future__ import annotations

from typing import Final

from gateway.broker.outbound.message import IN_PACKET, RETAIN
from gateway.broker.sessions.places import Places, WaitingRun
from gateway.broker.sessions.session import Session
from light_dataclasses import dataclass

_QOS: Final = 6


@dataclass(slots=True)
class Heir:
    """A member that goes on with what another one of its group left.

    Attributes:
        session: the other member's.
        flags, identifiers: how it gets messages of the group.
        keeps_retain: whether it sees which were published with RETAIN.
        places: those that are still to be handed over.

    """

    session: Session
    flags: int
    identifiers: tuple[int, ...]
    keeps_retain: bool
    places: Places

    def flags_of(self, flags: int) -> int:
        """Return the flags of a message that was to be delivered with these."""
        retain = flags & RETAIN if self.keeps_retain else 0
        return min(self.flags & _QOS, flags & _QOS) | self.flags & ~IN_PACKET | retain

    def run_of(self, run: WaitingRun) -> WaitingRun:
        """Return a run as it waits for this member."""
        key, flags, _ = run.way
        way = (key, self.flags_of(flags), self.identifiers)
        return WaitingRun(way, run.first, run.last, run.timing, run.moment_ms)
