"""Choice of the neighbour that is the parent, and when that changes."""

from __future__ import annotations

import math

from tree_handler.spanning.agreement import Agreements
from tree_handler.spanning.election import Root
from tree_handler.spanning.neighbour import Neighbour
from tree_handler.spanning.offers import Offers
from tree_handler.spanning.parameters import Parameters
from tree_handler.spanning.place import TreePosition


class ParentChoice:
    """Decides, after each event, on what the neighbours now offer.

    Args:
        place: the gateway's place, which a decision changes.
        offers: what the neighbours offer.
        agreements: how a decision is carried out.
        parameters: margins and timers.

    """

    def __init__(
        self, place: TreePosition, offers: Offers, agreements: Agreements, parameters: Parameters
    ) -> None:
        self.give_up_at = math.inf
        """The time when a gateway that has lost the root stops hoping."""
        self._place = place
        self._offers = offers
        self._agreements = agreements
        self._parameters = parameters

    def decide(self, now: float) -> None:
        """Take the best parent that may be taken now.

        Args:
            now: monotonic time in seconds.

        """
        place, offers = self._place, self._offers
        self._leave_what_is_void()
        best = offers.best()
        if best is not None and best[0] != place.root and offers.better(best[0], place.root):
            self._enter(*best)
        elif place.at_root:
            pass
        elif place.holds:
            self._improve(best)
        elif not place.is_over and (found := offers.best_in(place.root)) is not None:
            self._rejoin(found)
        elif self._may_hope(now):
            pass
        elif best is not None and offers.better(best[0], place.own):
            self._enter(*best)
        else:
            self._enter(place.own, None)
        if place.holds:
            self.give_up_at = math.inf

    def _leave_what_is_void(self) -> None:
        """Leave a parent that is in another tree now, and a candidate that may not be taken."""
        root, parent, candidate = self._place.root, self._place.parent, self._agreements.candidate
        if parent is not None and not parent.names(root):
            self._agreements.leave(parent)
        if candidate is not None and not self._offers.eligible(candidate, root):
            self._agreements.leave(candidate)

    def _enter(self, root: Root, parent: Neighbour | None) -> None:
        """Change the tree: nothing that was agreed on for the old one stays."""
        self._agreements.change_root(root)
        self._place.enter(root)
        self.give_up_at = math.inf
        if parent is not None:
            self._agreements.adopt(parent)

    def _rejoin(self, found: Neighbour) -> None:
        """Find back into the same tree; a parent that lost it serves until another accepts."""
        agreements, parent = self._agreements, self._place.parent
        if parent is None or not parent.granted:
            agreements.adopt(agreements.candidate or found)
        elif agreements.candidate is None:
            agreements.prepare(found)

    def _improve(self, best: tuple[Root, Neighbour] | None) -> None:
        """Ask for a better parent, if it is better by the margin and both links are known."""
        place, parent = self._place, self._place.parent
        if parent is None or not parent.granted or self._agreements.candidate is not None:
            return
        found = best[1] if best and best[0] == place.root else self._offers.best_in(place.root)
        if found is None or found is parent:
            return
        if not (parent.round_trip.settled and found.round_trip.settled):
            return
        margin, margin_ms = self._parameters.switch_margin, self._parameters.switch_margin_ms
        if parent.path_ms - found.path_ms >= max(margin * parent.path_ms, margin_ms):
            self._agreements.prepare(found)

    def _may_hope(self, now: float) -> bool:
        """Return whether a gateway that has lost the root still waits for it."""
        place = self._place
        if place.is_over or not self._offers.hopes(place.root, self._agreements):
            return False
        if self.give_up_at == math.inf:
            wave_s = 2 * (place.hops + 1) * self._offers.answer_s
            self.give_up_at = now + 2 * self._parameters.hello_s + wave_s
        return now < self.give_up_at
