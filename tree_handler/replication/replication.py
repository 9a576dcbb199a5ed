"""Exactly-once replication of batches over links that come and go (rows B7, E2).

What is stated here and nowhere else: what happens to a batch, from where it comes to where it
goes. To whom it is passed on (`flooding`), in which order clients get it (`delivery`,
`epoch_order`), what neighbours are told (`telling`) and asked for (`anti_entropy`), and what is
forgotten in the end (`forgetting`), is decided apart.

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
from dataclasses import replace

from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, MAX_NUMBER, NOTE_PREFIX, Epoch, Flags, Header, Row
from tree_handler.errors import BatchError, ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over
from tree_handler.replication.actions import (
    Append,
    Forget,
    Look,
    Lost,
    Push,
    Refuse,
    ReplicationAction,
    RouteBatch,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)
from tree_handler.replication.arrivals import known
from tree_handler.replication.counters import Counters
from tree_handler.replication.delivery import OrderedDelivery
from tree_handler.replication.epoch_order import statement
from tree_handler.replication.epochs_over import is_over, prune
from tree_handler.replication.forgetting import Forgetting
from tree_handler.replication.own_batches import parts
from tree_handler.replication.repairing import Repairing, RepairSettings, SharedParts
from tree_handler.replication.set_aside import SetAside

__all__ = [
    "Append",
    "Forget",
    "Look",
    "Lost",
    "Push",
    "Refuse",
    "RepairSettings",
    "Replication",
    "ReplicationAction",
    "RouteBatch",
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
_EVERYTHING = Intervals([(1, MAX_NUMBER)])


class Replication:
    """One gateway's view of every origin's batches.

    Args:
        origin: this gateway's id.
        epoch: this gateway's boot epoch.
        have: what the log holds, and held before it was trimmed, by stream; kept up to date from
            now on.
        settings: the defaults are those of a gateway that floods.
        told: control batches that the log holds; of them it is known which earlier epochs an
            origin had.

    Attributes:
        repair: what neighbours are told and asked.
        counters: what happened to batches.

    """

    def __init__(
        self,
        origin: str,
        epoch: int,
        have: dict[Epoch, Intervals] | None = None,
        settings: RepairSettings = RepairSettings(),  # noqa: B008  # frozen
        told: Iterable[tuple[bytes, Header]] = (),
    ) -> None:
        self.origin = origin
        self.epoch = epoch
        self.have = {} if have is None else have
        self.settings = settings
        self.counters = Counters()
        prune(self.have)
        shared = SharedParts.made((origin, epoch), self.have, settings, told, self.counters)
        self.repair = Repairing(shared, settings, self.counters, self.covered)
        self._floods_clients = settings.floods_clients
        self._own = shared.own
        self._flooding = shared.flooding
        self._order = shared.order
        self._telling = shared.telling
        self._neighbours = shared.neighbours
        self._openings = shared.openings
        self._searches = shared.searches
        self._arrivals = shared.arrivals
        self._delivery = OrderedDelivery(self._own)
        self._set_aside = SetAside()
        self._forgetting = Forgetting(
            self.have, self._order, self._neighbours, self._telling, settings.kept_lives
        )
        # What a restart finds in the log was handed out, or its receivers are gone.
        self._delivery.resume(self.have, self._order.is_open)

    def covered(self, stream: Epoch) -> Intervals:
        """Return the numbers of a stream that came, were passed over, or are this gateway's own;
        all if its epoch is over.

        Valid until the next call; not the caller's to change.
        """
        have = self.have.get(stream)
        if have is None:
            return _EVERYTHING if is_over(self.have, stream) else _NOTHING
        return have

    # -- what this gateway's own clients publish ---------------------------------------------

    @property
    def next_logged(self) -> int:
        """The number that the next logged message of this gateway's clients gets."""
        return self._own.next_logged

    def publish(
        self, rows: Sequence[Row], flags: int, origin_time_us: int, address: bytes = b""
    ) -> list[ReplicationAction]:
        """Make the next batch of this origin and send it on its way.

        Args:
            rows: the messages.
            flags: LOCAL (with LOGGED) if they are not to leave this gateway: they are numbered and
                logged as all are, and others are told to pass over their numbers.
            origin_time_us: this gateway's wall clock, microseconds since 1970.
            address: see `batch.make`.

        Raises:
            BatchError: no messages, or too large.

        """
        own = self._own
        if not flags & Flags.LOGGED:
            frame, header = own.make(rows, flags, origin_time_us, address)
            own.takes(header)
            self.counters.published += header.count
            return self._flooding.flood(frame, header, None)
        actions: list[ReplicationAction] = []
        if not own.has_told_epochs:  # before all else that is logged in this epoch
            told = statement(self.origin, self.epoch, self.have).row()
            if flags & Flags.CONTROL:
                rows = [told, *rows]
            else:
                frame, header = own.make([told], Flags.LOGGED | Flags.CONTROL, origin_time_us)
                actions.append(Append(frame, header, None))
        frame, header = own.make(rows, flags, origin_time_us, address)
        actions.append(Append(frame, header, None))
        return actions

    def appended(self, done: Append) -> list[ReplicationAction]:
        """Pass on the batch of an `Append`, which the log has, and hand out what is due."""
        header = done.header
        key = header.stream
        have = self.have.get(key)
        if have is None:
            have = self.have[key] = Intervals()
            self._order.met(key)
        new = have.add(header.first, header.last)
        if key[0].startswith(NOTE_PREFIX):
            return self._noted(header)
        telling = self._telling
        telling.version = telling.changed[key] = telling.version + 1
        if telling.kept_from.get(key, 0) > header.first:  # it came after later ones had gone
            telling.kept_from[key] = header.first
        if self._own.takes(header):
            self.counters.published += header.count
            said = [] if header.control else self._own.unsaid_before(header)
            flooded = self._flooding.flood(done.frame, header, None)
            return [*self._flooding.flood_all(said), *flooded] if said else flooded
        actions = self._flooding.flood(done.frame, header, done.source)
        if done.source is not None:
            self._neighbours.has_sent(done.source, header)
        if header.flags & Flags.LOST:
            self.counters.lost += new
            why = self._set_aside.why(header)
            self.counters.set_aside += new if why else 0
            lost = Lost(key, header.first, header.last)
            actions.append(replace(lost, why=why) if why else lost)
        elif not header.passed:
            self.counters.received += header.count
        if header.control and not self._own.is_own(header):
            self._order.read(done.frame, header)
        if header.control and header.origin == self.origin:  # its own word to other gateways
            self._delivery.skip(key, have)
        elif self._order.is_open(key):
            actions += self._delivery.add(done.frame, header, have)
        else:
            self._delivery.hold(done.frame, header)
        if header.origin in self._order.waiting:
            actions += self._openings.of(header.origin)
        return actions

    # -- clients' streams that somebody else routes --------------------------------------------

    def take(
        self, frame: bytes, header: Header, *, link: int | None = None, repaired: bool = False
    ) -> list[ReplicationAction]:
        """Take a batch of another gateway's clients that was sent to this one, logged or QoS 0.

        The same rules as for a batch from a link: what is known is dropped and counted; of a
        logged one an `Append` is returned (no source), and `appended` hands out what is due. So
        order, bounds and what a restart finds are the same too. Nothing is passed on.

        Args:
            frame: the bytes of a whole batch.
            header: what `batch.check` made of them.
            link: the one it came over.
            repaired: whether it was asked for.

        Raises:
            ProtocolError: of this gateway's own epoch, or not to leave another gateway.

        """
        return self._arrivals.take(frame, header, None, link, repair=repaired)

    def passed_over(
        self, stream: Epoch, first: int, last: int, *, is_lost: bool = False
    ) -> list[ReplicationAction]:
        """Give up the messages ``first..last`` of a stream: not for this gateway, or lost to it.

        They count as covered once the log has the statement, so that a restart knows it too, and
        what waits behind them is handed out. What is covered already costs nothing. The statement
        is for this gateway alone: neighbours never get it from here. Of a gap that is wider than
        one can hold only the beginning is passed over: however far an origin says that it has
        counted, that is one line in the log. More gaps than `arrivals.MAX_GAPS` are not made.
        """
        if stream == (self.origin, self.epoch):
            return []
        gaps = self.covered(stream).missing(first, last)
        flags = Flags.PASSED | Flags.LOCAL
        if is_lost:
            flags |= Flags.LOST
        made = [batch.passed(stream, *next(parts(*gap)), flags) for gap in gaps]
        return [Append(*one, None) for one in made if self._arrivals.has_room(one[1])]

    # -- links -------------------------------------------------------------------------------

    def link_full(self, link: int) -> None:
        """The link's queue is full: batches that are logged stop, the log is their queue."""
        self._flooding.set_full(link, is_full=True)

    def replay(self, link: int, frame: bytes, header: Header) -> list[SendBatch]:
        """Send a batch that the shell has come to in the log for a link that was full, if it is
        for that link. It does not know which batches came over the link."""
        return self._flooding.replay(link, [(frame, header)])

    def link_drained(self, link: int) -> list[ReplicationAction]:
        """Go on with live batches: the link has been sent all that is in the log, or will not
        be."""
        drained = self._flooding.set_full(link, is_full=False)
        return [*self._telling.tell(link)] if drained else []

    # -- what neighbours send ----------------------------------------------------------------

    def receive_batch(
        self, link: int, frame: bytes, *, repair: bool = False
    ) -> list[ReplicationAction]:
        """Take a batch, live or as an answer to a request.

        One that breaks the rules again and again counts as lost in the end (`set_aside`).

        Raises:
            ProtocolError: the bytes are no batch, or one that must not come; the neighbour is
                broken.

        """
        state = self._flooding.links.get(link)
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
                or not self._flooding.is_flooded(header.stream)
                or self._neighbours.can_another_send(link, *numbers)
                or self._arrivals.refusal(frame, header, link) is not None
                or not self._set_aside.is_due(header, str(error))
            ):
                raise
            return self.passed_over(*numbers, is_lost=True)

    def _receive(
        self, link: int, frame: bytes, header: Header, *, repair: bool
    ) -> list[ReplicationAction]:
        if header.end != len(frame):
            self.counters.malformed += 1
            raise BatchError("batch followed by other bytes", len(frame) - header.end)
        if not (self._floods_clients or header.control):
            self.counters.discarded += 1
            return []
        if repair:
            self._neighbours.came(link, header)
        taken = self._arrivals.take(frame, header, link, link, repair=repair)
        if not (self._searches.are_under_way and header.numbered):
            return taken
        # What is known here was not looked at, and may be another batch than the one that is.
        if not taken and (refuse := self._arrivals.refusal(frame, header, link)) is not None:
            return [refuse]
        if any(isinstance(action, Refuse) for action in taken):
            return taken
        return [*self._searches.relay(link, frame, header), *taken]

    def trimmed(self, kept_from: Mapping[Epoch, int]) -> list[ReplicationAction]:
        """Return the log dropped its oldest: the lowest number it still holds, by stream.

        Streams of which it holds nothing now may be forgotten.
        """
        self._telling.trimmed(kept_from)
        return self._forgetting.notes()

    def lost(self, stream: Epoch, numbers: Intervals) -> list[ReplicationAction]:
        """Ask neighbours for what the log can't read any more; what they bring is
        logged, and handed out once more if it is clients'. Those of its present life too: which
        number it gives next does not depend on what the log has. Notes of its own it writes again.
        """
        if stream[0].startswith(NOTE_PREFIX):
            flags = Flags.PASSED | Flags.LOCAL
            return [Append(*batch.passed(stream, *part, flags), None) for part in numbers]
        have = self.have.get(stream)
        if have is not None:
            self.have[stream] = have.without(numbers)
            if self.is_clients(stream):
                self._delivery.lost(stream, numbers)
            self._telling.has_changed(stream)
            self._neighbours.lost(stream)
        return []

    @property
    def held_bytes(self) -> int:
        """Bytes of batches that are kept in memory behind gaps."""
        return self._delivery.held_bytes

    # -- what retained messages depend on ----------------------------------------------------

    def handed_out(self, stream: Epoch) -> int:
        """Return the number up to which local clients got a stream, or it was given up for them."""
        if stream not in self.have and is_over(self.have, stream):
            return MAX_NUMBER
        return self._delivery.handed_out(stream)

    def may_come(self, stream: Epoch, number: int) -> bool:
        """Return whether a number that was not handed out is here, or a neighbour can send it."""
        return number in self.have.get(stream, _NOTHING) or any(
            number in theirs for theirs in self._neighbours.can_send(stream)
        )

    def is_catching_up(self) -> bool:
        """Return whether neighbours said that they have what is lacking here."""
        return self._neighbours.is_catching_up()

    @staticmethod
    def is_clients(stream: Epoch) -> bool:
        """Return whether a stream is of clients' messages."""
        return not stream[0].startswith((CONTROL_PREFIX, NOTE_PREFIX))

    # -- within ------------------------------------------------------------------------------

    def _noted(self, header: Header) -> list[ReplicationAction]:
        """Follow a note of this gateway's own in the log: epochs are open, or over."""
        name, kind = header.stream
        if kind == epochs_over.NUMBERED_AS:
            streams = self._forgetting.forget(header)
            self._delivery.forget(streams)
            self.counters.forgotten += len(streams)
            return [Forget(streams)]
        return [
            action
            for stream in self._order.opened(name)
            for action in self._delivery.release(stream, self.have[stream])
        ]
