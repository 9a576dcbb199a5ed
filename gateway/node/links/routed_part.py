"""Routed mode on a node's links: the core, the log it reads, and what a restart finds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from gateway.log.message_log import LogError
from gateway.node.links.node import TreeNode
from gateway.node.links.overlay_part import OverlayPart
from gateway.node.links.routed_file import NOWHERE, RoutedFile
from tree_handler.batch import Entry, Epoch, Header, Row
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.routing import wire as routed_wire
from tree_handler.routing.actions import SendRouted, ServeRouted, Settle
from tree_handler.routing.interest import TOPIC, Interest, Interests, OwnInterest
from tree_handler.routing.routed import Routed
from tree_handler.routing.runs import Run
from tree_handler.routing.unreachable import UnreachableGateways
from tree_handler.routing.wire import Ask

_UNSURE: Final = (
    "the log has lost a part that may have said who wants what: until neighbours have told all that"
    " they have, messages go to all gateways"
)
SAVE_BYTES: Final = 4 << 20
"""The file is written anew when the log has grown by so much, and at the end."""
SERVED_BYTES: Final = 256 << 10
"""Read from the log for one request; the asker asks again for the rest."""

_log = logging.getLogger(__name__)


class RoutedPart:
    """A `Part` that sends clients' messages to those who want them, and to nobody else.

    Args:
        node: made with ``floods_clients=False``, on whose links it rides.
        folder: where it keeps its file.
        transit: False for a leaf.
        overlays: those of topic mode, which is this one with a faster path for most messages.
        clock: the loop's time.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((routed_wire.TOPIC,))

    def __init__(
        self,
        node: TreeNode,
        folder: Path,
        *,
        transit: bool = True,
        overlays: OverlayPart | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clients: Callable[[], int] = _none
        self._node = node
        self._overlays = overlays
        self._loop = asyncio.get_running_loop()
        self._now = clock or self._loop.time
        self._file = RoutedFile(folder)
        self._saved_at = 0
        self._before: tuple[int, list[Any]] = (0, [])
        """The file's content at the start: the place in the log, and the accounts there."""
        self._is_ready = False
        self._is_whole = True
        """True if file and log could be read, so that what is known may replace the file."""
        self._is_read = True
        """True if all of the log could be read that was to be."""
        self._tasks: set[asyncio.Task[None]] = set()
        core = node.replication
        self._own_id = core.origin
        self.own = OwnInterest(core.origin, core.epoch, transit=transit)
        self.interests = Interests(core.origin, self._published)
        ways = None if overlays is None else overlays.overlays
        self.core = Routed(core, self.interests, node.locator.locator, ways)
        self._away = UnreachableGateways()
        self._recall()
        if overlays is not None:
            overlays.tell_of_looks(self._busy)
            overlays.records_changed(self.interests, self._now())
        node.locator.tell_of_moves(self._moved)
        node.exchange.tell_of_trims(self._trimmed)
        node.exchange.tell_of_losses(self._lost)
        node.route(self)

    # -- what the broker tells -------------------------------------------------------------------

    def begin(self, topic_filters: Iterable[str], clients: Callable[[], int] | None = None) -> None:
        """From now on tell the others what clients want.

        Told before it is known, a record without it would lose messages for clients that are away.

        Args:
            topic_filters: the subscriptions that sessions brought along.
            clients: how many clients are connected; none ever are if it is not given.

        """
        self._clients = clients or _none
        for topic_filter in topic_filters:
            self.own.subscribed(topic_filter)
        self._is_ready = True
        self._node.reschedule()

    def subscribed(self, topic_filter: str) -> None:
        """A session of this gateway has one more subscription."""
        self.own.subscribed(topic_filter)
        self._node.reschedule()

    def unsubscribed(self, topic_filter: str) -> None:
        """A session of this gateway has one less."""
        self.own.unsubscribed(topic_filter)
        self._node.reschedule()

    def _published(self, topic: str) -> None:
        self.own.published(topic)
        self._loop.call_soon(self._node.reschedule)

    def control(self, entry: Entry, header: Header) -> None:
        """Take a message between gateways; topics other than records' are not this part's.

        Raises:
            ProtocolError: it is no record of its origin's.

        """
        if not entry.topic.startswith(TOPIC):
            return
        record = Interest.decode(entry.payload)
        if not record.gateway_id == header.origin == entry.topic.removeprefix(TOPIC):
            raise ProtocolError("record of another gateway", record.gateway_id)
        self._learn(record)

    def _moved(self, now: float) -> None:
        self.core.moved(now)
        if self._follow_reach():
            self.own.refused()
            self._node.reschedule()

    def _follow_reach(self) -> bool:
        others = [one.gateway_id for one in self.interests if one.gateway_id != self._own_id]
        reached = self._node.locator.reached
        return self._away.follow(others, reached, self._now(), self._node.log.position)

    def _trimmed(self, kept_from: dict[Epoch, int]) -> None:
        self.core.trimmed(kept_from)
        self.own.trimmed(kept_from)
        self._forget_gone()

    def _lost(self, lost: Mapping[Epoch, Intervals]) -> None:
        for stream, numbers in lost.items():
            self.core.lost(stream, numbers, self._now())
        self.own.lost(lost)
        self._node.reschedule()

    def _forget_gone(self) -> None:
        now, log = self._now(), self._node.log
        gone = self._away.over(now, log.position - log.length)
        for gateway_id in gone:
            _log.info(
                "%s was away for longer than the log reaches back: it gets no more", gateway_id
            )
            self.core.forget(gateway_id)
        if gone and self._overlays is not None:
            self._overlays.records_changed(self.interests, now)

    def _learn(self, record: Interest) -> None:
        self.core.update(record, self._now())
        if self._overlays is not None:
            self._overlays.records_changed(self.interests, self._now())
        self._node.reschedule()

    def _busy(self) -> None:
        if self._overlays is not None:
            self.own.busy(self._clients(), self._overlays.overlays.rooted)

    # -- what the node's clients publish: `origin.Router` ----------------------------------------

    def runs(self, rows: Sequence[Row]) -> list[Run]:
        """Cut messages so that a batch goes to the same gateways as a whole."""
        return self.core.runs(rows)

    def address(self, run: Run, flags: int) -> bytes:
        """Return the receivers that the seal of a run's next batch names."""
        return self.core.address(run, flags)

    def accepted(self, frame: bytes, header: Header, run: Run) -> Iterable[Any]:
        """Note that a batch is numbered and logged; return what is to be done."""
        return self.core.accepted(frame, header, run, self._now())

    def carry_out(self, actions: Iterable[Any]) -> None:
        """Do what routed mode or replication decided."""
        exchange = self._node.exchange
        for action in actions:
            match action:
                case SendRouted():
                    self._send(action)
                case ServeRouted(ask, wanted):
                    self._begin_to_serve(ask, wanted)
                case Settle(stream, last):
                    self.carry_out(self.core.settle(stream, last))
                case _:
                    exchange.take((action,))
        self._node.reschedule()

    def _send(self, action: SendRouted) -> None:
        link = self._node.links.get(action.link)
        if link is None:
            return
        if action.is_urgent:
            link.send_control(routed_wire.TOPIC, action.payload)
        elif action.is_batch and not action.unlogged and link.is_full:
            # The origin's log is the queue: whoever lacks it asks, when he hears what he lacks.
            self.core.counters["link_full"] += 1
        else:
            link.send_batch(routed_wire.TOPIC, action.payload, action.unlogged)

    # -- requests --------------------------------------------------------------------------------

    def _begin_to_serve(self, ask: Ask, wanted: Intervals) -> None:
        task = asyncio.create_task(self._serve(ask, wanted), name=f"repair for {ask.asker}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, ask: Ask, wanted: Intervals) -> None:
        frames: list[tuple[bytes, Header]] = []
        is_all = False
        try:
            batches = self._node.log.read(ask.stream, wanted)
            is_all = await asyncio.to_thread(_read, batches, frames)
            number = self._node.locator.locator.link_of(ask.asker)
            if number is not None and (link := self._node.links.get(number)) is not None:
                await link.room()
        except LogError as error:
            _log.error("repair for %s: %s", ask.asker, error)
        except OSError as ended:
            _log.debug("repair for %s: %s", ask.asker, ended)
        except Exception as failure:  # without an answer it would never be served again
            _log.error("repair for %s: %r", ask.asker, failure, exc_info=failure)
        self.carry_out(self.core.served(ask, frames, is_all=is_all))

    # -- a part ----------------------------------------------------------------------------------

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Note the gateways that are linked now."""
        self._linked()

    def link_down(self, link: int, now: float) -> None:
        """Note the gateways that are linked now."""
        self._linked()

    def _linked(self) -> None:
        self.own.linked_to({link.peer_id for link in self._node.links.values()})

    def tree_changed(self, now: float) -> None:
        """Do nothing: the locator tells which gateways are reached."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take a neighbour's message of routing, and do what follows."""
        self.carry_out(self.core.receive(link, payload, now))

    def next_timer(self) -> float:
        """Return when routing, or this gateway's record of interests, is due."""
        due = self.core.next_timer()
        return min(due, self.own.next_timer()) if self._is_ready else due

    def handle_timer(self, now: float) -> None:
        """Do what routing has due, publish changed interests, and save the accounts."""
        if was_unsure := self.core.is_unsure:
            self.core.log_is_read(self._is_read and self._node.log.to_survey() is None)
        self.carry_out(self.core.handle_timer(now))
        if was_unsure and not self.core.is_unsure:
            _log.info("neighbours have told all that they have: messages go to who wants them")
            self._save()
        self._busy()
        turns = self.own.turns
        record = self.own.take(now) if self._is_ready else None
        if self.own.turns != turns:
            self.interests.look_anew()
        if record is not None:
            entry = Entry(TOPIC + record.gateway_id, record.encode(), qos=1)
            first = self._node.next_control
            logged = self._node.publish(entry, control=True)
            if logged is not None:
                logged.add_done_callback(partial(self._told, record, first))
            self._learn(record)
        if self._node.log.position - self._saved_at >= SAVE_BYTES:
            self._save()

    def _told(self, record: Interest, first: int, acknowledgement: asyncio.Future[None]) -> None:
        if acknowledgement.cancelled():
            return
        if acknowledgement.exception() is None:
            self.own.logged(record, first)
        else:
            self.own.refused()

    def status(self) -> dict[str, Any]:
        """Return who wants what, and what was carried, ready for JSON."""
        return {
            "interests": {
                record.gateway_id: {
                    "subscribes": sorted(record.subscribes),
                    "publishes": sorted(record.publishes),
                }
                for record in self.interests
            },
            "owed": self.core.accounts.owed(),
            "counters": dict(self.core.counters) | {"lost_for_others": self.core.accounts.lost},
            "overlays": None if self._overlays is None else self._overlays.status(),
        }

    async def stop(self) -> None:
        """Answer no more requests, and keep what is known."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._save()

    # -- what a restart finds --------------------------------------------------------------------

    def _save(self) -> None:
        """Records and accounts as of this place in the log; what is behind it is read again."""
        if not self._is_whole:  # the next start reads what this one could not
            return
        self._saved_at = self._node.log.position
        place, accounts = self._saved_at, self.core.accounts.save()
        if self.core.is_unsure:  # the next start reads the log once more, which may have dropped
            place, accounts = self._before  # records by then
        self._file.write(place, self.interests, accounts, self._away.save(self._now()))

    def _recall(self) -> None:
        now, log = self._now(), self._node.log
        try:
            found = self._file.read()
        except OSError as refused:
            _log.error("the log is read for what is owed to others: %s", refused)
            found, self._is_whole = None, False
        position, records, accounts, away = found or (0, [], [], [])
        if position > log.position:  # of a log that has lost its end since
            position, accounts = NOWHERE, []
        for record in records:
            self.interests.update(record)
        self.core.accounts.load(accounts, now)
        self._away.load(away, now)
        self._saved_at = position
        self._before = position, accounts
        if position == NOWHERE:  # else the log grows past the place that the file names
            self._file.write(NOWHERE, self.interests, [], away)
        try:
            for frame, header in log.read_from(position):
                with contextlib.suppress(ProtocolError):
                    self.core.recall(frame, header, now)
        except LogError as error:
            _log.error("what is owed to others is not all known until the next start: %s", error)
            self._is_whole = self._is_read = False
        is_whole = self._is_read and log.is_whole_from(position)
        kept_from = log.kept_from()
        self.core.recalled(kept_from, now, is_whole=is_whole)
        if not is_whole:
            _log.warning("%s", _UNSURE)
        self.core.trimmed(kept_from)
        self._follow_reach()  # nobody is, as yet


def _none() -> int:
    return 0


def _read(batches: Iterator[tuple[bytes, Header]], frames: list[tuple[bytes, Header]]) -> bool:
    """Read up to `SERVED_BYTES`, and return whether that was all."""
    size = 0
    for frame, header in batches:
        if size >= SERVED_BYTES:
            return False
        frames.append((frame, header))
        size += len(frame)
    return True
