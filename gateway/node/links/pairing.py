"""Choice of the hand-shake that becomes the link of a pair: one link to one life of each.

Sans-I/O. Both ends may dial at the same time, so each is asked twice: before it proves who it is
where it dialled, and when the other one has where it was dialled. Whoever proves says by that it
has no link to the other one. So of two hand-shakes at the same time exactly one ends in a link:

- who finds itself linked when it is answered goes no further;
- who is dialled while its own proof is under way lets the hand-shake of the lower id go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from gateway.node.links.handshake import NoPlaceError
from gateway.node.links.refusal import Refusal
from tree_handler.one_life import other_life


class UpLink(Protocol):
    """A link that is up.

    Attributes:
        dialler_id: which of both ends dialled.
        peer_epoch: boot epoch of the other end.

    """

    dialler_id: str
    peer_epoch: int


class Pairing:
    """Decides for one gateway.

    Args:
        own_id: its id.
        links_to: the links to a gateway that are up.
        reached: the epoch under which the tree reaches a gateway, None if it does not.
        kept_out: called with id and epoch of a life that gets no link, since another is there.
        is_there: whether that other one is, where only neighbours say that it is reached.

    """

    def __init__(
        self,
        own_id: str,
        links_to: Callable[[str], Collection[UpLink]],
        reached: Callable[[str], int | None],
        kept_out: Callable[[str, int], None],
        is_there: Callable[[str, int], bool] | None = None,
    ) -> None:
        self._is_there = is_there
        self._own_id = own_id
        self._links_to = links_to
        self._reached = reached
        self._kept_out = kept_out
        self._proving: set[str] = set()
        self.duplicates = 0
        """Hand-shakes that ended because there was a link, or another one went on."""

    def answered(self, peer_id: str, epoch: int) -> None:
        """The gateway that was dialled has proved who it is: `concluded` is called in the end.

        Raises:
            NoPlaceError: there will be no link.

        """
        self._check_life(peer_id, epoch)
        if peer_id in self._proving or self._links_to(peer_id):
            raise self._duplicate(peer_id)
        self._proving.add(peer_id)

    def concluded(self, peer_id: str) -> None:
        """The link to a gateway that was dialled is up, or has not come about."""
        self._proving.discard(peer_id)

    def proved(self, peer_id: str, epoch: int) -> None:
        """A gateway that dialled has proved who it is.

        Raises:
            NoPlaceError: there will be no link.

        """
        self._check_life(peer_id, epoch)
        own_id = self._own_id
        is_dialled = any(link.dialler_id == own_id for link in self._links_to(peer_id))
        if own_id < peer_id and (is_dialled or peer_id in self._proving):
            raise self._duplicate(peer_id)

    def _check_life(self, peer_id: str, epoch: int) -> None:
        linked = (link.peer_epoch for link in self._links_to(peer_id))
        reached = self._reached(peer_id)
        if reached not in (None, epoch) and self._is_there is not None:
            reached = reached if self._is_there(peer_id, reached) else None
        there = other_life(epoch, linked, reached)
        if there is not None:
            self._kept_out(peer_id, epoch)
            what = f"{peer_id} is in the tree already, under boot {there}, and this is boot"
            raise NoPlaceError(what, epoch, Refusal.OTHER_LIFE, peer_id)

    def _duplicate(self, peer_id: str) -> NoPlaceError:
        self.duplicates += 1
        return NoPlaceError("linked already", peer_id, Refusal.DUPLICATE, peer_id)
