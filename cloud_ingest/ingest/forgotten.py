"""Gateways whose name is nowhere any more, and whose numbers the ledger keeps all the same.

A spool may still hold what they sent, and none of it may come back. So their numbers stand in the
ledger under a digest of the name, until a gateway of that name is heard: then they are its own.
"""

from __future__ import annotations

import hashlib
from typing import Final

from cloud_ingest.ledger.number_ledger import LedgerChange, NumberLedger

MARK: Final = "?"
"""Begins a digest, and no gateway's id."""


def digest_of(gateway: str) -> str:
    """Return what stands for a gateway that is forgotten."""
    return MARK + hashlib.sha256(gateway.encode()).hexdigest()[:32]


def forget(ledger: NumberLedger, digest: str) -> None:
    """Have a digest stand for the gateway that it is of; its counts and its place go."""
    mine = ledger.all
    for part in (ledger.lives, mine.totals, mine.places, mine.closed):
        for origin in part:
            if digest_of(origin) == digest:
                _rename(ledger, origin, digest)
                break
    mine.forgotten[digest] = None


def recall(ledger: NumberLedger, origin: str) -> None:
    """Give a gateway that is heard the numbers that it had before it was forgotten."""
    if origin in ledger.lives or not ledger.all.forgotten:
        return
    digest = digest_of(origin)
    if digest in ledger.all.forgotten:
        del ledger.all.forgotten[digest]
        _rename(ledger, digest, origin)


def _rename(ledger: NumberLedger, old: str, new: str) -> None:
    mine = ledger.all
    for part in (mine.seen, mine.kept_local, mine.held):
        for stream in [each for each in part if each.origin == old]:
            part[stream._replace(origin=new)] = part.pop(stream)
    floors = mine.floors
    for stream in [each for each in floors if each.origin == old]:
        floors[stream._replace(origin=new)] = floors.pop(stream)
    if old in mine.closed:
        mine.closed[new] = mine.closed.pop(old)
    if old in ledger.lives:
        ledger.lives[new] = ledger.lives.pop(old)
    if old in ledger.sizes:
        ledger.sizes[new] = ledger.sizes.pop(old)
    mine.totals.pop(old, None)
    mine.places.pop(old, None)


def apply(ledger: NumberLedger, change: LedgerChange) -> None:
    """Forget whom a change forgets, and recall whom it speaks of."""
    for digest in change.forgotten:
        forget(ledger, digest)
    if ledger.all.forgotten:
        streams = (*change.seen, *change.kept_local, *change.held, *change.floors)
        names = {stream.origin for stream in streams}
        for origin in names | {*change.totals, *change.places, *change.closed}:
            if not origin.startswith(MARK):
                recall(ledger, origin)
