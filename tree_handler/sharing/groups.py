"""Choice of the gateway whose member of a shared subscription gets a message (MQTT 5.0, 4.8.2).

What is stated here and nowhere else is the one rule, in two halves:

1. *The origin chooses once.* The gateway that accepts a message chooses a holder for each shared
   subscription that matches. It keeps the message for its own members if one is connected. Else
   it chooses the nearest gateway in reach with a connected member; those that are equally near
   take turns. If nobody is connected anywhere, it takes a member whose session waits: its own, the
   nearest in reach, at last one out of reach. A message of QoS 0 is for connected members only.
   The choice stands in the message (`tree_handler.holders`).
2. *Each gateway obeys it.* It gives the message to its own members only if it is the holder. A
   message that names no holder is for the origin's own members, unless the origin is not known to
   choose: then it is given as by earlier releases, to one member on each gateway.

So whatever a gateway believes of the others, a message has one holder, and views that differ while
they change can cost no second copy. They can send it where nobody is a member any more: see
docs/tree.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from tree_handler.batch import Epoch
from tree_handler.holders import MAX_HOLDERS, Holder, Holders, SharedGroup
from tree_handler.routing.filter_trie import FilterTrie
from tree_handler.sharing.claims import DURABLE, ONLINE, Claims

MAX_GATEWAYS: Final = 1_000
"""Gateways whose records are kept: one more takes the place of one that is out of reach."""
MAX_TOPICS: Final = 20_000
"""Topics whose shared subscriptions are remembered."""
NAMED_MAX: Final = 32
"""Shared subscriptions of which a message names the same gateway as the holder."""
NAMED_TEXT_MAX: Final = 4_096
"""Characters of their names and filters: what one gateway may add to each message of others."""

Nearby = tuple[int, str]
"""The distance of a gateway, and its id."""


class FleetGroups:
    """The shared subscriptions of all other gateways, and who gets what.

    Args:
        own_id: this gateway.
        distance: how far away another gateway is: any number, less for nearer.
        carried_to: the gateways to which a message on a topic goes; None where it goes to all.

    Attributes:
        may_hold: whether a gateway may be chosen for messages on a topic.
        own_lives: the boot epochs of this gateway in which it named holders.
        left_out: how often nobody elsewhere was chosen, since a message named its most holders.

    """

    def __init__(
        self,
        own_id: str,
        distance: Callable[[str], int] = lambda _: 0,
        carried_to: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        self._own_id = own_id
        self._distance = distance
        self._carried_to = carried_to
        self._records: dict[str, Claims] = {}
        self._claimants: dict[SharedGroup, dict[str, int]] = {}
        self._index: FilterTrie[SharedGroup, None] = FilterTrie()
        self._reached: frozenset[str] = frozenset()
        self._matching: dict[str, tuple[SharedGroup, ...]] = {}
        self._candidates: dict[SharedGroup, tuple[list[Nearby], list[Nearby], list[Nearby]]] = {}
        self._turns: Counter[SharedGroup] = Counter()
        self.may_hold: Callable[[str, str], bool] = _anybody
        self.own_lives: set[int] = set()
        self.left_out = 0

    def __iter__(self) -> Iterator[Claims]:
        return iter(self._records.values())

    # -- what is known of others -----------------------------------------------------------------

    def update(self, record: Claims) -> frozenset[str]:
        """Take a record in.

        Returns:
            The filters of shared subscriptions that have come or gone by it, whose routes are to
            be found anew.

        """
        gateway_id = record.gateway_id
        if gateway_id == self._own_id:
            if record.decides:
                self.own_lives.add(record.epoch)
            return frozenset()
        old = self._records.get(gateway_id)
        if old is not None and record.age <= old.age:
            return frozenset()
        changed: set[str] = set()
        if old is None and len(self._records) >= MAX_GATEWAYS:
            gone = next((one for one in self._records if one not in self._reached), None)
            if gone is None:
                return frozenset()
            changed |= self._withdraw(gone, self._records.pop(gone).groups)
        self._records[gateway_id] = record
        if old is not None:
            changed |= self._withdraw(gateway_id, old.groups.keys() - record.groups.keys())
        for group, presence in record.groups.items():
            if group not in self._claimants:
                self._claimants[group] = {}
                self._index.set(group[1], group, None)
                changed.add(group[1])
            self._claimants[group][gateway_id] = presence
        self._candidates.clear()
        if changed:
            self._matching.clear()
        return frozenset(changed)

    def epoch_of(self, gateway_id: str) -> int:
        """Return the life of which a gateway's record is; 0 if none is known."""
        record = self._records.get(gateway_id)
        return 0 if record is None else record.epoch

    def forget(self, gateway_id: str) -> frozenset[str]:
        """Drop a gateway's record; see `update` for what is returned."""
        record = self._records.pop(gateway_id, None)
        if record is None:
            return frozenset()
        self._candidates.clear()
        self._matching.clear()
        return frozenset(self._withdraw(gateway_id, record.groups))

    def _withdraw(self, gateway_id: str, groups: Iterable[SharedGroup]) -> set[str]:
        """Forget members of a gateway; the filters of what has no members elsewhere any more."""
        changed: set[str] = set()
        for group in groups:
            claimants = self._claimants[group]
            del claimants[gateway_id]
            if not claimants:
                del self._claimants[group]
                self._turns.pop(group, None)
                self._index.delete(group[1], group)
                changed.add(group[1])
        return changed

    def moved(self, reached: frozenset[str]) -> None:
        """These are the other gateways in reach now; some may be nearer or farther."""
        self._reached = reached
        self._candidates.clear()

    def decides(self, origin: str) -> bool:
        """Return whether a gateway says of the messages that it accepts whose members get them."""
        record = self._records.get(origin)
        return record is not None and record.decides

    def matching(self, topic: str) -> tuple[SharedGroup, ...]:
        """Return the shared subscriptions with members elsewhere that match a topic of clients."""
        found = self._matching.get(topic)
        if found is None:
            if len(self._matching) >= MAX_TOPICS:
                self._matching.clear()
            keys = () if topic[:1] == "$" else sorted(self._index.matching_keys(topic))
            found = self._matching[topic] = tuple(keys)
        return found

    # -- the rule --------------------------------------------------------------------------------

    def choose(self, topic: str, qos: int, here: Mapping[SharedGroup, int]) -> Holders:
        """Choose the holders of a message that this gateway accepts.

        Args:
            topic: its topic.
            qos: as published.
            here: `ONLINE` and `DURABLE` of this gateway's members that may receive it.

        """
        groups = self.matching(topic)
        if not groups:
            return ()
        carried_to = None if self._carried_to is None else self._carried_to(topic)
        found: list[Holder] = []
        named: Counter[str] = Counter()
        named_text: Counter[str] = Counter()
        for group in groups:
            if here.get(group, 0) & ONLINE:
                continue
            kept = bool(qos and here.get(group, 0) & DURABLE)
            holder = self._nearest(topic, group, lasts=bool(qos), kept=kept, carried_to=carried_to)
            if holder is None:
                continue
            named[holder] += 1
            named_text[holder] += len(group[0]) + len(group[1])
            is_over = named[holder] > NAMED_MAX or named_text[holder] > NAMED_TEXT_MAX
            if is_over or len(found) >= MAX_HOLDERS:
                self.left_out += 1
            else:
                found.append((*group, holder))
        return tuple(found)

    def next_holder(self, topic: str, group: SharedGroup) -> str | None:
        """Choose another gateway for a message of QoS 1 or 2 that has no member here any more."""
        if group not in self._claimants:
            return None
        carried_to = None if self._carried_to is None else self._carried_to(topic)
        return self._nearest(topic, group, lasts=True, kept=False, carried_to=carried_to)

    def gives(self, origin: str, holders: Holders, group: SharedGroup) -> bool:
        """Return whether a message is for this gateway's members of a shared subscription.

        Args:
            origin: the gateway that accepted it; empty for this one.
            holders: what the message says.
            group: the shared subscription.

        """
        for share, topic_filter, holder in holders:
            if (share, topic_filter) == group:
                return holder in ("", self._own_id)
        return origin in ("", self._own_id) or not self.decides(origin)

    def is_elsewhere(self, group: SharedGroup) -> bool:
        """Return whether another gateway has members of a shared subscription."""
        return group in self._claimants

    def is_sole(self, stream: Epoch, holders: Holders, group: SharedGroup) -> bool:
        """Return whether a message that a member here got can have reached no other member.

        Not what an origin accepted that names nobody: each gateway may have given it. Nor what
        this gateway accepted in a life of which nothing says that it named holders.

        Args:
            stream: the gateway that accepted it and its life; no id for this one and this life.
            holders: what the message says.
            group: the shared subscription.

        """
        if stream[0] in ("", self._own_id):
            return not stream[0] or stream[1] in self.own_lives
        return (*group, self._own_id) in holders

    def _nearest(
        self,
        topic: str,
        group: SharedGroup,
        *,
        lasts: bool,
        kept: bool,
        carried_to: Collection[str] | None,
    ) -> str | None:
        online, durable, absent = self._candidates.get(group) or self._sorted(group)
        levels = [online]
        if lasts and not kept:
            levels += [durable, absent]
        for level in levels:
            there = [
                one
                for one in level
                if (carried_to is None or one[1] in carried_to) and self.may_hold(one[1], topic)
            ]
            if there:
                equal = [one for distance, one in there if distance == there[0][0]]
                turn = self._turns[group]
                self._turns[group] = turn + 1
                return equal[turn % len(equal)]
        return None

    def _sorted(self, group: SharedGroup) -> tuple[list[Nearby], list[Nearby], list[Nearby]]:
        online: list[Nearby] = []
        durable: list[Nearby] = []
        absent: list[Nearby] = []
        for gateway_id, presence in self._claimants[group].items():
            near = (self._distance(gateway_id), gateway_id)
            if gateway_id not in self._reached:
                if presence & DURABLE:
                    absent.append(near)
            elif presence & ONLINE:
                online.append(near)
            elif presence & DURABLE:
                durable.append(near)
        found = self._candidates[group] = (sorted(online), sorted(durable), sorted(absent))
        return found


def _anybody(gateway_id: str, topic: str) -> bool:
    return True
