"""Exactly-once replication of batches over links that come and go (rows B7, E2).

What is stated here and nowhere else: which batches a gateway has, which it passes on to whom,
in which order local clients get them, and what it asks its neighbours for.

A batch arrives on a link in one of two ways. The fast path is the tree: live batches flow over
the links that forward, each is passed on to every other forwarding link and dropped where it
is known already. The log makes the guarantee: whenever a link comes up, starts to forward or
has drained, and at an interval while things change, both ends tell each other what they have
(`Summary`), ask for what they lack (`Request`) and are sent whole batches from the other's log. So
whatever the tree dropped (a cut, a full link, a crash) arrives by repair, on any live link.

The shell feeds events in and carries out the returned actions in their order. A batch counts as
had, is passed on and handed out only when the shell reports it `appended`: a log that refuses
one (disk full) leaves no trace of it here. Time is monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field

from tree_handler import batch
from tree_handler.anti_entropy import AntiEntropy
from tree_handler.batch import CONTROL_PREFIX, NOTE_PREFIX, Epoch, Flags, Header, Row
from tree_handler.delivery import Deliver, Delivery
from tree_handler.epoch_order import EpochOrder, note, statement
from tree_handler.errors import BatchError, ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.repair import (
    Request,
    SearchId,
    Seek,
    Sought,
    Summary,
    answer,
)
from tree_handler.replication_actions import (
    Action,
    Append,
    Look,
    Lost,
    Push,
    Route,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)
from tree_handler.search import Searches

MAX_SOUGHT_NUMBERS = 1_000_000
"""In one search."""
MAX_UNLOGGED_RANGES = 64
"""Gaps remembered in the QoS 0 numbers of one origin; beyond it the oldest count as lost."""

_KIND = batch.LOGGED_BIT | batch.CONTROL_BIT
"""What an origin numbers apart."""

__all__ = [
    "Action",
    "Append",
    "Look",
    "Lost",
    "Push",
    "Replication",
    "Route",
    "SendBatch",
    "SendRepair",
    "SendRequest",
    "SendSeek",
    "SendSought",
    "SendSummary",
    "Serve",
    "known",
]

_NOTHING = Intervals()


@dataclass(slots=True)
class _Link:
    forwarding: bool = False
    full: bool = False
    told_version: int = -1


@dataclass(slots=True)
class Counters:
    """What happened, for status and metrics."""

    published: int = 0
    received: int = 0
    forwarded: int = 0
    duplicates: int = 0
    discarded: int = 0
    repaired: int = 0
    malformed: int = 0
    lost: int = 0


def known(have: Intervals, header: Header) -> bool:
    """De-duplication: whether every message of a batch is here already."""
    return have.covers(header.first, header.last)


@dataclass(slots=True)
class Replication:
    """One gateway's view of every origin's batches.

    Args:
        origin: this gateway's id.
        epoch: this gateway's boot epoch.
        have: what the log holds, and held before it was trimmed, by stream.
        floods_clients: whether clients' streams go to all, by flooding and by repair between
            neighbours. Without it whoever routes them sends what `publish` had appended, feeds
            what arrives to `take` and `passed_over`, and repairs; control streams stay as they are.
        repair_interval_s: how often a changed summary is sent.
        repair_timeout_s: when an unanswered request may be repeated.
        origin_gone_s: for how long a number is waited for that nobody within reach has, while its
            origin is not within reach either: it may come back and have it.
        told: control batches that the log holds; of them it is known which earlier epochs an
            origin had.

    """

    origin: str
    epoch: int
    have: dict[Epoch, Intervals] = field(default_factory=dict)
    floods_clients: bool = True
    repair_interval_s: float = 5.0
    repair_timeout_s: float = 5.0
    origin_gone_s: float = 3600.0
    told: InitVar[Iterable[tuple[bytes, Header]]] = ()
    counters: Counters = field(default_factory=Counters)
    _links: dict[int, _Link] = field(default_factory=dict)
    _unlogged: dict[Epoch, Intervals] = field(default_factory=dict)
    _next: dict[int, int] = field(default_factory=dict)
    _unsaid: tuple[int, int] | None = None
    """Numbers of this epoch whose messages stay here, which neighbours have not been told of."""
    _version: int = 0
    _next_repair: float = 0.0
    _delivery: Delivery = field(default_factory=Delivery)
    _kept_from: dict[Epoch, int] = field(default_factory=dict)
    _has_told_epochs: bool = False
    _stuck: dict[Epoch, float] = field(default_factory=dict)
    """Since when something of a stream is missing that no neighbour can send."""
    _next_search: float = 0.0
    _order: EpochOrder = field(init=False)
    _neighbours: AntiEntropy = field(init=False)
    _searches: Searches = field(init=False)

    def __post_init__(self, told: Iterable[tuple[bytes, Header]]) -> None:
        self._order = EpochOrder(self.origin, self.have, told)
        self._neighbours = AntiEntropy(self.have, self._is_flooded, self.repair_timeout_s)
        self._searches = Searches(self.origin, self.epoch, self._kept)
        # What a restart finds in the log was handed out, or its receivers are gone.
        self._delivery.resume(self.have, self._order.is_open)

    # -- what this gateway's own clients publish ---------------------------------------------

    @property
    def next_logged(self) -> int:
        """The number that the next logged message of this gateway's clients gets."""
        return self._next.get(batch.LOGGED_BIT, 1)

    def publish(self, rows: Sequence[Row], flags: Flags, origin_time_us: int) -> list[Action]:
        """Make the next batch of this origin and send it on its way.

        Args:
            rows: the messages.
            flags: LOCAL (with LOGGED) if they are not to leave this gateway: they are numbered and
                logged as all are, and others are told to pass over their numbers.
            origin_time_us: this gateway's wall clock, microseconds since 1970.

        Raises:
            BatchError: no messages, or too large.

        """
        if flags & Flags.LOGGED and not self._has_told_epochs:
            return self._begin_epoch(rows, flags, origin_time_us)
        frame, header = self._make(rows, flags, origin_time_us)
        if header.logged:
            return [Append(frame, header, None)]
        self._next[header.flags & _KIND] = header.last + 1
        self.counters.published += header.count
        return self._flood(frame, header, None)

    def appended(self, done: Append) -> list[Action]:
        """The log has the batch of an `Append`: pass it on and hand out what is due."""
        header = done.header
        key = header.stream
        have = self.have.get(key)
        if have is None:
            have = self.have[key] = Intervals()
            self._order.met(key)
        new = have.add(header.first, header.last)
        if key[0].startswith(NOTE_PREFIX):
            return self._release_all(self._order.opened(key[0]))
        self._version += 1
        if self._is_own(header):
            self._next[header.flags & _KIND] = header.last + 1
            self.counters.published += header.count
            self._has_told_epochs |= header.control
            self._delivery.skip(key, have)
            return self._on_its_way(done.frame, header)
        actions = self._flood(done.frame, header, done.source)
        if header.flags & Flags.LOST:
            self.counters.lost += new
            actions.append(Lost(key, header.first, header.last))
        elif not header.passed:
            self.counters.received += header.count
        if header.control:
            self._order.read(done.frame, header)
        if header.origin == self.origin:  # of an epoch that this gateway's disk has lost
            self._delivery.skip(key, have)
        elif self._order.is_open(key):
            actions += self._delivery.add(done.frame, header, have)
        else:
            self._delivery.hold(done.frame, header)
        return [*actions, *self._open(header.origin)]

    # -- clients' streams that somebody else routes --------------------------------------------

    def take(self, frame: bytes, header: Header, *, repaired: bool = False) -> list[Action]:
        """Take a batch of another gateway's clients that was sent to this one, logged or QoS 0.

        The same rules as for a batch from a link: what is known is dropped and counted; of a
        logged one an `Append` is returned (no source), and `appended` hands out what is due. So
        order, bounds and what a restart finds are the same too. Nothing is passed on.

        Args:
            frame: the bytes of a whole batch.
            header: what `batch.check` made of them.
            repaired: whether it was asked for.

        Raises:
            ProtocolError: of this gateway's own epoch, or not to leave another gateway.

        """
        return self._take(frame, header, None, repair=repaired)

    def passed_over(
        self, stream: Epoch, first: int, last: int, *, is_lost: bool = False
    ) -> list[Action]:
        """The messages ``first..last`` of a stream are not for this gateway, or lost to it.

        They count as covered once the log has the statement, so that a restart knows it too, and
        what waits behind them is handed out. What is covered already costs nothing. The statement
        is for this gateway alone: neighbours never get it from here.
        """
        if stream == (self.origin, self.epoch):
            return []
        have = self.have.get(stream, _NOTHING)
        gaps = have.missing(first, last)
        flags = Flags.PASSED | Flags.LOCAL
        if is_lost:
            flags |= Flags.LOST
        return [
            Append(*batch.passed(stream, *part, flags), None)
            for gap in gaps
            for part in _parts(*gap)
        ]

    def covered(self, stream: Epoch) -> Intervals:
        """The numbers of a stream that came, were passed over, or are this gateway's own.

        Valid until the next call; not the caller's to change.
        """
        return self.have.get(stream, _NOTHING)

    # -- links -------------------------------------------------------------------------------

    def link_up(self, link: int, now: float) -> list[Action]:
        """A neighbour is there; repair may begin even while the tree blocks the link."""
        self._links[link] = _Link()
        self._neighbours.link_up(link)
        self._searches.link_up(link)
        self._next_repair = min(self._next_repair, now + self.repair_interval_s)
        return [self._tell(link)]

    def link_down(self, link: int, now: float) -> list[Action]:
        """The neighbour is gone; what it was asked for may be asked of others."""
        self._links.pop(link, None)
        return [*self._searches.link_down(link), *self._neighbours.link_down(link, now)]

    def forwarding(self, link: int, *, forwards: bool) -> list[Action]:
        """The tree starts or stops to forward over a link."""
        state = self._links.get(link)
        if state is None or state.forwarding == forwards:
            return []
        state.forwarding = forwards
        if not forwards:
            return []
        lacks = self._neighbours.lacks(link, self._kept)
        return [*([] if lacks is None else [Push(link, lacks)]), self._tell(link)]

    def joins(self, link: int) -> list[Action]:
        """The tree asks this neighbour to be the parent: say what is here, so that it can send what
        is not as soon as it has accepted."""
        return [self._tell(link)] if link in self._links else []

    def link_full(self, link: int) -> None:
        """The link's queue is full: batches that are logged stop, the log is their queue."""
        if link in self._links:
            self._links[link].full = True

    def replay(self, link: int, frame: bytes, header: Header) -> list[SendBatch]:
        """The shell has come to this batch in the log for a link that is full: send it, if it is
        for that link. It does not know which batches came over the link."""
        state = self._links.get(link)
        if state is None or not (state.forwarding and header.numbered):
            return []
        if not self._is_flooded(header.stream):
            return []
        self.counters.forwarded += 1
        return [SendBatch(link, sent) for sent in answer([(frame, header)])]

    def link_drained(self, link: int) -> list[Action]:
        """The link has been sent all that is in the log, or will not be: live batches go on."""
        state = self._links.get(link)
        if state is None or not state.full:
            return []
        state.full = False
        return [self._tell(link)]

    def lacking(self, link: int) -> int | None:
        """How many messages that can be sent from here a neighbour lacked when it last told.

        None if it has told nothing yet, or is gone.
        """
        return self._neighbours.lacking(link, self._kept_from)

    # -- what neighbours send ----------------------------------------------------------------

    def receive_batch(self, link: int, frame: bytes, *, repair: bool = False) -> list[Action]:
        """Take a batch, live or as an answer to a request.

        Raises:
            BatchError: the bytes are no batch; the neighbour is broken.

        """
        state = self._links.get(link)
        if state is None or not (repair or state.forwarding):
            self.counters.discarded += 1
            return []
        try:
            header = batch.check(frame)
        except BatchError:
            self.counters.malformed += 1
            raise
        if header.end != len(frame):
            self.counters.malformed += 1
            raise BatchError("batch followed by other bytes", len(frame) - header.end)
        if not (self.floods_clients or header.control):
            self.counters.discarded += 1
            return []
        if not repair:
            return self._take(frame, header, link, repair=False)
        self._neighbours.came(link, header)
        relayed = self._searches.relay(link, frame, header)
        return [*relayed, *self._take(frame, header, link, repair=True)]

    def receive_summary(self, link: int, summary: Summary, now: float) -> list[Action]:
        """Compare what the neighbour has with what is here, and ask for the difference."""
        if link not in self._links:
            return []
        self._neighbours.told(link, summary)
        return [*self._neighbours.ask(link, now)]

    def receive_request(self, link: int, request: Request) -> list[Action]:
        """The neighbour asks for batches from the log."""
        return [Serve(link, request)] if link in self._links else []

    def progressed(self, link: int, now: float) -> None:
        """A part of what a neighbour was asked for has come: the rest is waited for anew."""
        self._neighbours.progressed(link, now)

    def receive_done(self, link: int, now: float) -> list[Action]:
        """The neighbour has sent all of the last request that it had: go on with the next."""
        return [*self._neighbours.done(link, now)]

    def receive_seek(self, link: int, seek: Seek, now: float) -> list[Action]:
        """The neighbour, or somebody behind it, asks for what no neighbour of the seeker has."""
        return self._searches.receive_seek(link, seek, now) if link in self._links else []

    def receive_sought(self, link: int, sought: Sought, now: float) -> list[Action]:
        """The neighbour answers a search."""
        return [*self._searches.receive_sought(link, sought), *self._give_up(now)]

    def looked(self, number: SearchId, found: Mapping[Epoch, Intervals]) -> list[Action]:
        """The shell has carried out a `Look`: these numbers were in the log and are sent."""
        return self._searches.looked(number, found)

    # -- time --------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """When `handle_timer` is due."""
        return self._next_repair

    def handle_timer(self, now: float) -> list[Action]:
        """Send summaries to neighbours that have not been told the latest; repeat requests."""
        if now < self._next_repair:
            return []
        self._next_repair = now + self.repair_interval_s
        actions: list[Action] = self._say_passed()
        for link, state in self._links.items():
            # A full link is told when it has been sent all: else it would ask for what comes.
            if state.told_version != self._version and not state.full:
                actions.append(self._tell(link))
        actions += self._neighbours.handle_timer(now)
        actions += self._searches.handle_timer(now)
        actions += self._give_up(now)
        for origin in list(self._order.waiting):
            actions += self._open(origin)
        return [*actions, *self._seek(now)]

    def trimmed(self, kept_from: dict[Epoch, int]) -> None:
        """The log dropped its oldest: the lowest number it still holds, by stream."""
        self._kept_from = dict(kept_from)
        self._version += 1

    # -- what retained messages depend on ----------------------------------------------------

    def handed_out(self, stream: Epoch) -> int:
        """Up to which number local clients have got a stream; what was given up counts as got."""
        return self._delivery.handed_out(stream)

    @staticmethod
    def is_clients(stream: Epoch) -> bool:
        """Whether a stream is of clients' messages."""
        return not stream[0].startswith((CONTROL_PREFIX, NOTE_PREFIX))

    def may_come(self, stream: Epoch, number: int) -> bool:
        """Whether a number that was not handed out is here, or a neighbour can send it."""
        return number in self.have.get(stream, _NOTHING) or any(
            number in theirs for theirs in self._neighbours.can_send(stream)
        )

    def is_catching_up(self) -> bool:
        """Whether neighbours said that they have what is lacking here."""
        return self._neighbours.is_catching_up()

    # -- within ------------------------------------------------------------------------------

    def _take(
        self, frame: bytes, header: Header, source: int | None, *, repair: bool
    ) -> list[Action]:
        if header.local:
            self.counters.malformed += 1
            raise ProtocolError("batch that was not to leave its gateway", str(header))
        if not header.numbered:
            return self._take_unlogged(header.stream, header, frame, source)
        if known(self.have.get(header.stream, _NOTHING), header):
            self.counters.duplicates += not header.passed
            return []
        if self._is_own(header):
            # Nobody else numbers for this epoch: a second gateway runs under this id.
            self.counters.malformed += 1
            raise ProtocolError("batch of this gateway's own epoch that it never made", str(header))
        if repair and not header.passed:
            self.counters.repaired += header.count
        return [Append(frame, header, source)]

    def _take_unlogged(
        self, key: Epoch, header: Header, frame: bytes, source: int | None
    ) -> list[Action]:
        seen = self._unlogged.setdefault(key, Intervals())
        if self._is_own(header) or not seen.add(header.first, header.last):
            self.counters.duplicates += 1
            return []
        if len(seen) > MAX_UNLOGGED_RANGES:
            ranges = list(seen)
            seen.add(ranges[0][0], ranges[len(ranges) // 2][1])
        self.counters.received += header.count
        return [*self._flood(frame, header, source), Deliver(frame, header, header.first)]

    def _is_flooded(self, stream: Epoch) -> bool:
        if stream[0].startswith(NOTE_PREFIX):
            return False
        return self.floods_clients or stream[0].startswith(CONTROL_PREFIX)

    def _is_own(self, header: Header) -> bool:
        return header.origin == self.origin and header.epoch == self.epoch

    def _on_its_way(self, frame: bytes, header: Header) -> list[Action]:
        """Flood a logged batch of this gateway's own, or remember that it is to be passed over."""
        if not header.local:
            if header.control or self._unsaid is None:
                return self._flood(frame, header, None)
            return [*self._say_passed(), *self._flood(frame, header, None)]
        actions: list[Action] = []
        if self._unsaid is not None and self._unsaid[1] + 1 != header.first:
            actions = self._say_passed()
        first = header.first if self._unsaid is None else self._unsaid[0]
        self._unsaid = first, header.last
        return actions

    def _say_passed(self) -> list[Action]:
        """Tell neighbours over which of this gateway's numbers to pass; repair tells the rest."""
        if self._unsaid is None:
            return []
        said, self._unsaid = self._unsaid, None
        return [
            action
            for part in _parts(*said)
            for action in self._flood(*batch.passed((self.origin, self.epoch), *part), None)
        ]

    def _flood(self, frame: bytes, header: Header, source: int | None) -> list[Action]:
        actions: list[Action] = []
        if header.local:
            return actions
        if not (self.floods_clients or header.control):
            is_ours = self._is_own(header) and not header.passed
            return [Route(frame, header)] if is_ours else actions
        unlogged = 0 if header.numbered else header.count
        for link, state in self._links.items():
            if link == source or not state.forwarding or (state.full and not unlogged):
                continue
            self.counters.forwarded += 1
            actions.append(SendBatch(link, frame, unlogged))
        return actions

    def _tell(self, link: int) -> SendSummary:
        self._links[link].told_version = self._version
        have = {key: numbers for key, numbers in self.have.items() if self._is_flooded(key)}
        return SendSummary(link, Summary.of(have, self._kept_from))

    # -- what nobody within reach has ------------------------------------------------------------

    def _seek(self, now: float) -> list[Action]:
        """Ask everybody within reach for what no neighbour can send."""
        missing = self._neighbours.out_of_reach(self._order.expected())
        self._stuck = {key: self._stuck.get(key, now) for key in missing}
        if not missing or not self._links or now < self._next_search or self._searches.is_seeking:
            return []
        self._next_search = now + self.repair_interval_s
        longest = sorted(missing.items(), key=lambda row: self._stuck[row[0]])
        wanted = Request.of(longest, MAX_SOUGHT_NUMBERS).wanted
        return [*self._searches.begin(wanted, now), *self._give_up(now)]

    def _give_up(self, now: float) -> list[Action]:
        """Count as lost what a search found nowhere, if its origin was asked or is long gone."""
        result, self._searches.result = self._searches.result, None
        if result is None or not result.complete:
            return []
        actions: list[Action] = []
        waits = False
        for key, left in result.left.items():
            gone = now - self._stuck.get(key, now) >= self.origin_gone_s
            if not gone and key[0].removeprefix(CONTROL_PREFIX) not in result.origins:
                waits = True
                continue
            for first, last in left.without(self.have.get(key, _NOTHING)):
                actions += self._lost(key, first, last)
        if waits:  # each search asks everybody
            self._next_search = now + max(self.repair_interval_s, self.origin_gone_s / 8)
        return actions

    @staticmethod
    def _lost(stream: Epoch, first: int, last: int) -> list[Action]:
        flags = Flags.PASSED | Flags.LOST | Flags.LOCAL
        return [Append(*batch.passed(stream, *part, flags), None) for part in _parts(first, last)]

    # -- order across epochs ---------------------------------------------------------------------

    def _begin_epoch(self, rows: Sequence[Row], flags: Flags, origin_time_us: int) -> list[Action]:
        """Before all else that is logged in this epoch, tell where earlier ones ended."""
        told = statement(self.origin, self.epoch, self.have).row()
        if flags & Flags.CONTROL:
            return [Append(*self._make([told, *rows], flags, origin_time_us), None)]
        return [
            Append(*self._make([told], Flags.LOGGED | Flags.CONTROL, origin_time_us), None),
            Append(*self._make(rows, flags, origin_time_us), None),
        ]

    def _open(self, origin: str) -> list[Action]:
        """Note in the log which epochs may be handed out now, if there are more."""
        if origin not in self._order.waiting:
            return []
        epoch = self._order.can_open(origin, self._neighbours.last_known)
        return [] if epoch is None else [Append(*note(origin, epoch), None)]

    def _release_all(self, streams: Iterable[Epoch]) -> list[Action]:
        return [
            action
            for stream in streams
            for action in self._delivery.release(stream, self.have[stream])
        ]

    # -- names and numbers -----------------------------------------------------------------------

    def _make(self, rows: Sequence[Row], flags: Flags, origin_time_us: int) -> tuple[bytes, Header]:
        first = self._next.get(int(flags) & _KIND, 1)
        return batch.make(
            self.origin, self.epoch, first, rows, flags=flags, origin_time_us=origin_time_us
        )

    def _kept(self, stream: Epoch) -> Intervals:
        return Summary(self.have, self._kept_from).kept(stream)


def _parts(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut a range into what a statement can hold."""
    for start in range(first, last + 1, batch.MAX_PASSED):
        yield start, min(last, start + batch.MAX_PASSED - 1)
