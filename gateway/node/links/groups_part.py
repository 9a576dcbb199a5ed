"""Shared subscriptions over the fleet, on a node's links: tells who is there, and asks the rule."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from gateway.base.kept_file import KeptFile
from gateway.base.record_file import RecordFile
from gateway.node.links.node import TreeNode
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Header
from tree_handler.errors import ProtocolError
from tree_handler.holders import Holders, SharedGroup
from tree_handler.members.place import Place
from tree_handler.newest_records import NewestRecords
from tree_handler.sharing import handed_on
from tree_handler.sharing.claims import TOPIC, Claims, OwnClaims
from tree_handler.sharing.groups import FleetGroups
from tree_handler.sharing.handed_on import HandedOn

FILE_NAME: Final = "shared-subscriptions"
"""In the state folder: what the log may not hold any more."""
_WITHOUT: Final = "members of shared subscriptions elsewhere are known when they are told of again"
PAYLOAD_MAX: Final = batch.MAX_FRAME_BYTES - (64 << 10)
"""A batch has room for so much, whatever seals it."""
SETTLES_S: Final = 10.0
"""Behind a start nobody in reach for so long means that nobody is."""
LINKED, SAME_GROUP, SAME_DOMAIN, ELSEWHERE = range(4)
"""The distances of another gateway: the nearest first."""

_log = logging.getLogger(__name__)


class GroupsPart:
    """A `Part` that has shared subscriptions served once over the fleet.

    Args:
        node: on whose links it rides.
        folder: where it keeps its file.
        decides: False where each gateway serves its own members; then this one says so.
        place_of: where a gateway stands, if it is known.
        carried_to: the gateways to which a message on a topic goes; None where it goes to all.

    Attributes:
        decides: as given.
        groups: what is known of others.
        counters: messages ``handed_on``, those of them ``refused_by_log``, which are lost to the
            others, ``taken_over``, and ``without_member``: for whom nobody is there any more.

    """

    topics: frozenset[bytes] = frozenset()

    def __init__(
        self,
        node: TreeNode,
        folder: Path,
        *,
        decides: bool,
        place_of: Callable[[str], Place | None],
        carried_to: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        self._node = node
        kept = KeptFile(folder / FILE_NAME, _WITHOUT)
        self._file = RecordFile(kept, "shared subscriptions elsewhere", self._kept)
        core = node.replication
        self._own_id = core.origin
        self._place_of = place_of
        self._own = OwnClaims(core.origin, core.epoch, decides=decides)
        self.decides = decides
        self.groups = FleetGroups(core.origin, self._distance, carried_to)
        self._newest: NewestRecords[Claims] = NewestRecords(core.have, node.locator.epoch_of)
        if decides:
            self.groups.own_lives.add(core.epoch)
        self._touched: Callable[[Collection[str]], None] = _nobody
        self._give: Callable[[Entry, SharedGroup, int], bool] = _no_member
        self.counters: Counter[str] = Counter()
        self._is_ready = False
        self._began_at_s = asyncio.get_running_loop().time()
        self._recall()
        node.locator.tell_of_moves(self._moved)
        node.exchange.tell_of_trims(self._trimmed)
        node.exchange.tell_of_losses(self._own.lost)

    def begin(
        self,
        touched: Callable[[Collection[str]], None],
        give: Callable[[Entry, SharedGroup, int], bool],
        may_hold: Callable[[str, str], bool],
    ) -> None:
        """From now on tell the others who is there.

        Args:
            touched: called with the filters of shared subscriptions that have come or gone
                elsewhere.
            give: gives a message to a member here, which was handed on so often; whether there is
                one.
            may_hold: whether a gateway's members may be given messages on a topic.

        """
        self._touched, self._give = touched, give
        self.groups.may_hold = may_hold
        self._is_ready = True
        self._node.reschedule()

    # -- what the broker asks: `tree_handler.sharing.rule.SharedGroups` --------------------------

    def has_room_for(self, group: SharedGroup) -> bool:
        """Return whether there may be members of this shared subscription, too."""
        return self._own.has_room_for(group)

    def changed(self, group: SharedGroup, presence: int) -> None:
        """Note who is there of a shared subscription, and tell other gateways soon."""
        if self._own.changed(group, presence):
            self._node.reschedule()

    def matching(self, topic: str) -> tuple[SharedGroup, ...]:
        """Return the shared subscriptions of a topic, unless its messages stay here."""
        return self.groups.matching(topic) if self._node.origin.leaves(topic) else ()

    def choose(self, topic: str, qos: int, here: Mapping[SharedGroup, int]) -> Holders:
        """Choose the holders of a message, unless it stays here."""
        return self.groups.choose(topic, qos, here) if self._node.origin.leaves(topic) else ()

    def gives(self, origin: str, holders: Holders, group: SharedGroup) -> bool:
        """Return whether a message is for this gateway's members."""
        return self.groups.gives(origin, holders, group)

    def hand_on(self, entry: Entry, holders: Holders, there: Collection[SharedGroup]) -> None:
        """Hand a message on for which this gateway has no member any more."""
        for share, topic_filter, holder in holders:
            group = share, topic_filter
            if holder in ("", self._own_id) and group not in there:
                self._hand_on(entry, group, 1)

    @property
    def is_settled(self) -> bool:
        """Return whether it is known who is in reach: not yet, right after a start."""
        waited_s = asyncio.get_running_loop().time() - self._began_at_s
        return bool(self._node.locator.reached) or waited_s >= SETTLES_S

    def is_elsewhere(self, group: SharedGroup) -> bool:
        """Return whether another gateway has members."""
        return self.groups.is_elsewhere(group)

    def is_sole(self, stream: Epoch, holders: Holders, group: SharedGroup) -> bool:
        """Return whether a message that a member here got can have reached no other member."""
        return self.groups.is_sole(stream, holders, group)

    def leave(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        """Hand on what a member leaves behind, unless its messages stay here."""
        return self._node.origin.leaves(entry.topic) and self._hand_on(entry, group, hops)

    def _hand_on(self, entry: Entry, group: SharedGroup, hops: int) -> bool:
        to = self.groups.next_holder(entry.topic, group) if hops <= handed_on.HOPS_MAX else None
        if to is None:
            self.counters["without_member"] += 1
            return False
        payload = HandedOn(group, hops, entry).encode()
        if len(payload) > PAYLOAD_MAX:
            self.counters["refused_by_log"] += 1
            return False
        self.counters["handed_on"] += 1
        logged = self._node.publish(Entry(handed_on.TOPIC + to, payload, qos=1), control=True)
        if logged is not None:
            logged.add_done_callback(self._is_handed_on)
        return True

    def _is_handed_on(self, logged: asyncio.Future[None]) -> None:
        if not logged.cancelled() and logged.exception() is not None:
            self.counters["refused_by_log"] += 1

    # -- what others tell ------------------------------------------------------------------------

    def control(self, entry: Entry, header: Header) -> None:
        """Take a message between gateways; other topics are not this part's.

        Raises:
            ProtocolError: it is no record of its origin's, or nothing that is handed on.

        """
        if entry.topic == handed_on.TOPIC + self._own_id:
            handed = HandedOn.decode(entry.payload)
            if self._give(handed.entry, handed.group, handed.hops):
                self.counters["taken_over"] += 1
            else:
                self._hand_on(handed.entry, handed.group, handed.hops + 1)
        else:
            self._record(entry, header)

    def _record(self, entry: Entry, header: Header) -> None:
        if entry.topic.startswith(TOPIC):
            record = Claims.decode(entry.payload)
            if not record.gateway_id == header.origin == entry.topic.removeprefix(TOPIC):
                raise ProtocolError("shared subscriptions of another gateway", record.gateway_id)
            self._take(record)

    def _kept(self, packed: bytes) -> None:
        self._take(Claims.decode(packed))

    def _take(self, record: Claims) -> None:
        gateway_id = record.gateway_id
        touched: frozenset[str] = frozenset()
        if self._newest.takes_place(gateway_id, self.groups.epoch_of(gateway_id), record):
            touched = self.groups.forget(gateway_id)
        if touched := touched | self.groups.update(record):
            self._touched(touched)

    def _moved(self, now: float) -> None:
        reached = self._node.locator.reached
        self.groups.moved(reached)
        for record in self._newest.refused_of(reached):
            self._take(record)

    def _distance(self, gateway_id: str) -> int:
        if self._node.is_linked(gateway_id):
            return LINKED
        own, other = self._place_of(self._own_id), self._place_of(gateway_id)
        if own is None or other is None or not own.domain or own.domain != other.domain:
            return ELSEWHERE
        return SAME_GROUP if own.group and own.group == other.group else SAME_DOMAIN

    # -- a part ----------------------------------------------------------------------------------

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing: the tree alone counts."""

    def link_down(self, link: int, now: float) -> None:
        """Do nothing: the tree alone counts."""

    def tree_changed(self, now: float) -> None:
        """Do nothing: the locator tells which gateways are reached."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Do nothing: nothing comes, as the part has no topic."""

    def next_timer(self) -> float:
        """Return when this gateway's claims, or the file of others', are due."""
        return min(self._own.next_timer(), self._file.next_timer()) if self._is_ready else math.inf

    def handle_timer(self, now: float) -> None:
        """Publish this gateway's claims if they have changed, and write the file."""
        self._file.handle_timer(now)
        record = self._own.take(now) if self._is_ready else None
        if record is not None:
            entry = Entry(TOPIC + record.gateway_id, record.encode(), qos=1)
            first = self._node.next_control
            logged = self._node.publish(entry, control=True)
            if logged is not None:
                logged.add_done_callback(partial(self._told, record, first))

    def _told(self, record: Claims, first: int, acknowledgement: asyncio.Future[None]) -> None:
        if acknowledgement.cancelled():
            return
        if acknowledgement.exception() is None:
            self._own.logged(record, first)
        else:
            self._own.refused()

    def status(self) -> dict[str, Any]:
        """Return who has members of which shared subscription, ready for JSON."""
        return {
            "gateways": {
                record.gateway_id: {
                    "decides": record.decides,
                    "groups": [
                        {"share": share, "filter": topic_filter, "presence": presence}
                        for (share, topic_filter), presence in sorted(record.groups.items())
                    ],
                }
                for record in self.groups
            },
            "left_out": self.groups.left_out,
            "counters": dict(self.counters),
        }

    # -- over a restart --------------------------------------------------------------------------

    def _trimmed(self, kept_from: Mapping[Epoch, int]) -> None:
        self._own.trimmed(kept_from)
        self._save()

    def _save(self) -> None:
        self._file.save(lambda: [record.encode() for record in self.groups])

    def _recall(self) -> None:
        self._file.recall()
        for frame, header in self._node.log.control():
            for entry in _entries(frame, header):
                try:
                    self._record(entry, header)
                except ProtocolError as wrong:
                    _log.warning("%s from %s: %s", entry.topic, header.origin, wrong)


def _entries(frame: bytes, header: Header) -> Iterable[Entry]:
    try:
        return batch.decode(frame, header)
    except ProtocolError as error:
        _log.warning("%s can't be read: %s", header, error)
        return ()


def _no_member(entry: Entry, group: SharedGroup, hops: int) -> bool:
    return False


def _nobody(filters: Collection[str]) -> None:
    """Nobody has looked for a route yet."""
