"""State that is remembered of one gateway."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from alerts.wear import Wear
from cloud_ingest.bounded_counts import added
from cloud_ingest.evidence.facts import Activity
from cloud_ingest.fleet.numbers import Numbering
from record_formats.status_record import StatusRecord

MAX_LIVES: Final = 8
"""Boot epochs of one gateway that are told apart; the one heard longest ago is forgotten."""
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
MAX_PAST_LIVES: Final = 32
"""Further ones of which the highest number is remembered, so that none comes back as a stranger."""
RATE_US: Final = 60_000_000
"""The rate of messages is that of so long."""
MAX_SHIFTS: Final = 4
"""Clocks of one gateway's collectors that were behind; of more the one shown first is forgotten."""

_SLOT_US: Final = 5_000_000


class HeardLife(msgspec.Struct, array_like=True):
    """One boot epoch of a gateway. Epochs are drawn: only time says which one is later.

    Attributes:
        heard_us: when something of it was last heard, by the collector's clock.
        status_us: when its latest status record was; None if there is none.
        sequence: that record's number.
        up_s: what that record said.
        paced: records in a row that came at the pace at which they were sent.
        was_current: it has been the gateway's life before, and then another was.
        numbering: of the logged messages of its clients.

    """

    heard_us: int
    status_us: int | None = None
    sequence: int = -1
    up_s: float = 0.0
    paced: int = 0
    was_current: bool = False
    numbering: Numbering = msgspec.field(default_factory=Numbering)


class SensorState(msgspec.Struct, array_like=True):
    """One sensor.

    Attributes:
        value: what it last said.
        since_us: since when it says so, by the collector's clock.
        readings: how often it has said so.
        heard_us: when its latest reading came.
        told_us: of when that reading is, by the device or its gateway; None if an earlier version
            of the watch noted it.

    """

    value: float
    since_us: int
    readings: int
    heard_us: int
    told_us: int | None = None


class ReportedTopology(msgspec.Struct, array_like=True, frozen=True):
    """The content of a gateway's last row in the table of topology; a change makes a new row."""

    epoch: int
    root: str
    parent: str | None
    links: tuple[tuple[str, str, str], ...]


class GatewayState(msgspec.Struct):
    """One gateway.

    Attributes:
        gateway: its id.
        first_us: when it was first heard, by the collector's clock.
        last_us: when it was last heard.
        messages: of its clients, each once.
        undecodable: those of them that went to quarantine.
        duplicates: copies that were dropped.
        kept_local: messages that stay with it.
        lost: numbers that are missing in lives that are forgotten.
        given_up: numbers that the job looks for no longer, since more are missing than it keeps.
        given_up_us: when it last gave some up, by the collector's clock; None if it never did.
        domain: where it stands, ``-`` for none; None if unknown.
        group: likewise.
        member_us: when it said so.
        record_error: why its latest member or status record can't be read; None if it can.
        lives: by boot epoch.
        epoch: of the life that it is in.
        status: the latest record of that life.
        status_us: when that came.
        origin_us: when that was accepted, by the gateway's clock.
        returns_us: when a life that had ended was heard again.
        offsets_s: how far its clock was ahead of the collector's, in the last records.
        elections_us: when it became root.
        powered: records since the last one that told of under-voltage.
        wear: of its disk.
        told: its last row in the table of topology.
        slots: messages by slot of the collector's clock, for the rate.
        sensors: by name.
        past: the highest number of lives that are forgotten, by boot epoch.
        unwatched_us: when a sensor that a rule is for last found no room; None if none did.
        shift_us: how far the clock of whoever collects from it is behind (`WatchClock`).
        shifts_us: the same of all that collected from it and whose clocks were behind, the one
            shown last at the end.

    """

    gateway: str
    first_us: int
    last_us: int
    messages: int = 0
    undecodable: int = 0
    duplicates: int = 0
    kept_local: int = 0
    lost: int = 0
    domain: str | None = None
    group: str | None = None
    member_us: int = -1
    record_error: str | None = None
    lives: dict[int, HeardLife] = {}
    epoch: int | None = None
    status: StatusRecord | None = None
    status_us: int = -1
    origin_us: int | None = None
    returns_us: list[int] = []
    offsets_s: list[float] = []
    elections_us: list[int] = []
    powered: int = 0
    wear: Wear = msgspec.field(default_factory=Wear)
    told: ReportedTopology | None = None
    slots: dict[int, int] = {}
    sensors: dict[str, SensorState] = {}
    given_up: int = 0
    given_up_us: int | None = None
    past: dict[int, int] = {}
    shift_us: int = 0
    shifts_us: list[int] = []
    unwatched_us: int | None = None

    def shows_shift(self, shift_us: int, apart_us: int) -> None:
        """Note how far the clock of one of its collectors is behind; others' notes stay.

        Args:
            shift_us: so far.
            apart_us: what is no further apart is of one clock.

        """
        others = [one for one in self.shifts_us if abs(one - shift_us) > apart_us]
        self.shifts_us = [*others, shift_us][-MAX_SHIFTS:]

    def life(self, epoch: int, at_us: int) -> HeardLife:
        """Return the life with this boot epoch; the one that was heard longest ago may go for
        it."""
        life = self.lives.get(epoch)
        if life is None:
            if len(self.lives) >= MAX_LIVES:
                gone = min(
                    (each for each in self.lives if each != self.epoch),
                    key=lambda each: (self.lives[each].heard_us, each),
                )
                self._end(gone)
            life = self.lives[epoch] = HeardLife(at_us)
            life.numbering.top = self.past.pop(epoch, 0)
        life.heard_us = max(life.heard_us, at_us)
        return life

    def tops(self) -> dict[int, int]:
        """Return the highest number that has come of each life, the one heard last being the
        last."""
        lives = sorted(self.lives.items(), key=lambda each: (each[1].heard_us, each[0]))
        tops = {epoch: life.numbering.top for epoch, life in lives if life.numbering.top}
        return dict([*self.past.items(), *tops.items()][-MAX_PAST_LIVES:])

    def _end(self, epoch: int) -> None:
        numbering = self.lives.pop(epoch).numbering
        self.lost = added(self.lost, numbering.missing)
        if numbering.top:
            self.past[epoch] = numbering.top
            keep_newest(self.past, MAX_PAST_LIVES)

    @property
    def missing(self) -> int:
        """Return how many logged messages of its clients are missing."""
        return added(self.lost, sum(life.numbering.missing for life in self.lives.values()))

    def act(self, activity: Activity, at_us: int | None) -> None:
        """Note how much came of it, and when; None if nobody knows when."""
        self.messages += activity.messages
        self.undecodable += activity.undecodable
        self.duplicates += activity.duplicates
        if activity.messages and at_us is not None:
            slot = at_us // _SLOT_US
            self.slots[slot] = self.slots.get(slot, 0) + activity.messages
            if len(self.slots) > RATE_US // _SLOT_US + 1:
                newest = max(self.slots)
                oldest = newest - RATE_US // _SLOT_US
                self.slots = {s: n for s, n in self.slots.items() if s >= oldest}

    def rate_per_s(self, now_us: int) -> float:
        """Return messages a second over the last minute of the collector's clock."""
        oldest = (now_us - RATE_US) // _SLOT_US
        told = sum(count for slot, count in self.slots.items() if slot > oldest)
        return told / (RATE_US / 1e6)


def note_top(past: dict[int, int], epoch: int, top: int) -> bool:
    """Note the highest number of a life that nobody follows; return whether it is a higher one."""
    is_higher = top > past.get(epoch, 0)
    if is_higher:
        past[epoch] = top
        keep_newest(past, MAX_PAST_LIVES)
    return is_higher


def keep_newest(known: dict[_Key, _Value], most: int) -> None:
    """Delete the first of what is known, down to so many."""
    for oldest in list(known)[:-most]:
        del known[oldest]
