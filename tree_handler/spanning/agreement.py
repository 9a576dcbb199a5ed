"""Agreement on whether a link carries data: JOIN and ACCEPT, LEAVE, and who stops first.

A link discards data until both ends have agreed that one is the other's child in one named
tree. The states of a link, seen from one end:

=========  ==================  =============================  =============================
state      fields              entered by                     left by
=========  ==================  =============================  =============================
blocked    -                   link up                        JOIN sent or received
asked      asked               JOIN sent                      ACCEPT, REFUSE, own LEAVE
child      asked, granted      ACCEPT received -> Forward     Discard -> own LEAVE
parent     child_root          ACCEPT sent -> Forward         Discard; on LEAVE received, or
                                                              with an own change of root
=========  ==================  =============================  =============================

Two rules hold in every transition: Discard comes before the BPDU that tells of it, and a
gateway never forwards to two parents. The second lets it move without a gap: it asks the new
parent, the *candidate*, while data still flow through the old one, and changes over on ACCEPT.
"""

from __future__ import annotations

from collections.abc import Callable

from tree_handler.spanning.actions import Discard, Forward, SpanningAction
from tree_handler.spanning.bpdu import Kind
from tree_handler.spanning.election import Root
from tree_handler.spanning.neighbour import Neighbour, Role
from tree_handler.spanning.place import TreePosition

AgreementSay = Callable[[Neighbour, Kind, int], int]
"""Sends a BPDU of this kind that answers this JOIN number; returns the BPDU's own number."""


def agreed(link_root: Root | None, root: Root) -> bool:
    """Return whether a JOIN for ``link_root`` lets a link carry data in the tree ``root``."""
    return link_root == root


class Agreements:
    """The parent, the children, and the links that forward.

    Args:
        place: the gateway's place; its parent is set here and nowhere else.
        neighbours: its neighbour table.
        actions: what the shell is to do is appended here.
        say: sends a BPDU.

    """

    def __init__(
        self,
        place: TreePosition,
        neighbours: dict[int, Neighbour],
        actions: list[SpanningAction],
        say: AgreementSay,
    ) -> None:
        self.candidate: Neighbour | None = None
        """The neighbour asked to become the parent while the present one still serves."""
        self.forwarding: set[int] = set()
        """Links that carry data."""
        self._place = place
        self._neighbours = neighbours
        self._actions = actions
        self._say = say

    def role(self, neighbour: Neighbour) -> Role:
        """Return the role of this side's end of a link."""
        if neighbour is self._place.parent:
            return Role.ROOT
        return Role.BLOCKED if neighbour.child_root is None else Role.DESIGNATED

    def in_tree(self, neighbour: Neighbour) -> bool:
        """Return whether the neighbour is the parent or a child."""
        return self.role(neighbour) is not Role.BLOCKED

    # -- towards the root ----------------------------------------------------------------------

    def adopt(self, neighbour: Neighbour) -> None:
        """Make a neighbour the parent at once; what was asked of others is taken back."""
        for other in (self.candidate, self._place.parent):
            if other is not None and other is not neighbour:
                self.leave(other)
        self.candidate = None
        if not neighbour.asked:
            self._ask(neighbour)
        self._place.parent = neighbour

    def prepare(self, neighbour: Neighbour) -> None:
        """Ask a neighbour to become the parent, and keep the present one until it accepts."""
        self.candidate = neighbour
        self._ask(neighbour)

    def change_over(self) -> None:
        """Replace the parent by the candidate, which has accepted."""
        candidate, self.candidate = self.candidate, None
        assert candidate is not None
        if self._place.parent is not None:
            self.leave(self._place.parent)
        self._place.parent = candidate
        candidate.granted = True
        self._forward(candidate)

    def granted(self) -> None:
        """Start to forward to the parent, which has accepted."""
        assert self._place.parent is not None
        self._place.parent.granted = True
        self._forward(self._place.parent)

    def leave(self, neighbour: Neighbour) -> None:
        """Stop being, or asking to be, a neighbour's child."""
        self._discard(neighbour)
        self._say(neighbour, Kind.LEAVE, neighbour.asked)
        self._reset(neighbour)

    def refused(self, neighbour: Neighbour) -> None:
        """Note that a neighbour does not take this gateway as its child now."""
        neighbour.refused = True
        self._reset(neighbour)

    # -- away from the root --------------------------------------------------------------------

    def accept(self, neighbour: Neighbour, join: int, root: Root) -> None:
        """Take a neighbour as a child; the data follow the ACCEPT on the wire."""
        self._say(neighbour, Kind.ACCEPT, join)
        neighbour.child_root = root
        self._forward(neighbour)

    def release(self, neighbour: Neighbour) -> None:
        """Let a child go."""
        neighbour.child_root = None
        self._discard(neighbour)

    # -- both ----------------------------------------------------------------------------------

    def change_root(self, root: Root) -> None:
        """Stop every link that was agreed on for another tree than ``root``."""
        for neighbour in self._neighbours.values():
            if neighbour.child_root is not None and not agreed(neighbour.child_root, root):
                self.release(neighbour)
        for other in (self.candidate, self._place.parent):
            if other is not None:
                self.leave(other)

    def gone(self, neighbour: Neighbour) -> bool:
        """Forget a neighbour whose link is no more; returns whether the link carried data."""
        self._reset(neighbour)
        neighbour.child_root = None
        carried = neighbour.link in self.forwarding
        self.forwarding.discard(neighbour.link)
        return carried

    def _ask(self, neighbour: Neighbour) -> None:
        if neighbour.child_root is not None:
            self.release(neighbour)
        neighbour.granted = False
        neighbour.asked = self._say(neighbour, Kind.JOIN, 0)

    def _reset(self, neighbour: Neighbour) -> None:
        neighbour.asked = 0
        neighbour.granted = False
        if neighbour is self._place.parent:
            self._place.parent = None
        if neighbour is self.candidate:
            self.candidate = None

    def _forward(self, neighbour: Neighbour) -> None:
        if neighbour.link not in self.forwarding:
            self.forwarding.add(neighbour.link)
            self._actions.append(Forward(neighbour.link))

    def _discard(self, neighbour: Neighbour) -> None:
        if neighbour.link in self.forwarding:
            self.forwarding.discard(neighbour.link)
            self._actions.append(Discard(neighbour.link))
