"""The watch's own time: no clock of the system moves it alone.

A collector stamps what it has, and its clock may be wrong. What it says is held against three
things:

- **The job's clock bounds it.** Nothing was collected after the job had it. A job's clock that is
  set back does not take the watch's time back: it goes on from there at the job's pace.
- **Two clocks of three are right.** Where the gateway's clock and the job's agree, and the stamp is
  earlier, the collector's clock is behind.
- **Gateways say how long they are up.** A later record of one life was collected later. One whose
  stamp is earlier shows that the collector's clock was set back, or had been ahead; it came as much
  later as the gateway was up longer.

What a gateway of a collector shows holds for its other messages, and for those of gateways that
show nothing themselves. So a wrong clock makes a stamp at most as late as now, and never moves the
watch beyond it. Times are microseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.ingest.facts import UNTIMED_US, Activity, BatchFacts, Delays, Statement
from cloud_ingest.status_record import StatusError, decode

APART_US: Final = 30_000_000
"""Clocks that are further apart do not agree."""
_MINUTE_US: Final = 60_000_000
_Stamped = TypeVar("_Stamped", Statement, Activity)


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

    """

    limit_us: int | None = None
    job_behind_us: int = 0
    shift_us: int = 0
    heartbeat_us: int | None = None
    ahead_us: int = 0
    read_until_us: int | None = None

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
    def is_ahead(self) -> bool:
        """Return whether a collector's clock is ahead of the job's, so that it times nothing."""
        return self.ahead_us > APART_US

    def timed(self, facts: BatchFacts, gateways: dict[str, GatewayState]) -> BatchFacts:
        """Return a batch's facts in the watch's time.

        Args:
            facts: by the clocks of collectors.
            gateways: as they were before; how far the clock of whoever collects from them is
                behind is noted with them.

        """
        self._compare(facts, gateways)
        until_us = facts.read_until_us
        self.read_until_us = None if until_us is None else self.bounded(until_us + self.shift_us)
        stamps = [one.collected_us for one in facts.statements]
        stamps += [one.collected_us for one in facts.activity]
        newest_us = max(stamps, default=UNTIMED_US)
        if newest_us != UNTIMED_US and self.limit_us is not None:
            self.ahead_us = max(0, newest_us - self.limit_us)
        if (
            not self.ahead_us
            and not self.shift_us
            and not any(each.shift_us for each in gateways.values())
        ):
            return facts
        return replace(
            facts,
            statements=tuple(self._moved(one, gateways) for one in facts.statements),
            activity=tuple(self._moved(one, gateways) for one in facts.activity),
            delays=tuple(self._in_minute(one, gateways) for one in facts.delays),
        )

    def _compare(self, facts: BatchFacts, gateways: dict[str, GatewayState]) -> None:
        """Note by whose records the collectors' clocks are behind what they said before."""
        shifts: dict[str, int] = {}
        for said in sorted(facts.statements, key=lambda one: (one.boot_epoch, one.sequence)):
            shift_us = self._shift_us(gateways.get(said.gateway), said)
            if shift_us is not None:
                shifts[said.gateway] = shift_us
        for name, shift_us in shifts.items():
            if name in gateways:
                gateways[name].shift_us = shift_us
        if shifts:
            # Half of them show it: a single gateway does not move the others.
            ordered = sorted(shifts.values())
            self.shift_us = ordered[len(ordered) // 2]

    def _shift_us(self, gateway: GatewayState | None, said: Statement) -> int | None:
        """How far a record's stamp is behind; None if the record shows nothing."""
        stamp_us, origin_us, limit_us = said.collected_us, said.origin_us, self.limit_us
        if origin_us is not None and limit_us is not None:
            do_others_agree = abs(origin_us - limit_us) < APART_US
            if do_others_agree and stamp_us < limit_us - APART_US:
                return self.bounded(origin_us) - stamp_us
        life = None if gateway is None else gateway.lives.get(said.boot_epoch)
        if said.kind != "status" or life is None or life.status_us is None:
            return None
        if said.sequence <= life.sequence:
            return None
        if stamp_us + APART_US >= life.status_us:
            return 0
        try:
            up_s = decode(said.payload).up_s
        except StatusError:
            return None
        longer_us = round(max(0.0, up_s - life.up_s) * 1e6)
        return self.bounded(life.status_us + longer_us) - stamp_us

    def _moved(self, one: _Stamped, gateways: dict[str, GatewayState]) -> _Stamped:
        if one.collected_us == UNTIMED_US:
            return one
        return replace(one, collected_us=self._at_us(one.gateway, one.collected_us, gateways))

    def _in_minute(self, one: Delays, gateways: dict[str, GatewayState]) -> Delays:
        at_us = self._at_us(one.gateway, one.minute_us, gateways)
        return replace(one, minute_us=at_us // _MINUTE_US * _MINUTE_US)

    def _at_us(self, name: str, stamp_us: int, gateways: dict[str, GatewayState]) -> int:
        gateway = gateways.get(name)
        shift_us = self.shift_us if gateway is None else gateway.shift_us
        return self.bounded(stamp_us + shift_us)
