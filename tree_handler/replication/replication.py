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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace

from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, NOTE_PREFIX, Epoch, Flags, Header, Row
from tree_handler.errors import BatchError, ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import (
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
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.delivery import Deliver, Delivery
from tree_handler.replication.epoch_order import EpochOrder, note
from tree_handler.replication.losses import Losses
from tree_handler.replication.own_batches import OwnBatches, parts
from tree_handler.replication.repair import (
    Request,
    SearchId,
    Seek,
    Sought,
    Summary,
    answer,
)
from tree_handler.replication.search import Searches
from tree_handler.replication.set_aside import SetAside
from tree_handler.replication.unlogged import Unlogged

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
    set_aside: int = 0


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
    origin_gone_s: float = 24 * 3600.0
    told: InitVar[Iterable[tuple[bytes, Header]]] = ()
    counters: Counters = field(default_factory=Counters)
    _links: dict[int, _Link] = field(default_factory=dict)
    _unlogged: Unlogged = field(default_factory=Unlogged)
    _version: int = 0
    _next_repair: float = 0.0
    _delivery: Delivery = field(default_factory=Delivery)
    _kept_from: dict[Epoch, int] = field(default_factory=dict)
    _waiting: dict[str, float] = field(default_factory=dict)
    """Since when an origin has epochs that wait for earlier ones."""
    _order: EpochOrder = field(init=False)
    _neighbours: AntiEntropy = field(init=False)
    _searches: Searches = field(init=False)
    _losses: Losses = field(init=False)
    _own: OwnBatches = field(init=False)
    _set_aside: SetAside = field(default_factory=SetAside)

    def __post_init__(self, told: Iterable[tuple[bytes, Header]]) -> None:
        self._order = EpochOrder(
            self.origin, self.have, told, from_origin_alone=not self.floods_clients
        )
        self._neighbours = AntiEntropy(self.have, self._is_flooded, self.repair_timeout_s)
        self._searches = Searches(self.origin, self.epoch, self._kept)
        self._losses = Losses(self._searches, self.repair_interval_s, self.origin_gone_s)
        self._own = OwnBatches(self.origin, self.epoch)
        # What a restart finds in the log was handed out, or its receivers are gone.
        self._delivery.resume(self.have, self._order.is_open)

    # -- what this gateway's own clients publish ---------------------------------------------

    @property
    def next_logged(self) -> int:
        """The number that the next logged message of this gateway's clients gets."""
        return self._own.next_logged

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
        made = self._own.make(rows, flags, origin_time_us, self.have)
        if flags & Flags.LOGGED:
            return [Append(frame, header, None) for frame, header in made]
        ((frame, header),) = made
        self._own.accepted(header)
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
        if self._own.is_own(header):
            self._own.accepted(header)
            self.counters.published += header.count
            self._delivery.skip(key, have)
            said = [] if header.control else self._own.unsaid_before(header)
            return self._flood_all([*said, (done.frame, header)])
        actions = self._flood(done.frame, header, done.source)
        if header.flags & Flags.LOST:
            self.counters.lost += new
            why = self._set_aside.why(header)
            self.counters.set_aside += new if why else 0
            lost = Lost(key, header.first, header.last)
            actions.append(replace(lost, why=why) if why else lost)
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
            for part in parts(*gap)
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

        One that breaks the rules again and again counts as lost in the end (`set_aside`).

        Raises:
            ProtocolError: the bytes are no batch, or one that must not come; the neighbour is
                broken.

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
        try:
            return self._receive(link, frame, header, repair=repair)
        except ProtocolError as error:
            numbers = header.stream, header.first, header.last
            if (
                self._own.is_own(header)
                or not self._is_flooded(header.stream)
                or self._neighbours.can_another_send(link, *numbers)
                or not self._set_aside.is_due(header, str(error))
            ):
                raise
            return self.passed_over(*numbers, is_lost=True)

    def _receive(self, link: int, frame: bytes, header: Header, *, repair: bool) -> list[Action]:
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
        actions = self._flood_all(self._own.unsaid())
        for link, state in self._links.items():
            # A full link is told when it has been sent all: else it would ask for what comes.
            if state.told_version != self._version and not state.full:
                actions.append(self._tell(link))
        actions += self._neighbours.handle_timer(now)
        actions += self._searches.handle_timer(now)
        actions += self._give_up(now)
        actions += self._open_all(now)
        if self._links:
            missing = self._neighbours.out_of_reach(self._order.expected())
            actions += self._losses.seek(missing, now)
        return [*actions, *self._give_up(now)]

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
            return self._take_unlogged(header, frame, source)
        if known(self.have.get(header.stream, _NOTHING), header):
            self.counters.duplicates += not header.passed
            return []
        if self._own.is_own(header):
            # Nobody else numbers for this epoch: a second gateway runs under this id.
            self.counters.malformed += 1
            raise ProtocolError("batch of this gateway's own epoch that it never made", str(header))
        if repair and not header.passed:
            self.counters.repaired += header.count
        return [Append(frame, header, source)]

    def _take_unlogged(self, header: Header, frame: bytes, source: int | None) -> list[Action]:
        if self._own.is_own(header) or not self._unlogged.is_new(header):
            self.counters.duplicates += 1
            return []
        self.counters.received += header.count
        return [*self._flood(frame, header, source), Deliver(frame, header, header.first)]

    def _is_flooded(self, stream: Epoch) -> bool:
        if stream[0].startswith(NOTE_PREFIX):
            return False
        return self.floods_clients or stream[0].startswith(CONTROL_PREFIX)

    def _flood_all(self, made: Iterable[tuple[bytes, Header]]) -> list[Action]:
        return [action for one in made for action in self._flood(*one, None)]

    def _flood(self, frame: bytes, header: Header, source: int | None) -> list[Action]:
        actions: list[Action] = []
        if header.local:
            return actions
        if not (self.floods_clients or header.control):
            is_ours = self._own.is_own(header) and not header.passed
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

    def _give_up(self, now: float) -> list[Action]:
        """Note as lost what nobody within reach has."""
        flags = Flags.PASSED | Flags.LOST | Flags.LOCAL
        return [
            Append(*batch.passed(stream, *part, flags), None)
            for stream, left in self._losses.given_up(now)
            for gap in left.without(self.have.get(stream, _NOTHING))
            for part in parts(*gap)
        ]

    # -- order across epochs ---------------------------------------------------------------------

    def _open(self, origin: str) -> list[Action]:
        """Note in the log which epochs may be handed out now, if there are more."""
        if origin not in self._order.waiting:
            return []
        epoch = self._order.can_open(origin, self._neighbours.last_known)
        return [] if epoch is None else [Append(*note(origin, epoch), None)]

    def _open_all(self, now: float) -> list[Action]:
        """As `_open`. Where not all of a stream is for this gateway, its origin alone tells how an
        earlier epoch ended: that is waited for until the origin is taken for gone."""
        waiting = self._order.waiting
        self._waiting = {origin: self._waiting.get(origin, now) for origin in waiting}
        actions: list[Action] = []
        for origin, since in self._waiting.items():
            opening = self._open(origin)
            if not (opening or self.floods_clients) and now - since >= self.origin_gone_s:
                epoch = self._order.can_open(origin, None)
                opening = [] if epoch is None else [Append(*note(origin, epoch), None)]
            actions += opening
        return actions

    def _release_all(self, streams: Iterable[Epoch]) -> list[Action]:
        return [
            action
            for stream in streams
            for action in self._delivery.release(stream, self.have[stream])
        ]

    def _kept(self, stream: Epoch) -> Intervals:
        return Summary(self.have, self._kept_from).kept(stream)
