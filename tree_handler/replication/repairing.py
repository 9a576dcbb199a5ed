"""The exchange by which a gateway and its neighbours each get what they lack.

Whenever a link comes up, starts to forward or has drained, and at an interval while things change,
both ends tell each other what they have (`telling`). Each asks the other for what it lacks
(`anti_entropy`), everybody for what no neighbour has (`search`), and gives up what nobody has
(`losses`). Messages of later lives of an origin wait for those of earlier ones (`openings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from light_dataclasses import dataclass
from tree_handler.batch import CONTROL_PREFIX, Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import Push, ReplicationAction, Serve
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.arrivals import Arrivals
from tree_handler.replication.counters import Counters
from tree_handler.replication.epoch_order import EpochOrder
from tree_handler.replication.epochs_over import KEPT_LIVES
from tree_handler.replication.flooding import Flooding
from tree_handler.replication.hearsay import MAX_NUMBERS
from tree_handler.replication.losses import Losses
from tree_handler.replication.openings import Openings
from tree_handler.replication.own_batches import OwnBatches
from tree_handler.replication.repair import Request, SearchId, SearchResult, Seek, Summary
from tree_handler.replication.search import Searches
from tree_handler.replication.telling import Telling
from tree_handler.seal import Seals


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """The settings of replication.

    Attributes:
        floods_clients: whether clients' streams go to all, by flooding and by repair between
            neighbours. Without it whoever routes them sends what `publish` had appended, feeds
            what arrives to `take` and `passed_over`, and repairs; control streams stay as they are.
        interval_s: how often a changed summary is sent.
        timeout_s: when an unanswered request may be repeated.
        origin_gone_s: for how long a number is waited for that nobody within reach has, while its
            origin is not within reach either: it may come back and have it.
        kept_lives: see `epochs_over.KEPT_LIVES`.
        unlinked_s: for so long after its first link a gateway may lack links to neighbours that
            still take its life before for alive; what it asks, and answers, proves nothing then.
        seals: proves what this gateway makes, and checks what comes; None where nobody seals.
        draw: see `Searches`; None to count them.

    """

    floods_clients: bool = True
    interval_s: float = 5.0
    timeout_s: float = 5.0
    origin_gone_s: float = 24 * 3600.0
    kept_lives: int = KEPT_LIVES
    unlinked_s: float = 0.0
    seals: Seals | None = None
    draw: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The records of batches and neighbours that repair and flooding share; each has one owner.

    Attributes:
        own: batches of this gateway's own.
        flooding: the links.
        order: which epochs of an origin are open.
        telling: what neighbours are told.
        neighbours: what they have told, and are asked for.
        openings: what opens an epoch whose earlier ones nobody has.
        searches: those under way for what no neighbour has.
        arrivals: which batches are taken.

    """

    own: OwnBatches
    flooding: Flooding
    order: EpochOrder
    telling: Telling
    neighbours: AntiEntropy
    openings: Openings
    searches: Searches
    arrivals: Arrivals

    @classmethod
    def made(
        cls,
        own: Epoch,
        have: dict[Epoch, Intervals],
        settings: RepairSettings,
        told: Iterable[tuple[bytes, Header]],
        counters: Counters,
    ) -> SharedParts:
        """Make them for a gateway with this id and boot epoch; see `Replication` for the rest."""
        floods, seals = settings.floods_clients, settings.seals
        seal = None if seals is None else seals.seal
        made = OwnBatches(*own, seal, None if seals is None else seals.retained)
        flooding = Flooding(own, floods, counters, seal)
        order = EpochOrder(own, have, told, from_origin_alone=not floods)
        telling = Telling(have, flooding.is_flooded)
        neighbours = AntiEntropy(
            have, flooding.is_flooded, settings.timeout_s, must_prove=seals is not None
        )
        openings = Openings(order, neighbours, None if floods else settings.origin_gone_s)
        searches = Searches(
            *own,
            telling.kept,
            2 * settings.interval_s,
            seals,
            draw=settings.draw,
            unlinked_s=settings.unlinked_s,
        )
        arrivals = Arrivals(have, made, flooding, neighbours, counters, seals)
        return cls(made, flooding, order, telling, neighbours, openings, searches, arrivals)


class Repairing:
    """The part of `Replication` that neighbours answer.

    Args:
        parts: those of replication.
        settings: those of replication.
        counters: those of replication.
        covered: the numbers of a stream that nobody needs to be asked for.

    """

    def __init__(
        self,
        parts: SharedParts,
        settings: RepairSettings,
        counters: Counters,
        covered: Callable[[Epoch], Intervals],
    ) -> None:
        self._own = parts.own
        self._flooding = parts.flooding
        self._order = parts.order
        self._telling = parts.telling
        self._neighbours = parts.neighbours
        self._openings = parts.openings
        self._searches = parts.searches
        self._counters = counters
        self._interval_s = settings.interval_s
        self._floods_clients = settings.floods_clients
        self._next_repair = 0.0
        gone_s = settings.origin_gone_s
        self._losses = Losses(parts.searches, covered, settings.interval_s, gone_s)

    # -- links -------------------------------------------------------------------------------

    def link_up(self, link: int, now: float) -> list[ReplicationAction]:
        """Begin repair with a neighbour that is there, even while the tree blocks the link."""
        self._flooding.link_up(link)
        self._telling.link_up(link)
        self._neighbours.link_up(link)
        self._losses.accompanied()
        self._next_repair = min(self._next_repair, now + self._interval_s)
        return [*self._telling.tell(link), *self._searches.link_up(link, now)]

    def link_down(self, link: int, now: float) -> list[ReplicationAction]:
        """Ask others for what a neighbour was asked for that is gone."""
        self._flooding.link_down(link)
        self._telling.link_down(link)
        return [*self._searches.link_down(link), *self._neighbours.link_down(link, now)]

    def forwarding(self, link: int, *, forwards: bool) -> list[ReplicationAction]:
        """Follow the tree, which starts or stops to forward over a link."""
        if not self._flooding.set_forwarding(link, forwards=forwards) or not forwards:
            return []
        lacks = self._neighbours.lacks(link, self._telling.kept)
        return [*([] if lacks is None else [Push(link, lacks)]), *self._telling.tell(link)]

    def joins(self, link: int) -> list[ReplicationAction]:
        """Say what is here to a neighbour that the tree asks to be the parent, so that it can send
        what is not as soon as it has accepted."""
        return [*self._telling.tell(link)] if link in self._flooding else []

    def lacking(self, link: int) -> int | None:
        """Return how many messages that can be sent from here a neighbour lacked when it last told.

        None if it has told nothing yet, or is gone.
        """
        return self._neighbours.lacking(link, self._telling.kept)

    # -- what neighbours send ----------------------------------------------------------------

    def receive_summary(self, link: int, summary: Summary, now: float) -> list[ReplicationAction]:
        """Compare what the neighbour has with what is here, and ask for the difference."""
        if link not in self._flooding:
            return []
        left_out = self._neighbours.left_out
        has_told_all = self._neighbours.told(link, summary)
        self._counters.left_out += self._neighbours.left_out - left_out
        asks = self._neighbours.ask(link, now)
        return [*asks, *self._openings.of_all(now)] if has_told_all else [*asks]

    def receive_request(self, link: int, request: Request) -> list[ReplicationAction]:
        """Answer a neighbour that asks for batches from the log."""
        return [Serve(link, request)] if link in self._flooding else []

    def ask_anew(self, now: float) -> list[ReplicationAction]:
        """Return what was refused may be taken now: ask for it without a wait."""
        return [*self._neighbours.ask_anew(now)]

    def progressed(self, link: int, now: float) -> None:
        """A part of what a neighbour was asked for has come: the rest is waited for anew."""
        self._neighbours.progressed(link, now)

    def receive_done(self, link: int, now: float) -> list[ReplicationAction]:
        """Go on with the next request: the neighbour has sent all of the last that it had."""
        return [*self._neighbours.done(link, now)]

    def receive_seek(self, link: int, seek: Seek, now: float) -> list[ReplicationAction]:
        """Return the neighbour, or somebody behind it, asks for what no neighbour of the seeker
        has."""
        return self._searches.receive_seek(link, seek, now) if link in self._flooding else []

    def receive_sought(
        self, link: int, sought: SearchResult, now: float
    ) -> list[ReplicationAction]:
        """Take a neighbour's answer to a search."""
        actions = self._searches.receive_sought(link, sought)
        self._losses.heard(now)
        return actions

    def looked(
        self, number: SearchId, found: Mapping[Epoch, Intervals], *, was_read: bool = True
    ) -> list[ReplicationAction]:
        """Go on after a `Look`: these numbers were in the log and are sent.

        Without ``was_read`` the log could not be read, and says nothing of the others.
        """
        return self._searches.looked(number, found, was_read=was_read)

    # -- time --------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """Return when `handle_timer` is due."""
        return min(self._next_repair, self._losses.due_at)

    def handle_timer(self, now: float) -> list[ReplicationAction]:
        """Send summaries to neighbours that have not been told the latest; repeat requests."""
        if now < self._next_repair:
            is_due = now >= self._losses.due_at
            missing = self._missing() if is_due else None
            return [] if missing is None else self._losses.give_up(missing, now)
        self._next_repair = now + self._interval_s
        actions = self._flooding.flood_all(self._own.unsaid())
        if not self._floods_clients:
            actions += self._losses.of_nobody(self._own_lives())
            actions += self._losses.of_origins(self._order.lost_by_origins(), now)
        # A full link is told when it has been sent all: else it would ask for what comes.
        for link in self._flooding.with_room():
            if self._telling.has_news_for(link):
                actions += self._telling.tell(link)
        actions += self._neighbours.handle_timer(now)
        actions += self._searches.handle_timer(now)
        actions += self._openings.of_all(now)
        missing = self._missing()
        if missing is None:
            return actions
        if not self._flooding:
            return [*actions, *self._losses.alone(missing, now)]
        lost = self._losses.give_up(missing, now)
        return [*actions, *(lost or self._seek(missing, now))]

    def _seek(self, missing: Mapping[Epoch, Intervals], now: float) -> list[ReplicationAction]:
        self._neighbours.are_sought_no_more(self._losses.in_vain(now))
        due = self._losses.due_of(self._neighbours.said_to_be_of(), now)
        return self._losses.seek(missing, now, self._neighbours.said_to_be(due, MAX_NUMBERS))

    def _own_lives(self) -> list[Epoch]:
        """Streams of this gateway's clients: where messages are routed, nobody else is asked for
        them."""
        return [one for one in self._telling.have if one[0] == self._own.origin]

    def _missing(self) -> dict[Epoch, Intervals] | None:
        """Return what no neighbour can send; None while one has not told all that it can."""
        if self._neighbours.is_being_told:
            self._losses.start_over()  # it may know of more than who was asked
            return None
        return self._neighbours.out_of_reach(self._order.expected())

    @property
    def is_waiting(self) -> bool:
        """Return whether a neighbour has still to answer a request or a search."""
        return self._neighbours.is_asking or self._searches.are_unanswered

    @property
    def awaited(self) -> dict[Epoch, Intervals]:
        """Return the missing messages that later lives of their origins wait for."""
        return self._order.awaited() if self._order.waiting else {}

    @property
    def gaps(self) -> dict[Epoch, Intervals]:
        """Return the missing messages before those that are here: see `EpochOrder`."""
        return self._order.gaps()

    @property
    def has_been_told_all(self) -> bool:
        """Return whether a neighbour has told all that it has, and all of it is here.

        Nothing is lacking then that was told, or that must have been before what is here.
        """
        told = self._neighbours
        if not told.has_told_all or told.is_being_told or told.is_catching_up():
            return False
        return not any(one[0].startswith(CONTROL_PREFIX) for one in told.out_of_reach({}))
