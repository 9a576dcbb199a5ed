"""The record of what a gateway wants and has, told to all others: routing follows it (C4, C5).

A gateway's record is replicated as its membership is: a logged message between gateways, so
it reaches all by the same guarantee as any acknowledged message, and a still fleet sends none.
The newest wins. When the log of its gateway drops it, it is told anew for those who join later.
The wire form is a msgpack map, so that a later version can add keys: a reader ignores the ones it
does not know.

A record says too much rather than too little: a filter that was cut short brings its gateway
messages that nobody there wants, a filter left out would lose some.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.members.own_record import OwnRecord
from tree_handler.members.place import check_name
from tree_handler.routing.filter_trie import FilterTrie
from tree_handler.routing.topic_filters import collapse, levels_of, matches, proper
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

TOPIC: Final = "$hedgerow/interest/"
"""A record travels on this and its gateway's id."""
MAX_FILTERS: Final = 512
"""Filters and topics in a record, of each kind; more are cut to prefixes."""
MAX_LEVELS: Final = 16_384
"""Levels of all filters of a record, and of all its topics; likewise."""
MAX_FILTER_CHARACTERS: Final = 65_535
MAX_NEIGHBOURS: Final = 1_000
MAX_RECORD_BYTES: Final = 4 << 20
SIZE: Final = MessageSize(
    MAX_RECORD_BYTES, 2 * MAX_FILTERS + MAX_NEIGHBOURS + LATER_ELEMENTS, MAX_NEIGHBOURS
)
MAX_ADVERTISED: Final = 2_000
"""Topics that a gateway remembers to have advertised before they are cut to prefixes."""
TOPIC_S: Final = 86_400.0
"""A topic is advertised for so long at least after its last message, and twice as long at most."""
MAX_ROUTES: Final = 20_000
"""Topics whose destinations are remembered."""
_LOOKS_MAX: Final = 200_000
"""Filters times topics; beyond it all routes are forgotten rather than searched."""


@dataclass(frozen=True, slots=True)
class Interest:
    """One gateway's record.

    Attributes:
        gateway_id: whose it is.
        epoch: its boot epoch.
        version: one higher at each change within an epoch.
        subscribes: topic filters of its clients, those that are away included.
        publishes: topics on which its clients publish, or filters that cover them.
        neighbours: gateways to which it has a link.
        clients: clients connected.
        rooted: overlays of which it is the root.
        transit: False for a leaf, over which nobody else is reached.

    """

    gateway_id: str
    epoch: int
    version: int
    subscribes: frozenset[str] = frozenset()
    publishes: frozenset[str] = frozenset()
    neighbours: frozenset[str] = frozenset()
    clients: int = 0
    rooted: int = 0
    transit: bool = True

    @property
    def age(self) -> tuple[int, int]:
        """Return the age of the record: of two records of a gateway the greater one is newer."""
        return self.epoch, self.version

    def encode(self) -> bytes:
        """Return the wire form."""
        values: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        for name in ("subscribes", "publishes", "neighbours"):
            values[name] = sorted(values[name])
        packed: bytes = msgpack.packb(values)
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Interest:
        """Read the wire form; keys of later versions are ignored.

        Raises:
            ProtocolError: not msgpack, too long, a field missing, of a wrong type or out of
                range; the message names it.

        """
        values = unpack("interest record", data, SIZE)
        if not isinstance(values, dict):
            raise ProtocolError("interest record", values)
        if missing := [name for name in _FIELDS if name not in values]:
            raise ProtocolError(f"interest record without {missing[0]}")
        if not isinstance(values["transit"], bool):
            raise ProtocolError("interest transit", values["transit"])
        return cls(
            check_name("interest gateway_id", values["gateway_id"]),
            _number("epoch", values["epoch"], 1),
            _number("version", values["version"]),
            _filters("subscribes", values["subscribes"]),
            _filters("publishes", values["publishes"]),
            frozenset(
                check_name("interest neighbour", one)
                for one in _list("neighbours", values["neighbours"], MAX_NEIGHBOURS)
            ),
            _number("clients", values["clients"]),
            _number("rooted", values["rooted"]),
            values["transit"],
        )


_FIELDS = tuple(one.name for one in fields(Interest))


def _number(name: str, value: object, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
        raise ProtocolError(f"interest {name}", value)
    return value


def _list(name: str, value: object, most: int) -> list[object]:
    if not isinstance(value, list) or len(value) > most:
        raise ProtocolError(f"interest {name}", value)
    return value


def _filters(name: str, value: object) -> frozenset[str]:
    filters = set()
    for one in _list(name, value, MAX_FILTERS):
        if not isinstance(one, str) or not 0 < len(one) <= MAX_FILTER_CHARACTERS:
            raise ProtocolError(f"interest {name}", one)
        filters.add(one)
    if (levels := levels_of(filters)) > MAX_LEVELS:
        raise ProtocolError(f"interest {name}, levels", levels)
    return frozenset(filters)


class OwnInterest:
    """This gateway's own record: what changes it, and when it is told again.

    The first change is told at once, those that follow soon after it together; the larger the
    record, the less often, so that ``bytes_per_s`` bounds what a restless gateway costs the
    others. What only says how busy the gateway is waits for ``load_interval_s``.

    Args:
        gateway_id: of this gateway.
        epoch: its boot epoch.
        transit: False for a leaf.
        interval_s: least time between two records.
        bytes_per_s: the greatest rate of records.
        load_interval_s: how long a change of load alone waits.

    Attributes:
        turns: how often topics were let go of on which nothing is published any more. Who asks for
            routes has to look at each topic anew then (`Interests.look_anew`): else it would not
            be noticed that a topic is still in use.

    """

    def __init__(
        self,
        gateway_id: str,
        epoch: int,
        *,
        transit: bool = True,
        interval_s: float = 0.2,
        bytes_per_s: float = 32_768,
        load_interval_s: float = 10.0,
    ) -> None:
        self._told = Interest(gateway_id, epoch, 0, transit=transit)
        self._subscribes: Counter[str] = Counter()
        self._publishes: set[str] = set()
        self._before: set[str] = set()
        """Those of the turn before."""
        self.turns = 0
        self._turn_at = math.inf
        self._neighbours: frozenset[str] = frozenset()
        self._load = (0, 0)
        self._interval_s = interval_s
        self._bytes_per_s = bytes_per_s
        self._load_interval_s = load_interval_s
        self._is_due = True
        self._is_forgotten = False
        self._in_log = OwnRecord(gateway_id, epoch)
        self._not_before = -math.inf
        self._told_at = -math.inf

    def subscribed(self, topic_filter: str) -> None:
        """A client has subscribed, with a filter that may be shared."""
        topic_filter = proper(topic_filter)
        self._subscribes[topic_filter] += 1
        if self._subscribes[topic_filter] == 1:
            self._is_due = True

    def unsubscribed(self, topic_filter: str) -> None:
        """One subscription with this filter has ended."""
        topic_filter = proper(topic_filter)
        self._subscribes[topic_filter] -= 1
        if self._subscribes[topic_filter] <= 0:
            del self._subscribes[topic_filter]
            self._is_due = True

    def published(self, topic: str) -> None:
        """A client publishes on this topic: advertise it (C4's $PUBADV) if it is new."""
        if topic in self._publishes:
            return
        if len(self._publishes) >= MAX_ADVERTISED:
            # Many topics once are many topics for good: from here on prefixes are remembered.
            self._publishes = set(collapse(self._publishes, MAX_FILTERS // 2, MAX_LEVELS // 2))
        if any(matches(f, topic) for f in self._publishes if f[-1:] == "#"):
            return
        self._publishes.add(topic)
        self._is_due = self._is_due or topic not in self._before

    def linked_to(self, neighbours: Iterable[str]) -> None:
        """These are the gateways to which there are links."""
        self._neighbours = frozenset(neighbours)
        self._is_due = True

    def busy(self, clients: int, rooted: int = 0) -> None:
        """So many clients are connected, and so many overlays have their root here."""
        self._load = clients, rooted

    def refused(self) -> None:
        """The record that was taken last could not be told, or was forgotten: tell it anew."""
        self._is_due = self._is_forgotten = True

    def logged(self, record: Interest, number: int) -> None:
        """A record is in the log, not before this number of its gateway's control stream."""
        if (record.gateway_id, *record.age) == (self._told.gateway_id, *self._told.age):
            self._in_log.logged(number)

    def trimmed(self, kept_from: Mapping[Epoch, int]) -> None:
        """The log dropped its oldest: the lowest number that it still holds, by stream.

        A gateway that does not know the record would send this one nothing.
        """
        if self._in_log.is_to_be_told_anew(kept_from):
            self._is_due = self._is_forgotten = True

    def lost(self, lost: Mapping[Epoch, Intervals]) -> None:
        """The log can't read these numbers any more, by stream; as for `trimmed`."""
        if self._in_log.may_be_lost(lost):
            self._is_due = self._is_forgotten = True

    def next_timer(self) -> float:
        """Return when `take` may have a record; infinity if nothing has changed."""
        return min(self._next_change(), self._turn_at)

    def _next_change(self) -> float:
        if self._is_due:
            return self._not_before
        if self._load != (self._told.clients, self._told.rooted):
            return self._told_at + self._load_interval_s
        return math.inf

    def take(self, now: float) -> Interest | None:
        """Return the record that is to be told now, if one is due."""
        self._turn(now)
        if now < self._next_change():
            return None
        told = replace(
            self._told,
            subscribes=collapse(self._subscribes, MAX_FILTERS, MAX_LEVELS),
            publishes=collapse(self._publishes | self._before, MAX_FILTERS, MAX_LEVELS),
            neighbours=frozenset(sorted(self._neighbours)[:MAX_NEIGHBOURS]),
            clients=self._load[0],
            rooted=self._load[1],
        )
        self._is_due = False
        if told == self._told and told.version and not self._is_forgotten:
            return None
        self._is_forgotten = False
        self._in_log.told()
        self._told = told = replace(told, version=self._told.version + 1)
        self._told_at = now
        size = sum(map(len, (*told.subscribes, *told.publishes, *told.neighbours)))
        self._not_before = now + max(self._interval_s, size / self._bytes_per_s)
        return told

    def _turn(self, now: float) -> None:
        """Let go of topics on which nothing is published any more."""
        if now >= self._turn_at:
            self._is_due = self._is_due or not self._before <= self._publishes
            self._before, self._publishes = self._publishes, set()
            self.turns += 1
            self._turn_at = math.inf
        if self._turn_at == math.inf and (self._publishes or self._before):
            self._turn_at = now + TOPIC_S


class Interests:
    """The records of all gateways, and for a topic who is to get its messages (C4's PRT).

    Args:
        own_id: this gateway, which is no destination of its own messages.
        published: called with a topic that is looked up for the first time, or again after a
            while: that is when it is advertised.

    """

    def __init__(self, own_id: str, published: Callable[[str], None] = lambda _: None) -> None:
        self._published = published
        self._own_id = own_id
        self._records: dict[str, Interest] = {}
        self._index: FilterTrie[str, None] = FilterTrie()
        self._routes: dict[str, frozenset[str]] = {}
        self._all: frozenset[str] | None = None

    def __iter__(self) -> Iterator[Interest]:
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def get(self, gateway_id: str) -> Interest | None:
        """Return the newest record of a gateway."""
        return self._records.get(gateway_id)

    def update(self, record: Interest) -> Interest | None:
        """Take a record in; the one it replaces, or itself if it is that gateway's first.

        None if a newer one is known, or this very one.
        """
        gateway_id = record.gateway_id
        old = self._records.get(gateway_id)
        if old is not None and record.age <= old.age:
            return None
        self._records[gateway_id] = record
        if old is None:
            self._all = None
        if gateway_id != self._own_id:
            before = frozenset() if old is None else old.subscribes
            for gone in before - record.subscribes:
                self._index.delete(gone, gateway_id)
            for new in record.subscribes - before:
                self._index.set(new, gateway_id, None)
            self._forget(before ^ record.subscribes)
        return old or record

    def forget(self, gateway_id: str) -> None:
        """A gateway is gone for good: it wants nothing any more."""
        record = self._records.pop(gateway_id, None)
        if record is None:
            return
        self._all = None
        for gone in record.subscribes:
            self._index.delete(gone, gateway_id)
        self._forget(record.subscribes)

    def look_anew(self) -> None:
        """Tell of each topic again when it is looked up next."""
        self._routes.clear()

    @property
    def everyone(self) -> frozenset[str]:
        """All gateways but this one: the destinations of retained messages."""
        if self._all is None:
            self._all = frozenset(self._records.keys() - {self._own_id})
        return self._all

    def destinations(self, topic: str) -> frozenset[str]:
        """Return the gateways with a client that wants messages on a topic, this one left out."""
        found = self._routes.get(topic)
        if found is None:
            if len(self._routes) >= MAX_ROUTES:
                self._routes.clear()
            found = self._routes[topic] = self._index.matching_keys(topic)
            self._published(topic)
        return found

    def _forget(self, changed: frozenset[str]) -> None:
        """Forget the routes of the topics that a changed filter matches."""
        if len(changed) * len(self._routes) > _LOOKS_MAX:
            self._routes.clear()
            return
        for topic in [t for t in self._routes if any(matches(f, t) for f in changed)]:
            del self._routes[topic]
