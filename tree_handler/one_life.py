"""Of two lives of one gateway the one that is in the tree stays, and the other waits.

A boot epoch names a life. Lives follow each other: a gateway restarts, is put back from an image or
gets other hardware, and the life before is over. A copied card makes two lives at the same time,
with the same id, certificate and key, and nobody can tell which was meant. If the later one took
the place of the earlier, as that of a gateway that has restarted, each would in turn be outlived by
the other. So whoever is asked for a link looks whether another life of that gateway is in the tree:
one that is linked here, or that is reached over links that forward (`Locator`). If so there is no
link; the newcomer is told, and tries again from time to time.

That asks nothing of the epochs but that they differ, so a restored card comes in with an earlier
one, as soon as the life before is gone from the tree: at once after a socket error, and where that
life stopped without a word when its neighbours take it for dead (`Silence`). Where both were
members of trees that had no way to each other, they meet when these join; the earlier one is
outlived then, starts again, and is the newcomer.
"""

from __future__ import annotations

from collections.abc import Iterable


def other_life(epoch: int, linked: Iterable[int], reached: int | None) -> int | None:
    """Return the life that is in the place of one that wants a link; None if there is none.

    Args:
        epoch: boot epoch of the life that wants a link.
        linked: the epochs under which the same gateway is linked here.
        reached: the one under which the tree reaches it; None if it does not.

    """
    for there in linked:
        if there != epoch:
            return there
    return None if reached == epoch else reached
