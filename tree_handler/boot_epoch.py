"""The number of a gateway's life, where its counter is lost (tree-protocol, Identity).

A boot epoch has to be new, since replication takes a number of an epoch that it knows for a
duplicate, and later than those before, since the tree follows the latest life of a root. A
counter on disk gives both. A gateway that finds no counter may be new, or may have lost its
disk; it can't tell, and its clock may be wrong by years. So it draws its first epoch: that is new
but for a chance of k in two thousand million after k lives. Whether it is the latest as well
its neighbours know: their BPDUs and summaries name earlier lives. A gateway that is told of a
later one starts again behind it, at some distance.

A neighbour may be broken or stolen, so what it says of a gateway's own lives is believed up to
`MAX_BELIEVED` only: behind that is room for tens of thousands of starts, which no claim takes.
"""

from __future__ import annotations

from collections.abc import Iterable

from tree_handler.errors import ProtocolError

MAX_BOOT_EPOCH = 2**32 - 1
"""The largest number that a batch's header has room for."""
MAX_FIRST = 2**31 - 1
"""First epochs are drawn up to here; the other half of a batch's 32 bits is for starts to come."""
MAX_STEP = 2**12
"""A start is later than the one before by at most so much: there is room for a million."""
MAX_AHEAD = 2**20
"""So far behind a later life at most begins one that was told of it."""
MAX_COUNTED = MAX_BOOT_EPOCH - MAX_STEP
"""A counter on the disk that says more leaves no room for a start: nobody has started so often."""
MAX_BELIEVED = MAX_BOOT_EPOCH - 2**28
"""Up to here a gateway believes what others say of its own lives."""


def first(drawn: int) -> int:
    """Return the epoch of a life that found no counter.

    Args:
        drawn: any whole number, from a source that nobody can foresee.

    """
    return 1 + drawn % MAX_FIRST


def after(last: int, drawn: int) -> int:
    """Return the epoch of an ordinary start.

    Not the next: a disk may have been restored from an image, and the life that began with the
    same count before must not have had the same epoch.

    Args:
        last: the counter on the disk.
        drawn: as for `first`.

    """
    return last + 1 + drawn % MAX_STEP


def behind(later: int, drawn: int) -> int:
    """Return the epoch of a life that was told of a later one.

    Not the next: there may have been a life after that one, of which nobody who told knows yet, and
    whose numbers must not be used again.

    Args:
        later: the latest epoch that was named.
        drawn: as for `first`.

    """
    return later + 1 + drawn % MAX_AHEAD


def latest(gateway_id: str, streams: Iterable[tuple[str, int]]) -> int:
    """Return the latest believable epoch of a gateway that is named among the (origin, epoch), else
    0.

    An origin that is ``$`` and the id counts too: what it published to the gateways.
    """
    named = (epoch for origin, epoch in streams if origin.lstrip("$") == gateway_id)
    return max((epoch for epoch in named if epoch <= MAX_BELIEVED), default=0)


def check(epoch: int) -> None:
    """Check a boot epoch that somebody names.

    Raises:
        ProtocolError: there can't be such a one.

    """
    if not 0 <= epoch <= MAX_BOOT_EPOCH:
        raise ProtocolError("boot epoch", epoch)
