"""The watch's own time: no clock of the system moves it alone.

A collector stamps what it has, and its clock may be wrong. What it says is held against three
things:

- **The job's clock bounds it.** Nothing was collected after the job had it. A job's clock that is
  set back does not take the watch's time back: it goes on from there at the job's pace.
- **Two clocks of three are right.** Where the gateway's clock and the job's agree, and the stamp is
  earlier, the collector's clock is behind. Where the gateway's clock and the stamp agree, both are
  right, however far the job is behind with what it reads.
- **Gateways say how long they are up.** A later record of one life was collected later. One whose
  stamp is earlier shows that the collector's clock was set back, or had been ahead; it came as much
  later as the gateway was up longer.

What a record shows holds for its own stamp: other records of the gateway may come through another
collector. It holds for the gateway's other messages where they are behind too, and for those of
gateways that show nothing themselves. Of a gateway with several collectors each one's clock is
remembered: what came through one says nothing of what comes through another. So a wrong clock makes
a stamp at most as late as now, and never moves the watch beyond it. Times are microseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from cloud_ingest.evidence.facts import UNTIMED_US, Activity, BatchFacts, Delays, Statement
from cloud_ingest.fleet.gateway_state import GatewayState
from record_formats.status_record import StatusError, decode

APART_US: Final = 30_000_000
"""Clocks that are further apart do not agree."""
_MINUTE_US: Final = 60_000_000
_Number = tuple[str, int, int]
"""A record's gateway, life and number."""


class WatchClock(msgspec.Struct):
    """Keeps what is known of the clocks.

    Attributes:
        limit_us: the job's clock, as the watch takes it; None before it was read.
        job_behind_us: how far the job's clock is behind what the watch had by it.
        shift_us: how far the collectors' clocks are behind what they said before.
        heartbeat_us: until when a collector last said that it heard all there was, by its clock.
        ahead_us: how far the latest stamp of a collector was beyond the job's clock.
        read_until_us: until when all that collectors had by then is read, by the last micro-batch;
            None if that was all.
        late_us: how far the latest one that a gateway's clock agreed with was behind it; of all
            stamps, where none agreed.

    """

    limit_us: int | None = None
    job_behind_us: int = 0
    shift_us: int = 0
    heartbeat_us: int | None = None
    ahead_us: int = 0
    read_until_us: int | None = None
    late_us: int = 0

    def job_says(self, now_us: int, progress_us: int | None) -> None:
        """Read the job's clock.

        Args:
            now_us: what it says.
            progress_us: how far the watch is; None if it has not begun.

        """
        if progress_us is None or now_us >= progress_us:
            self.job_behind_us = 0
        elif now_us + self.job_behind_us < progress_us:
            self.job_behind_us = progress_us - now_us
        self.limit_us = now_us + self.job_behind_us

    def bounded(self, at_us: int) -> int:
        """Return a time that is not beyond the job's clock."""
        return at_us if self.limit_us is None else min(at_us, self.limit_us)

    def heard_until(self, stamp_us: int, progress_us: int | None) -> int:
        """Return until when a collector has heard all there was, in the watch's time.

        Args:
            stamp_us: what its clock says.
            progress_us: how far the watch is; None if it has not begun.

        """
        at_us = self.bounded(stamp_us + self.shift_us)
        last_us, self.heartbeat_us = self.heartbeat_us, stamp_us
        if progress_us is None or at_us >= progress_us - APART_US:
            return at_us
        # It is behind, and runs: as much time has passed as its clock says.
        passed_us = 0 if last_us is None else max(0, stamp_us - last_us)
        return self.bounded(progress_us + passed_us)

    def judged_until(self, progress_us: int) -> int:
        """Return the time by which gateways are judged.

        One spool may be read faster than another. Whoever is collected into the other one is not
        silent because it is not read yet.

        Args:
            progress_us: how far the watch is.

        """
        return progress_us if self.read_until_us is None else min(progress_us, self.read_until_us)

    @property
    def is_vouched_for(self) -> bool:
        """Return whether a collector's clock is as good as the job's, so that it judges others.

        It is not where it is ahead of the job's, nor while the job is late: then a clock that is
        ahead by less than the job is late looks as if the gateway's were behind.
        """
        return max(self.ahead_us, self.late_us) <= APART_US

    def timed(self, facts: BatchFacts, gateways: dict[str, GatewayState]) -> BatchFacts:
        """Return a batch's facts in the watch's time.

        Args:
            facts: by the clocks of collectors.
            gateways: as they were before; how far the clock of whoever collects from them is
                behind is noted with them.

        """
        shifts = self._compare(facts, gateways)
        until_us = facts.read_until_us
        self.read_until_us = None if until_us is None else self.bounded(until_us + self.shift_us)
        stamps = [one.collected_us for one in facts.statements]
        stamps += [one.collected_us for one in facts.activity]
        newest_us = max(stamps, default=UNTIMED_US)
        if newest_us != UNTIMED_US and self.limit_us is not None:
            self.ahead_us = max(0, newest_us - self.limit_us)
            agreed = (one.collected_us for one in facts.statements if self._is_agreed(one))
            self.late_us = max(0, self.limit_us - max(agreed, default=newest_us))
        if (
            not self.ahead_us
            and not self.shift_us
            and not any(shifts.values())
            and not any(each.shift_us for each in gateways.values())
            and not any(self._is_late(one.collected_us) for one in facts.activity)
        ):
            return facts
        return replace(
            facts,
            statements=tuple(self._said(one, shifts, gateways) for one in facts.statements),
            activity=tuple(self._acted(one, gateways) for one in facts.activity),
            delays=tuple(self._in_minute(one, gateways) for one in facts.delays),
        )

    def _compare(self, facts: BatchFacts, gateways: dict[str, GatewayState]) -> dict[_Number, int]:
        """Note by whose records the collectors' clocks are behind what they said before.

        Returns:
            How far the stamp of each record is behind that shows it. Records of one gateway may
            come through two collectors, also in one batch: where one's clock is wrong, the
            other's may be right.

        """
        shifts: dict[_Number, int] = {}
        of_gateways: dict[str, int] = {}
        before: dict[tuple[str, int], _Before] = {}
        for said in sorted(facts.statements, key=_number):
            if said.collected_us == UNTIMED_US:
                continue
            life = said.gateway, said.boot_epoch
            if life not in before:
                before[life] = _before(gateways.get(said.gateway), said.boot_epoch)
            shift_us = self._shift_us(before[life], said)
            if shift_us is not None:
                shifts[_number(said)] = of_gateways[said.gateway] = shift_us
                if shift_us > APART_US and said.gateway in gateways:
                    gateways[said.gateway].shows_shift(shift_us, APART_US)
            if said.kind == "status" and said.sequence > before[life].sequence:
                at_us = said.collected_us + (shift_us or 0)
                before[life] = _Before(said.sequence, at_us, said.payload)
        for name, shift_us in of_gateways.items():
            if name in gateways:
                gateways[name].shift_us = shift_us
        if of_gateways:
            # Half of them show it: a single gateway does not move the others.
            ordered = sorted(of_gateways.values())
            self.shift_us = ordered[len(ordered) // 2]
        return shifts

    def _shift_us(self, before: _Before, said: Statement) -> int | None:
        """Return how far a record's stamp is behind; None if the record shows nothing."""
        stamp_us, origin_us = said.collected_us, said.origin_us
        if self._is_agreed(said):
            return 0
        if origin_us is not None and self._is_late(stamp_us) and self._is_now(origin_us):
            return self.bounded(origin_us) - stamp_us
        if said.kind != "status" or before.at_us is None or said.sequence <= before.sequence:
            return None
        if stamp_us + APART_US >= before.at_us:
            return 0
        up_s, before_s = _up_s(said.payload), _up_s(before.said)
        if up_s is None or before_s is None:
            return None
        longer_us = round(max(0.0, up_s - before_s) * 1e6)
        return self.bounded(before.at_us + longer_us) - stamp_us

    def _is_agreed(self, said: Statement) -> bool:
        """Return whether the gateway's clock and the collector's agree on what has been."""
        stamp_us, origin_us = said.collected_us, said.origin_us
        if origin_us is None or self.limit_us is None or stamp_us > self.limit_us:
            return False
        return abs(origin_us - stamp_us) < APART_US

    def _said(
        self, one: Statement, shifts: dict[_Number, int], gateways: dict[str, GatewayState]
    ) -> Statement:
        if one.collected_us == UNTIMED_US:
            return one
        shift_us = shifts.get(_number(one))
        if shift_us is None:
            at_us = self._at_us(one.gateway, one.collected_us, gateways)
        else:
            at_us = self.bounded(one.collected_us + shift_us)
        return replace(one, collected_us=at_us)

    def _acted(self, one: Activity, gateways: dict[str, GatewayState]) -> Activity:
        if one.collected_us == UNTIMED_US:
            return one
        at_us = self._at_us(one.gateway, one.collected_us, gateways)
        origin_us = one.last_us
        if origin_us is not None and self._is_late(at_us) and self._is_now(origin_us):
            at_us = self.bounded(origin_us)
        return replace(one, collected_us=at_us)

    def _is_now(self, origin_us: int) -> bool:
        """Return whether a gateway's clock and the job's agree."""
        return self.limit_us is not None and abs(origin_us - self.limit_us) < APART_US

    def _is_late(self, at_us: int) -> bool:
        """Return whether a time is far behind the job's clock."""
        return self.limit_us is not None and at_us < self.limit_us - APART_US

    def _in_minute(self, one: Delays, gateways: dict[str, GatewayState]) -> Delays:
        # A stamp of that minute: its end says whether it is behind.
        ends_us = self._at_us(one.gateway, one.minute_us + _MINUTE_US - 1, gateways)
        return replace(one, minute_us=ends_us // _MINUTE_US * _MINUTE_US)

    def _at_us(self, name: str, stamp_us: int, gateways: dict[str, GatewayState]) -> int:
        gateway = gateways.get(name)
        if gateway is None:
            return self.bounded(stamp_us + self.shift_us)
        # What is not behind was stamped by a collector whose clock is right.
        if stamp_us >= gateway.last_us:
            return self.bounded(stamp_us)
        at_us = self.bounded(stamp_us + gateway.shift_us)
        if at_us >= gateway.last_us - APART_US:
            return at_us
        latest_us = gateway.last_us if self.limit_us is None else self.limit_us
        for shift_us in gateway.shifts_us:  # it came through another collector than the last record
            if gateway.last_us - APART_US <= stamp_us + shift_us <= latest_us + APART_US:
                return self.bounded(stamp_us + shift_us)
        return at_us


class _Before(NamedTuple):
    """The latest status record of a life before another one.

    Attributes:
        sequence: its number; -1: there is none.
        at_us: when it came, by the watch's time; None: there is none.
        said: the record, or how long the gateway was up when it was sent, in seconds.

    """

    sequence: int
    at_us: int | None
    said: bytes | float


def _before(gateway: GatewayState | None, epoch: int) -> _Before:
    life = None if gateway is None else gateway.lives.get(epoch)
    return (
        _Before(-1, None, 0.0)
        if life is None
        else _Before(life.sequence, life.status_us, life.up_s)
    )


def _number(said: Statement) -> _Number:
    return said.gateway, said.boot_epoch, said.sequence


def _up_s(said: bytes | float) -> float | None:
    """Return how long the gateway was up; None if the record can't be read."""
    if not isinstance(said, bytes):
        return said
    try:
        return decode(said).up_s
    except StatusError:
        return None
