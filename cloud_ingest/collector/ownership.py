"""Owners of origins among a group of collectors. Pure; each member finds the same by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def owner_of(origin: str, members: Iterable[str]) -> str:
    """Return who of some members keeps an origin's batches.

    It is rendezvous hashing: a member that comes or goes moves only what it gets or had.

    Raises:
        ValueError: no members.

    """
    return max(members, key=lambda name: (_weight(name, origin), name))


def _weight(member: str, origin: str) -> bytes:
    return hashlib.blake2b(f"{member}\0{origin}".encode(), digest_size=8).digest()
