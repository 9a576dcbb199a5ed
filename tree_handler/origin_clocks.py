"""Ages of messages since their origins accepted them, though no clock is trusted.

Each gateway has a clock that nobody sets and that only counts. An origin stamps each message that
may expire with it (`Entry.accepted_us`), so the stamp is as signed as the message. Whoever delivers
the message asks what the origin's clock reads by now; the difference is what the message has
waited, wherever that was: at its origin, in logs and queues on its way, behind a gap, over a
restart. Nothing is noted for a batch, and no batch is looked into on its way.

What an origin's clock reads is known from below. It was read a moment ago at best, and has been
counted on since at a rate that is a little too slow (`clock_readings`). So a message may live on
for longer than its publisher said, and never for less. It is known from two sources:

* stamps: a message that comes says what its origin's clock read before;
* neighbours: each tells what it knows of the clocks of all, itself included, when a link comes up,
  before any batch, and when it knows better (`heard`, `news`).

A stamp is its origin's word. What a neighbour tells is believed if it is the origin, or the one
behind which the origin is in the tree: that one could as well keep the origin's messages back. What
it tells stands in the place of all that was told before. Where it is not known who that is, as
before a link forwards, the least that any neighbour tells counts, and is told on as hearsay, once.
So who is not on a message's way has no say where anybody is who knows.

An origin numbers its lives (boot epochs), and clocks are told of by life. That of a life which has
ended is counted on: its gateway may know less of it by now, for it does not know how long it was
off. All times are whole microseconds; those called ``now_us`` are of this gateway's own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgpack

from tree_handler.batch import Epoch
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.clock_readings import MAX_LIVES, ClockReading, ClockReadings, surely_passed
from tree_handler.entry import MAX_CLOCK_US
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name
from tree_handler.routing.locator import GatewayLocation
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize
from tree_handler.unpacking import unpack as unpack_within

STAMP_US: Final = 1 << 17
"""Stamps are whole multiples of so much, the next one after the moment: messages that were accepted
together expire together, and so one range of places in a queue holds them."""
NEWS_US: Final = 1_000_000
"""A neighbour is told anew what it knows worse by so much, which is every half an hour."""
SAVED_US: Final = 60 * NEWS_US
"""A saved reading is written anew if it is worse by so much, which is every day and a half."""
GONE_US: Final = 7 * 86_400 * NEWS_US
"""For so long a life is remembered of which there is nothing here; it may come back."""
MAX_TOLD: Final = 1_000
"""In one message."""
SIZE: Final = MessageSize(1 << 17, 6 * MAX_TOLD + LATER_ELEMENTS, MAX_TOLD)

ToldClock = tuple[str, int, int, bool]
"""A gateway, a life of it, what its clock reads, and whether that is more than hearsay."""
KnownClock = tuple[str, int, int, int]
"""A gateway, a life of it, what its clock read, and when that was."""


class OriginClocks:
    """The lower bounds that one gateway knows of the clocks of all.

    Args:
        own: this gateway's id and boot epoch.

    """

    def __init__(self, own: Epoch) -> None:
        self._own = own
        self._own_lives: dict[Epoch, None] = {own: None}
        """The lives of this gateway's own in which its clock counted on."""
        self._way: Callable[[str], GatewayLocation | None] = _nowhere
        self._stamped = ClockReadings()
        self._kept = ClockReadings()
        """The readings that the neighbour on the way told last."""
        self._before = ClockReadings()
        """The readings of this gateway's life before: it may have been off since."""
        self._peers: dict[int, Epoch] = {}
        """The life of each neighbour, by link."""
        self._heard: dict[int, ClockReadings] = {}
        self._said: dict[int, ClockReadings] = {}
        """The readings that each neighbour has been told, by link."""
        self._saved: dict[Epoch, ClockReading] = {}

    def go_by(self, way: Callable[[str], GatewayLocation | None]) -> None:
        """From now on ask this how the tree reaches a gateway; None if it does not."""
        self._way = way

    # -- messages ------------------------------------------------------------------------------

    def accepted(self, stream: Epoch, stamp_us: int, now_us: int) -> None:
        """Take a stamp: the clock of a message's origin read almost so much before now."""
        read_us = min(stamp_us, MAX_CLOCK_US) - STAMP_US
        known = self._stamped.get(stream)
        if known is None and (stream == self._own or read_us < 0 or not _is_life(*stream)):
            return
        if known is None or known.by(now_us) < read_us:
            self._stamped.put(stream, ClockReading(read_us, now_us))

    def waited_us(self, stream: Epoch, stamp_us: int, now_us: int) -> int:
        """Return for how long a message has surely waited since it was stamped."""
        reads_us = self.reads(stream, now_us)
        return 0 if reads_us is None else surely_passed(reads_us - stamp_us)

    def reads(self, stream: Epoch, now_us: int) -> int | None:
        """Return what the clock of a life reads at least; None if nothing is known."""
        found = self._believed(stream, now_us)
        if stream in self._kept:
            return found
        told = self._hearsay(stream, now_us)
        if found is None or told is None:
            return told if found is None else found
        return max(found, told)

    def _hearsay(self, stream: Epoch, now_us: int, but: int | None = None) -> int | None:
        """Return the least that it reads by what anybody tells."""
        by_all = [
            told.by(now_us)
            for link, heard in self._heard.items()
            if link != but and (told := heard.get(stream)) is not None
        ]
        return min(by_all, default=None)

    def _believed(self, stream: Epoch, now_us: int, but: int | None = None) -> int | None:
        """Return what it reads by stamps and by who is on the way, but for what ``but`` told."""
        if stream == self._own:
            return now_us
        way = self._way_to(stream[0])
        found: list[ClockReading | None] = [self._stamped.get(stream)]
        on_the_way = None
        if way is not None and way.link != but:
            if (heard := self._heard.get(way.link)) is not None:
                on_the_way = heard.get(stream)
            if on_the_way is not None and not on_the_way.is_sure:
                on_the_way = None
            found.append(on_the_way)
        if on_the_way is None or way is None or way.epoch != stream[1]:
            found += (self._kept.get(stream), self._before.get(stream))
        reads_us = [one.by(now_us) for one in found if one is not None]
        if stream in self._own_lives:
            reads_us.append(now_us)
        return max(reads_us, default=None)

    # -- neighbours ----------------------------------------------------------------------------

    def link_up(self, link: int, peer: Epoch) -> None:
        """Over this link clocks are told and heard from now on; ``peer`` is the neighbour."""
        self._peers[link] = peer
        self._heard[link] = ClockReadings()
        self._said[link] = ClockReadings()

    def link_down(self, link: int) -> None:
        """The link has ended."""
        self._peers.pop(link, None)
        self._heard.pop(link, None)
        self._said.pop(link, None)

    def _way_to(self, gateway_id: str) -> GatewayLocation | None:
        for link, (peer_id, epoch) in self._peers.items():
            if peer_id == gateway_id:
                return GatewayLocation(link, epoch)
        return self._way(gateway_id)

    def moved(self, now_us: int) -> None:
        """Gateways are reached over other links than before: keep what those told."""
        for link, heard in self._heard.items():
            for stream in heard:
                self._keep(link, stream, now_us)

    def _keep(self, link: int, stream: Epoch, now_us: int) -> None:
        """Keep what a neighbour told, if it is the one on the way."""
        reading = self._heard[link].get(stream)
        way = self._way_to(stream[0])
        if way is None or way.link != link or reading is None or not reading.is_sure:
            return
        kept = self._kept.get(stream)
        if kept is None or way.epoch == stream[1] or kept.by(now_us) < reading.by(now_us):
            self._kept.put(stream, reading)

    def heard(self, link: int, told: Iterable[ToldClock], now_us: int) -> list[Epoch]:
        """Take what a neighbour tells; return of which lives it told anything."""
        heard = self._heard.get(link)
        if heard is None:
            return []
        found: list[Epoch] = []
        for gateway_id, epoch, clock_us, is_sure in told:
            stream = (gateway_id, epoch)
            if stream == self._own:  # nobody knows better
                continue
            heard.put(stream, ClockReading(clock_us, now_us, is_sure))
            self._keep(link, stream, now_us)
            found.append(stream)
        return found

    @property
    def links(self) -> list[int]:
        """Return those over which clocks are told."""
        return list(self._said)

    def news(self, link: int, now_us: int, of: Iterable[Epoch] | None = None) -> list[ToldClock]:
        """Return what a neighbour is to be told: it does not know it, or by `NEWS_US` worse.

        Args:
            link: that of the neighbour, which is taken to hear of it.
            now_us: of this gateway's clock.
            of: look at these lives alone; None for all.

        """
        said = self._said.get(link)
        if said is None:
            return []
        found: list[ToldClock] = []
        for stream in self._lives() if of is None else of:
            way = self._way_to(stream[0])
            is_there = way is not None and way.epoch == stream[1]
            if way is not None and way.link == link and is_there:
                continue  # it knows better
            if not (is_there or self._is_late(stream)):
                continue
            before = said.get(stream)
            reads_us = self._believed(stream, now_us, but=link)
            is_sure = reads_us is not None
            if reads_us is None and before is None:
                reads_us = self._hearsay(stream, now_us, but=link)
            if reads_us is None:
                continue
            if (
                before is None
                or before.is_sure != is_sure
                or abs(reads_us - before.by(now_us)) >= NEWS_US
            ):
                said.put(stream, ClockReading(reads_us, now_us, is_sure))
                found.append((*stream, reads_us, is_sure))
        return found

    def _lives(self) -> dict[Epoch, None]:
        lives = dict(self._own_lives)
        for known in self._tables():
            lives.update(dict.fromkeys(known))
        return lives

    def _is_late(self, stream: Epoch) -> bool:
        """Return whether a life is among the latest of its gateway: a neighbour keeps no more."""
        gateway_id, epoch = stream
        later = {one for known in self._tables() for one in known.of(gateway_id) if one > epoch}
        return len(later) < MAX_LIVES

    def _tables(self) -> tuple[ClockReadings, ...]:
        return self._stamped, self._kept, self._before, *self._heard.values()

    # -- from life to life -----------------------------------------------------------------------

    def keep_only(self, lives: Callable[[Epoch], bool], now_us: int) -> None:
        """Forget the clocks of all lives but these, if nothing was heard of them for `GONE_US`."""

        def is_over(stream: Epoch, reading: ClockReading) -> bool:
            return now_us - reading.at_us > GONE_US and not lives(stream)

        for known in (*self._tables(), *self._said.values()):
            known.forget(is_over)
        own = [one for one in self._own_lives if lives(one)]
        self._own_lives = dict.fromkeys([self._own, *own])

    def save(self, now_us: int) -> list[KnownClock]:
        """Return what is known for `load` in the next life; nothing if what was returned last is
        good enough."""
        known: dict[Epoch, int] = {}
        for stream in self._lives():
            reads_us = self._believed(stream, now_us)
            if reads_us is not None:
                known[stream] = reads_us
        saved = self._saved
        is_news = known.keys() != saved.keys() or any(
            abs(reads_us - saved[stream].by(now_us)) >= SAVED_US
            for stream, reads_us in known.items()
        )
        if not is_news:
            return []
        self._saved = {stream: ClockReading(reads_us, now_us) for stream, reads_us in known.items()}
        return [(*stream, reads_us, now_us) for stream, reads_us in known.items()]

    def load(self, known: Iterable[KnownClock]) -> None:
        """Take over what was known in the life before, whose clock this one's goes on from."""
        for gateway_id, epoch, clock_us, at_us in known:
            if gateway_id == self._own[0]:
                self._own_lives[gateway_id, epoch] = None
            else:
                self._before.put((gateway_id, epoch), ClockReading(clock_us, at_us))

    def forget(self) -> None:
        """Undo `load`: this gateway's clock does not go on from the life before."""
        self._before.clear()
        self._own_lives = {self._own: None}


def _nowhere(gateway_id: str) -> GatewayLocation | None:
    return None


def stamp(now_us: int) -> int:
    """Return the stamp of what is accepted now."""
    return (now_us // STAMP_US + 1) * STAMP_US


def pack(told: list[ToldClock]) -> Iterator[bytes]:
    """Write what a neighbour is told, as messages."""
    for at in range(0, len(told), MAX_TOLD):
        packed: bytes = msgpack.packb(told[at : at + MAX_TOLD])
        yield packed


def unpack(payload: bytes) -> list[ToldClock]:
    """Read what `pack` wrote.

    Raises:
        ProtocolError: it is no such message, or over a limit.

    """
    rows = unpack_within("clocks", payload, SIZE)
    if not isinstance(rows, list) or len(rows) > MAX_TOLD:
        raise ProtocolError("clocks", rows)
    return [_told_of(row) for row in rows]


def _told_of(row: object) -> ToldClock:
    match row:
        case [gateway_id, epoch, clock_us, bool(is_sure)]:
            return (*life_of(gateway_id, epoch), clock_of(clock_us), is_sure)
    raise ProtocolError("clock", row)


def life_of(gateway_id: object, epoch: object) -> Epoch:
    """Take what was unpacked as a life of a gateway.

    Raises:
        ProtocolError: it is none.

    """
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 < epoch <= MAX_BOOT_EPOCH:
        raise ProtocolError("life whose clock is told of", epoch)
    return check_name("gateway whose clock is told of", gateway_id), epoch


def _is_life(gateway_id: str, epoch: int) -> bool:
    """Return whether others would take it for one; an origin may sign what it likes."""
    try:
        life_of(gateway_id, epoch)
    except ProtocolError:
        return False
    return True


def clock_of(value: object) -> int:
    """Take what was unpacked as what a clock reads.

    Raises:
        ProtocolError: it is none.

    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_CLOCK_US:
        raise ProtocolError("clock", value)
    return value
