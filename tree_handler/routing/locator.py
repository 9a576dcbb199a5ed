"""The location of other gateways: the link over which the spanning tree reaches each (C4's SRT).

Each gateway tells its neighbour over each forwarding link whom it reaches over its others, itself
included: all of them when the link starts to forward, then what changes. So on a tree every
gateway knows behind which of its links each other one is, and whether it is in reach at all; and
which life of it that is, by its boot epoch.

That can't count to infinity: what is heard stands only as long as the link that it came over
forwards, and the live links are a forest at every instant (`spanning_tree`), so no ring of
gateways can hold each other's news up. While the tree changes two gateways may point at each
other; a message never goes back over the link that it came by, and what is lost is repaired.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

MAX_BEHIND: Final = 10_000
"""Gateways behind one link; a neighbour that tells of more is broken."""
MAX_BYTES: Final = 2 << 20
"""Bound on what a neighbour tells: twice that many names and lives, and ids that have gone."""
SIZE: Final = MessageSize(MAX_BYTES, 5 * MAX_BEHIND + LATER_ELEMENTS, MAX_BEHIND)


@dataclass(frozen=True, slots=True)
class GatewayLocation:
    """The link over which a gateway is reached, and its life.

    Attributes:
        link: over this one, a number that never comes again.
        epoch: in this life of it.

    """

    link: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReachUpdate:
    """The gateways that a gateway reaches over its other links.

    Attributes:
        whole: ``added`` are all there are; what was told before is void.
        added: boot epochs of those that are reached now, by id.
        removed: ids that are not any more.

    """

    whole: bool
    added: Mapping[str, int]
    removed: frozenset[str] = frozenset()

    def encode(self) -> bytes:
        """Return the wire form."""
        added = [[one, self.added[one]] for one in sorted(self.added)]
        packed: bytes = msgpack.packb([self.whole, added, sorted(self.removed)])
        return packed

    @classmethod
    def decode(cls, data: bytes) -> ReachUpdate:
        """Read the wire form.

        Raises:
            ProtocolError: not such a message, or over the limit.

        """
        row = unpack("gateways behind a link", data, SIZE)
        if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], bool):
            raise ProtocolError("gateways behind a link", row)
        return cls(row[0], _lives(row[1]), _ids(row[2]))


def _lives(rows: object) -> dict[str, int]:
    if not isinstance(rows, list) or len(rows) > MAX_BEHIND:
        raise ProtocolError("gateways behind a link", rows)
    lives = {}
    for row in rows:
        match row:
            case [one, int(epoch)] if type(epoch) is int and 0 <= epoch <= MAX_BOOT_EPOCH:
                lives[check_name("gateway behind a link", one)] = epoch
            case _:
                raise ProtocolError("gateway behind a link", row)
    return lives


def _ids(rows: object) -> frozenset[str]:
    if not isinstance(rows, list) or len(rows) > MAX_BEHIND:
        raise ProtocolError("gateways behind a link", rows)
    return frozenset(check_name("gateway behind a link", one) for one in rows)


class Locator:
    """A table of the links by which every other gateway is reached.

    Args:
        own_id: this gateway.
        epoch: its boot epoch.

    """

    def __init__(self, own_id: str, epoch: int) -> None:
        self._own_id = own_id
        self._epoch = epoch
        self._heard: dict[int, dict[str, int]] = {}
        """By link, while it is up; that of which was heard last comes last."""
        self._told: dict[int, dict[str, int]] = {}
        """The locations that each forwarding link was told."""
        self._reached: frozenset[str] = frozenset()
        self._came: set[str] = set()

    @property
    def forwarding(self) -> Collection[int]:
        """The links that forward."""
        return self._told.keys()

    @property
    def reached(self) -> frozenset[str]:
        """All other gateways that are in reach."""
        return self._reached

    def take_came(self) -> set[str]:
        """Return who has come into reach since the last call, or may be on another way now."""
        came, self._came = self._came & self._reached, set()
        return came

    def link_of(self, gateway_id: str) -> int | None:
        """Return the link behind which a gateway is; None if it is not in reach."""
        for link in reversed(self._heard):
            if link in self._told and gateway_id in self._heard[link]:
                return link
        return None

    def epoch_of(self, gateway_id: str) -> int | None:
        """Return the boot epoch under which a gateway is in reach; None if it is not."""
        way = self.way_to(gateway_id)
        return None if way is None else way.epoch

    def way_to(self, gateway_id: str) -> GatewayLocation | None:
        """Return how a gateway is reached; None if it is not."""
        link = self.link_of(gateway_id)
        return None if link is None else GatewayLocation(link, self._heard[link][gateway_id])

    def forwards(self, links: Collection[int]) -> dict[int, ReachUpdate]:
        """These are the links that forward now; whom to tell what."""
        for gone in self._told.keys() - links:
            del self._told[gone]
        for new in links - self._told.keys():
            self._told[new] = {}
            self._heard.setdefault(new, {})
        return self._tell()

    def link_down(self, link: int) -> dict[int, ReachUpdate]:
        """Forget a link that has ended."""
        self._heard.pop(link, None)
        self._told.pop(link, None)
        return self._tell()

    def receive(self, link: int, behind: ReachUpdate) -> dict[int, ReachUpdate]:
        """Take from a neighbour whom it reaches; return what to tell others.

        Raises:
            ProtocolError: too many gateways.

        """
        self.learn(link, behind)
        if behind.whole:
            return self._tell()
        return self._tell_of(behind.added.keys() | behind.removed) if link in self._told else {}

    def learn(self, link: int, behind: ReachUpdate) -> None:
        """Take from a neighbour whom it reaches; `tell` is to follow, for all that was learnt.

        Raises:
            ProtocolError: too many gateways.

        """
        if link in self._told:
            self._came |= behind.added.keys()
        heard = {} if behind.whole else self._heard.get(link, {})
        heard |= behind.added
        for gone in (*behind.removed, self._own_id):
            heard.pop(gone, None)
        if len(heard) > MAX_BEHIND:
            raise ProtocolError("gateways behind a link", len(heard))
        self._heard.pop(link, None)
        self._heard[link] = heard

    def tell(self) -> dict[int, ReachUpdate]:
        """Return what to tell others after what was learnt."""
        return self._tell()

    def _tell_of(self, changed: Set[str]) -> dict[int, ReachUpdate]:
        """Do as `_tell`, where nothing is another than before but for these.

        However many others there are: one that comes and goes would cost a look at all of them.
        """
        news: dict[int, ReachUpdate] = {}
        for link, told in self._told.items():
            added: dict[str, int] = {}
            removed: set[str] = set()
            for one in changed - {self._own_id}:
                epoch = self._epoch_beyond(one, link)
                if told.get(one) == epoch:
                    continue
                if epoch is None:
                    del told[one]
                    removed.add(one)
                else:
                    told[one] = added[one] = epoch
            if added or removed:
                news[link] = ReachUpdate(False, added, frozenset(removed))
        there = {one for one in changed if self.link_of(one) is not None}
        if there - self._reached or not self._reached.isdisjoint(changed - there):
            self._came |= there - self._reached
            self._reached = (self._reached | there) - (changed - there)
        self._came -= changed - there
        return news

    def _epoch_beyond(self, gateway_id: str, link: int) -> int | None:
        """Return in which life the neighbour over a link is told that a gateway is reached."""
        epoch = None
        for other in self._told:
            if other != link:
                epoch = self._heard[other].get(gateway_id, epoch)
        return epoch

    def _tell(self) -> dict[int, ReachUpdate]:
        news: dict[int, ReachUpdate] = {}
        for link, told in self._told.items():
            now = {self._own_id: self._epoch}
            for other in self._told:
                if other != link:
                    now |= self._heard[other]
            if not told:  # it forwards only now
                news[link] = ReachUpdate(True, dict(now))
            elif now != told:
                added = {one: epoch for one, epoch in now.items() if told.get(one) != epoch}
                news[link] = ReachUpdate(False, added, frozenset(told.keys() - now.keys()))
            self._told[link] = now
        before = self._reached
        self._reached = frozenset().union(*(self._heard[link] for link in self._told))
        self._came = (self._came | (self._reached - before)) & self._reached
        return news
