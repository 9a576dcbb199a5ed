"""A simulated gateway in routed mode: the shell around `Routed`, `Locator` and `OwnInterest`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import partial
from typing import Any, ClassVar, Protocol

from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Append, RouteBatch
from tree_handler.routing.actions import SendRouted, ServeRouted, Settle
from tree_handler.routing.interest import TOPIC, Interest, Interests, OwnInterest
from tree_handler.routing.locator import Locator, ReachUpdate
from tree_handler.routing.routed import Routed
from tree_handler.routing.runs import Run, Ways
from tree_handler.routing.wire import Ask
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import Start
from tree_handler.simulation.network import End
from tree_handler.simulation.replicating import ReplicatingGateway, Witness

SERVED_AT_ONCE = 20
"""Batches sent for one request."""
READING_S = 0.002
"""The time that it takes to read the log."""


@dataclass(slots=True)
class Ledger:
    """An account of every message, seen from outside.

    Attributes:
        due: by stream and number, whom the origin knew to want it.
        sent_to: those whom the origin named.
        for_everybody: numbers of which the origin did not know for whom they are.
        records: by gateway, what it was told of others since its disk was whole.

    """

    due: dict[tuple[Epoch, int], frozenset[str]] = field(default_factory=dict)
    sent_to: dict[tuple[Epoch, int], frozenset[str]] = field(default_factory=dict)
    for_everybody: dict[Epoch, Intervals] = field(default_factory=lambda: defaultdict(Intervals))
    records: dict[str, dict[str, Interest]] = field(default_factory=lambda: defaultdict(dict))

    def was_told(self, gateway_id: str, record: Interest) -> None:
        """A gateway has a record in its log."""
        known = self.records[gateway_id]
        if (before := known.get(record.gateway_id)) is None or before.age < record.age:
            known[record.gateway_id] = record


@dataclass(frozen=True, slots=True)
class _Behind:
    payload: bytes


@dataclass(frozen=True, slots=True)
class _Routed:
    payload: bytes


class RoutedWitness(Witness, Protocol):
    """A witness that checks to whom messages are sent as well: `routed.RoutedTraffic`."""

    ledger: Ledger
    saved: dict[str, tuple[int, list[bytes], list[Any]]]
    subscriptions: dict[str, list[str]]


class RoutedGateway(ReplicatingGateway):
    """A gateway in routed mode; see `ReplicatingGateway`.

    Args:
        start: see there.
        disk: see there.
        traffic: see there.
        ways: who knows shorter ways.

    """

    floods_clients: ClassVar = False
    origin_gone_s: ClassVar = math.inf
    """Nothing is given up, so whatever would be waited for without end shows."""

    def __init__(
        self, start: Start, disk: Disk, traffic: RoutedWitness, ways: Ways | None = None
    ) -> None:
        super().__init__(start, disk, traffic)
        own = start.tree.identity
        self._ledger = traffic.ledger
        self._saved = traffic.saved
        self._run = Run([], frozenset())
        self._full: set[int] = set()
        self._before: tuple[int, list[Any]] = (0, [])
        self.locator = Locator(own.gateway_id, own.boot_epoch)
        self.interests = Interests(own.gateway_id)
        self.routed = Routed(self.replication, self.interests, self.locator, ways)
        self.own = OwnInterest(own.gateway_id, own.boot_epoch, transit=own.transit)
        for topic_filter in traffic.subscriptions[own.gateway_id]:
            self.own.subscribed(topic_filter)
        self._recall()
        self._routed_timer = self.timer(self._routed_due)

    # -- what a restart finds --------------------------------------------------------------------

    def save(self) -> None:
        """Keep what the log need not be read for again."""
        position, accounts = self._disk.position, self.routed.accounts.save()
        if self.routed.is_unsure:  # the next start reads the log again from there
            position, accounts = self._before
        records = [record.encode() for record in self.interests]
        self._saved[self.gateway_id] = position, records, accounts

    def _recall(self) -> None:
        position, records, accounts = self._saved.get(self.gateway_id, (0, [], []))
        if position > self._disk.position:  # the log has lost its end
            position, accounts = -1, []
            self._saved[self.gateway_id] = position, records, accounts
        self._before = position, accounts
        for record in records:
            self.interests.update(Interest.decode(record))
        self.routed.accounts.load(accounts, self.now)
        for frame, header in self._disk.read_from(position):
            self.routed.recall(frame, header, self.now)
        kept_from, is_whole = self._disk.kept_from(), self._disk.is_whole_from(position)
        self.routed.recalled(kept_from, self.now, is_whole=is_whole)
        self._note_for_everybody()
        self.log_trimmed()

    def _note_for_everybody(self) -> None:
        for epoch, stream in self.routed.accounts.streams.items():
            self._ledger.for_everybody[self.gateway_id, epoch].update(stream.for_everybody)

    def _repair_due(self, now: float) -> None:
        super()._repair_due(now)
        if len(self._disk.log) > self._disk.most_batches:
            self.save()  # the file is never older than the log
            self._disk.trim()
            self.log_trimmed()
            self._set_timer()

    def log_trimmed(self) -> None:
        """Let the accounts and the own record go on with it, too."""
        super().log_trimmed()
        kept_from = self._disk.kept_from()
        self.routed.trimmed(kept_from)
        self.own.trimmed(kept_from)

    # -- clients ---------------------------------------------------------------------------------

    def subscribe(self, topic_filter: str) -> None:
        """A client subscribes."""
        self.own.subscribed(topic_filter)
        self._set_timer()

    def unsubscribe(self, topic_filter: str) -> None:
        """A client's subscription ends."""
        self.own.unsubscribed(topic_filter)
        self._set_timer()

    def publish(self, entries: list[Entry], flags: int) -> int:
        """Accept messages of a client, and route them; return how many were accepted."""
        before = self.replication.counters.published
        for run in self.routed.runs([entry.row() for entry in entries]):
            self._run = run
            self._replicate(self.replication.publish(run.rows, flags, 0))
        if self.routed.is_unsure:
            self._note_for_everybody()
        self._set_timer()
        return self.replication.counters.published - before

    def has_lost(self, lost: dict[Epoch, Intervals]) -> None:
        """Find that the log can't read these any more; what it owes is known in memory."""
        super().has_lost(lost)
        for stream, numbers in lost.items():
            self.routed.lost(stream, numbers, self.now)
        self.own.lost(lost)
        self._set_timer()

    def waits_for(self) -> Iterator[str]:
        """Tell what this gateway waits for, acknowledgements of routed messages among it."""
        yield from super().waits_for()
        if self.routed.is_serving:
            yield "its log to be read"
        for gateway_id, count in self.routed.accounts.owed().items():
            if gateway_id in self.locator.reached:
                yield f"{gateway_id} to say that it has {count} messages"

    def _tell_interest(self, now: float) -> None:
        turns = self.own.turns
        record = self.own.take(now)
        if self.own.turns != turns:
            self.routed.interests.look_anew()
        if record is not None:
            row = Entry(TOPIC + record.gateway_id, record.encode(), qos=1).row()
            flags = Flags.LOGGED | Flags.CONTROL
            if self._disk.full_until_s <= self._clock.now:
                self.interests.update(record)
            else:
                self.own.refused()
            self._replicate(self.replication.publish([row], flags, 0))

    # -- links -----------------------------------------------------------------------------------

    def reaches(self, gateway_id: str) -> int | None:
        """Return the boot epoch under which the locator reaches a gateway."""
        return self.locator.epoch_of(gateway_id)

    def take(self, end: End, message: object) -> None:
        """Take in a message of the locator or of routing, or one of replication."""
        if isinstance(message, _Behind):
            self._tell_behind(self.locator.receive(end.link, ReachUpdate.decode(message.payload)))
        elif isinstance(message, _Routed):
            self._replicate(self.routed.receive(end.link, message.payload, self.now))
        super().take(end, message)

    def _follow_tree(self) -> None:
        gone = self._told - self.ends.keys()
        super()._follow_tree()
        for link in gone:
            self._tell_behind(self.locator.link_down(link))
        self._tell_behind(self.locator.forwards(self.tree.forwarding.intersection(self.ends)))

    def link_full(self, end: End) -> None:
        """Stop sending over the link; the origin's log is the queue."""
        super().link_full(end)
        self._full.add(end.link)

    def link_drained(self, end: End) -> None:
        """Send what waited for the link."""
        super().link_drained(end)
        self._full.discard(end.link)

    def _tell_behind(self, news: dict[int, ReachUpdate]) -> None:
        for link, behind in news.items():
            self._say(link, _Behind(behind.encode()))
        self.routed.moved(self.now)

    # -- carrying out ----------------------------------------------------------------------------

    def _replicate(self, actions: Iterable[Any]) -> None:
        for action in actions:
            match action:
                case RouteBatch(frame, header):
                    self._note(frame, header)
                    self._replicate(self.routed.accepted(frame, header, self._run, self.now))
                case SendRouted(link, payload):
                    if link in self._full and action.is_batch and not action.unlogged:
                        self.routed.counters["link_full"] += 1
                    else:
                        self._say(link, _Routed(payload))
                case Settle(stream, last):
                    self._replicate(self.routed.settle(stream, last))
                case ServeRouted(ask, wanted):
                    self._clock.at(self._clock.now + READING_S, partial(self._serve, ask, wanted))
                case Append(frame, header) if header.control and header.logged:
                    super()._replicate([action])
                    if self._disk.have[header.stream].covers(header.first, header.last):
                        self._learn(frame, header)
                case _:
                    super()._replicate([action])

    def _learn(self, frame: bytes, header: Header) -> None:
        for entry in batch.decode(frame, header):
            if entry.topic.startswith(TOPIC):
                record = Interest.decode(entry.payload)
                self._ledger.was_told(self.gateway_id, record)
                self.routed.update(record, self.now)
                self.own.logged(record, header.first)

    def _serve(self, ask: Ask, wanted: Intervals) -> None:
        if not self.alive:
            return
        frames = self._disk.read(ask.stream, wanted)
        is_all = len(frames) <= SERVED_AT_ONCE
        self._replicate(self.routed.served(ask, frames[:SERVED_AT_ONCE], is_all=is_all))

    def _note(self, frame: bytes, header: Header) -> None:
        """Match the messages anew, against the records that are known here."""
        if header.control:
            return
        for number, entry in enumerate(batch.decode(frame, header), header.first):
            due = {
                record.gateway_id
                for record in self._records()
                if record.gateway_id != self.gateway_id
                and (
                    entry.retain
                    or any(
                        _matches(f.split("/"), entry.topic.split("/")) for f in record.subscribes
                    )
                )
            }
            if header.logged:
                self._ledger.due[header.stream, number] = frozenset(due)
                self._ledger.sent_to[header.stream, number] = self._run.to

    def _records(self) -> Iterator[Interest]:
        """Yield what is known here, and what was before the log lost some of it."""
        yield from self.interests
        if self.routed.is_unsure:
            yield from self._ledger.records[self.gateway_id].values()

    # -- time ------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        super()._set_timer()
        self._routed_timer.set(min(self.routed.next_timer(), self.own.next_timer()))

    def _routed_due(self, now: float) -> None:
        self._replicate(self.routed.handle_timer(now))
        self._tell_interest(now)
        self._set_timer()


def _matches(wanted: list[str], levels: list[str]) -> bool:
    """Section 4.7 of MQTT 5.0 as it is written, for topics that do not begin with ``$``."""
    if not wanted:
        return not levels
    if wanted[0] == "#":
        return True
    return bool(levels) and wanted[0] in ("+", levels[0]) and _matches(wanted[1:], levels[1:])
