"""Routed mode (C4): a message goes only to the gateways that want it, and is accounted for there.

How it works
    Each gateway knows from their records what the others want (`interest`) and where in the
    spanning tree they are (`locator`). The origin of a message decides alone, and once, who gets
    it: the gateways whose record with a matching filter is known here when it is accepted. The
    message names them, as in BIER (RFC 8279); a gateway on the way splits the list by its links,
    passes the same bytes on and keeps nothing; a destination appends and hands out.

Why nothing is lost or doubled
    A batch tells each destination which number of the stream was the last one for it before.
    What is between is not for it, and counts as covered (`Replication.passed_over`); a number
    that is neither is a gap, and the destination asks the origin, whose log has it. Who gets no
    later batch gets a claim: the origin repeats the last number until the destination says that
    it has all (`accounts`). A destination's coverage only grows, so what arrives late, twice or
    from a former life of the origin changes nothing. Only the origin's word counts, so what
    happens on the way - a lost link, a full one, a wrong route for a moment - costs time alone.

Why nothing is sent twice that is still under way
    An origin's word on a request goes behind the batches that it sends, and so do its claims. So
    a destination asks again only when it has heard that its request was answered: what of the
    answer is not there by then was lost on the way. Until then it repeats the request as it was,
    under its number, and the origin answers each number once.

Events go in with the caller's monotonic time in seconds; the returned actions are carried out in
their order. `RouteBatch` of replication is carried out by `accepted`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tree_handler import batch
from tree_handler.batch import MAX_NUMBER, Epoch, Flags, Header, Row
from tree_handler.intervals import Intervals
from tree_handler.newest_records import NewestRecords
from tree_handler.replication.replication import Replication
from tree_handler.routing import interest
from tree_handler.routing import wire as routed_wire
from tree_handler.routing.accounts import Accounts
from tree_handler.routing.actions import RoutingAction, ServeRouted
from tree_handler.routing.destination import Destination
from tree_handler.routing.interest import Interest, Interests
from tree_handler.routing.locator import Locator
from tree_handler.routing.recollection import Recollection
from tree_handler.routing.routed_links import RoutedLinks, checked_batch
from tree_handler.routing.runs import Run, Ways, cut
from tree_handler.routing.wire import (
    MAX_HOPS,
    Ack,
    Ask,
    Carry,
    Claim,
    Tell,
    Word,
    first_of,
    signed_part,
)
from tree_handler.seal import address_of

TOPIC = routed_wire.TOPIC


class Routed:
    """One gateway in routed mode.

    Args:
        core: made with ``floods_clients=False``.
        interests: what all want.
        locator: where all are.
        ways: who may know shorter ways.

    """

    def __init__(
        self,
        core: Replication,
        interests: Interests,
        locator: Locator,
        ways: Ways | None = None,
    ) -> None:
        self.interests = interests
        self.locator = locator
        self._records: NewestRecords[Interest] = NewestRecords(core.have, locator.epoch_of)
        self.accounts = Accounts(core.origin, core.epoch)
        for (origin, epoch), numbers in core.have.items():
            if origin == core.origin and epoch != core.epoch:
                self.accounts.ended(epoch, numbers.last)
        self._recollection = Recollection(self.accounts)
        self.counters: Counter[str] = Counter()
        """Counts of what was carried, left out and repaired, by what."""
        self._core = core
        self._ways = ways
        self._own_id = core.origin
        self._seals = core.settings.seals
        self._passing = RoutedLinks(locator, self.counters, self._seals)
        self._destination = Destination(core, self._from_here, self.counters)
        self._serving: dict[str, Ask] = {}
        """The request of each gateway that the log is read for."""
        self._waiting: dict[str, dict[Epoch, Ask]] = {}
        """The latest of its other requests, by stream."""

    # -- what this gateway's own clients publish -------------------------------------------------

    def runs(self, rows: Sequence[Row]) -> list[Run]:
        """Cut a turn's messages into runs, each of which becomes a batch of its own."""
        return cut(rows, self.interests, self._ways, for_everybody=self.is_unsure)

    def address(self, run: Run, flags: int) -> bytes:
        """Return the receivers that the seal of a run's next batch names; empty if nobody seals."""
        if self._seals is None or not run.to or not flags & Flags.LOGGED:
            return b""
        before = self.accounts.last_for(self._core.epoch, sorted(run.to))
        return address_of(routed_wire.pack_pairs(tuple(before)))

    def accepted(self, frame: bytes, header: Header, run: Run, now: float) -> list[RoutingAction]:
        """Send a numbered batch of clients' messages, which is in the log if it is to be."""
        to = sorted(run.to)  # a set's order is another one in each process
        if not header.logged:
            before = [(gateway_id, 0) for gateway_id in to]
        else:
            before = self.accounts.accepted(header.epoch, header.first, header.last, to, now)
            if self.is_unsure:
                numbers = Intervals([(header.first, header.last)])
                self.accounts.for_everybody(header.epoch, numbers)
                self.counters["for_everybody"] += header.count
        if not before:
            return []
        self.counters["originated"] += 1
        if run.way is not None:
            carry = Carry(tuple(before), frame, overlay=run.way.overlay)
            return [*self._passing.carry_in_overlay(carry, header, run.way.links, MAX_HOPS)]
        return [*self._passing.carry(Carry(tuple(before), frame), header, None, MAX_HOPS)]

    # -- the tree and the records ----------------------------------------------------------------

    def moved(self, now: float) -> None:
        """The locator has news: claim of those who came into reach, at once."""
        if came := self.locator.take_came():
            self.accounts.claim_anew(came, now, restarted=False)
            for record in self._records.refused_of(came):
                self.update(record, now)

    def update(self, record: Interest, now: float) -> None:
        """A gateway's record has come."""
        gateway_id, interests = record.gateway_id, self.interests
        known = interests.get(gateway_id)
        if known is not None and self._records.takes_place(gateway_id, known.epoch, record):
            interests.forget(gateway_id)
        if interests.update(record) is None:
            return
        if known is None and gateway_id != self._own_id:
            self.accounts.met(gateway_id, now)
        elif known is not None and known.epoch != record.epoch:
            self.accounts.claim_anew({gateway_id}, now, restarted=True)

    def forget(self, gateway_id: str) -> None:
        """A gateway is gone for good (`unreachable`): it is no destination any more."""
        if gateway_id != self._own_id:
            self.interests.forget(gateway_id)
            self._records.forget(gateway_id)
            self.accounts.forget(gateway_id)
            self._destination.forget(gateway_id)
            self._waiting.pop(gateway_id, None)

    def recall(self, frame: bytes, header: Header, now: float) -> None:
        """Take up a batch of the log that a former life left, each in the order of the log.

        Records say again who wanted what when a message was accepted, so the origin's word
        stays what it was; and that a gateway has started again since what was saved of it, which
        may have lost what it said it had.

        Raises:
            BatchError: the body is not what a gateway makes.

        """
        if not header.logged:
            return
        if header.control:
            for entry in batch.decode(frame, header):
                if entry.topic.startswith(interest.TOPIC):
                    self.update(Interest.decode(entry.payload), now)
        elif header.origin == self._own_id:
            to: frozenset[str] = frozenset()
            if not header.local:
                rows = [entry.row() for entry in batch.decode(frame, header)]
                to = to.union(*(run.to for run in self.runs(rows)))
            self.accounts.accepted(header.epoch, header.first, header.last, sorted(to), now)
            self._recollection.read(header)

    def recalled(self, kept_from: Mapping[Epoch, int], now: float, *, is_whole: bool) -> None:
        """The log was read from the place on up to which accounts were saved: `recall` was called
        for all that could be read.

        Args:
            kept_from: the lowest number that the log still holds, by stream.
            now: monotonic time in seconds.
            is_whole: whether nothing is missing from that place on.

        """
        self._recollection.all_read(
            self._core.have, kept_from, self.interests.everyone, now, is_whole=is_whole
        )

    @property
    def is_unsure(self) -> bool:
        """Return whether the log has lost who wants what, and neighbours have not told all.

        Until then messages are for everybody, and accounts are right up to where they were saved
        before.
        """
        return self._recollection.is_unsure

    def log_is_read(self, is_read: bool) -> None:
        """Note whether the whole readable log was read; before, an origin does not get sure."""
        self._recollection.log_is_read = is_read

    def trimmed(self, kept_from: Mapping[Epoch, int]) -> None:
        """The log dropped its oldest: the lowest number that it still holds, by stream."""
        self.accounts.trimmed(kept_from)

    def lost(self, stream: Epoch, numbers: Intervals, now: float) -> None:
        """The log can't read these any more, as replication was told: their origin is asked."""
        if self._core.is_clients(stream) and stream[0] != self._own_id:
            self._destination.lost(stream, numbers, now)

    # -- what comes over links -------------------------------------------------------------------

    def receive(self, link: int, payload: bytes, now: float) -> list[RoutingAction]:
        """Take in a message: pass it on, and act on it as far as it is for this gateway.

        Raises:
            ProtocolError: the neighbour is broken.

        """
        message, hops = routed_wire.decode(payload)
        if isinstance(message, Carry):
            return self._receive_carry(link, message, hops, now)
        if link not in self.locator.forwarding:
            self.counters["not_forwarding"] += 1
            return []
        if isinstance(message, Claim):
            return self._receive_claim(link, message, hops, now)
        to = message.to if isinstance(message, Tell) else message.stream[0]
        if to != self._own_id:
            return [*self._passing.to(to, message, link, hops)]
        return self._receive_own(message, now) if self._is_said(message) else []

    def _receive_own(self, message: Tell | Ask | Ack, now: float) -> list[RoutingAction]:
        if isinstance(message, Tell):
            return self._destination.told(message, now)
        if isinstance(message, Ask):
            self.accounts.asks(message.asker, message.stream[1], message.ranges, now)
            return self._answer(message)
        self.accounts.covered(message.gateway_id, message.stream[1], message.covered, now)
        return []

    def served(
        self, ask: Ask, frames: Sequence[tuple[bytes, Header]], *, is_all: bool
    ) -> list[RoutingAction]:
        """Answer a request, for which the log was read.

        Args:
            ask: the request.
            frames: what is there of it, in order.
            is_all: whether the log was read to the end, so that the rest is gone.

        """
        del self._serving[ask.asker]
        actions = self._told(ask, frames, is_all=is_all)
        waiting = self._waiting.get(ask.asker)
        while waiting and ask.asker not in self._serving:
            actions += self._answer(waiting.pop(next(iter(waiting))))
        if not waiting:
            self._waiting.pop(ask.asker, None)
        return actions

    @property
    def is_serving(self) -> bool:
        """Return whether a request of another gateway has still to be answered."""
        return bool(self._serving)

    def settle(self, stream: Epoch, last: int) -> list[RoutingAction]:
        """Return what `Settle` asks for."""
        return self._destination.settle(stream, last)

    # -- time ------------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """Return when `handle_timer` is due."""
        due_at = min(self.accounts.due_at, self._recollection.due_at, self._destination.due_at)
        return due_at if self.locator.reached else math.inf

    def handle_timer(self, now: float) -> list[RoutingAction]:
        """Claim what gateways in reach have not said they have."""
        if now >= self._recollection.due_at:
            told_all = self._core.repair.has_been_told_all
            self._recollection.look(now, has_been_told_all=told_all)
        actions = self._destination.ask_unclaimed(now)
        if now < self.accounts.due_at:
            return actions
        for stream, last, to in self.accounts.claims(self.locator.reached, now):
            self.counters["claims"] += len(to)
            actions += self._passing.claim(Claim(stream, last, tuple(to)), None, MAX_HOPS)
        return actions

    # -- as an origin ------------------------------------------------------------------------------

    def _answer(self, ask: Ask) -> list[RoutingAction]:
        """Answer a request, once, and of those of one gateway one after the other."""
        epoch = ask.stream[1]
        if self.accounts.has_answered(ask.asker, epoch, ask.number):
            return []
        if (served := self._serving.get(ask.asker)) is not None:
            if served.stream != ask.stream:
                self._waiting.setdefault(ask.asker, {})[ask.stream] = ask
            self.counters["asks_at_once"] += 1
            return []
        wanted = self.accounts.wanted(ask.asker, epoch, ask.ranges)
        if not len(wanted):
            return self._told(ask, (), is_all=False)
        self._serving[ask.asker] = ask
        return [ServeRouted(ask, wanted)]

    def _told(
        self, ask: Ask, frames: Sequence[tuple[bytes, Header]], *, is_all: bool
    ) -> list[RoutingAction]:
        """Return what was read for a request, and behind it the word on the rest."""
        epoch = ask.stream[1]
        wanted = self.accounts.wanted(ask.asker, epoch, ask.ranges)
        tail, last = self.accounts.tail(ask.asker, epoch)
        passed = ask.ranges.without(wanted)
        if epoch == self._core.epoch:  # what is not accepted yet is not decided
            passed = passed.without(Intervals([(last + 1, MAX_NUMBER)]))
        actions: list[RoutingAction] = []
        left, gone = wanted, Intervals()
        for frame, header in frames:
            numbers = Intervals([(header.first, header.last)])
            left = left.without(numbers)
            if header.flags & Flags.LOST:
                gone.update(numbers.common(wanted))
                continue
            if header.local or header.passed:
                passed.update(numbers)
                continue
            before = self.accounts.before(ask.asker, epoch, header.first)
            carry = Carry(((ask.asker, before),), frame, is_repair=True)
            actions += self._passing.carry(carry, header, None, MAX_HOPS)
            self.counters["served"] += header.count
        if is_all:
            gone.update(left)
        self.accounts.answered(ask.asker, epoch, ask.number)
        tell = Tell(ask.asker, ask.stream, last, tail, first_of(passed), first_of(gone), ask.number)
        return [*actions, *self._passing.to(ask.asker, tell, None, MAX_HOPS)]

    # -- on the way ------------------------------------------------------------------------------

    def _receive_carry(
        self, link: int, message: Carry, hops: int, now: float
    ) -> list[RoutingAction]:
        header = checked_batch(message.frame)
        mine = [pair for pair in message.to if pair[0] == self._own_id]
        onward: frozenset[int] | None = None
        if message.overlay and self._ways is not None:
            onward = self._ways.onward(message.overlay, link)
        if onward is None and (message.overlay or link not in self.locator.forwarding):
            self.counters["not_forwarding"] += 1
            return []
        actions: list[RoutingAction] = []
        if onward is not None:
            actions += self._passing.carry_in_overlay(message, header, onward, hops - 1)
        elif len(mine) < len(message.to):
            if mine and header.flags & Flags.ADDRESSED:
                message.listed = message.whole_list()
            message.to = tuple(pair for pair in message.to if pair[0] != self._own_id)
            actions += self._passing.carry(message, header, link, hops - 1)
        for _, before in mine:
            actions += self._destination.take(message, header, before, now, link)
        return actions

    def _receive_claim(self, link: int, claim: Claim, hops: int, now: float) -> list[RoutingAction]:
        others = tuple(one for one in claim.to if one[0] != self._own_id)
        actions: list[RoutingAction] = []
        if others:
            onward = claim if claim.seal else Claim(claim.stream, claim.last, others)
            actions += self._passing.claim(onward, link, hops)
        for gateway_id, tail, answered in claim.to:
            if gateway_id == self._own_id and self._is_said(claim):
                actions += self._destination.claimed(claim.stream, claim.last, tail, answered, now)
        return actions

    def _is_said(self, word: Word) -> bool:
        """Return whether a word is of the gateway that it names, as far as seals are checked."""
        seals = self._seals
        if seals is None or seals.has_said(word.sayer, signed_part(word), word.seal):
            return True
        self.counters["forged"] += 1
        return False

    def _from_here(self, gateway_id: str, message: Ask | Ack) -> list[RoutingAction]:
        return [*self._passing.to(gateway_id, message, None, MAX_HOPS)]
