"""Expiry of certificates and revocation lists: in the status, and in the log a month before.

A certificate that has ended stops a gateway's links and clients at once; a list that was not
renewed refuses every client. Both are found too late on the day itself. The gateway itself starts,
and serves all that needs none of them: its clock may be wrong, or it may get a new one soon. When
they end is read in `validity`.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from alerts.thresholds import ENDING_DAYS
from gateway.base.timers import Alarm, Timers
from light_dataclasses import dataclass

DAY_S = 24 * 3600.0
LOOK_S = 30.0
"""Between two looks at the clock."""
CLOCK_SET_S = 60.0
"""A wall clock that has gone so much more or less than the event loop's was set."""
_MEANS = {
    "certificate_file": "who checks certificates refuses this gateway",
    "client_ca_file": "whoever shows a certificate of this authority is refused",
    "client_crl_file": "whoever shows a certificate of this authority is refused",
}
_DO = {
    "certificate_file": "renew it (`hedgerow keys renew`, or `keys enrol` with a new token)",
    "client_ca_file": "roll over to another authority (docs/keys.md)",
    "client_crl_file": "renew the list (`hedgerow keys revoke`) and copy it",
}
"""By field."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateExpiry:
    """One certificate or revocation list.

    Attributes:
        field: of the configuration: ``certificate_file`` in ``[mqtt]``, others with their section.
        number: its place in the file, from 1.
        name: whose it is: the subject of a certificate, the issuer of a list.
        ends_s: when it ends, in seconds since 1970.

    """

    field: str
    number: int
    name: str
    ends_s: float

    @property
    def where(self) -> str:
        """The field with its section."""
        return self.field if "." in self.field else f"mqtt.{self.field}"

    def told_as_ended(self, now_s: float) -> str:
        """Return what an operator is told of one that has ended, by the clock that says so."""
        name = self.field.rpartition(".")[2]
        what = f"{self.where}: that of {self.name!r} ended at {_day(self.ends_s)}"
        clock = f"and this machine's clock says {_day(now_s)}"
        return f"{what}, {clock}: {_MEANS[name]}. If the clock is right, {_DO[name]}"

    def days_left(self, now_s: float) -> int:
        """Return whole days until it ends; negative if it has."""
        return int((self.ends_s - now_s) // DAY_S)


class ExpiryWatch:
    """Tells of what ends within `ENDING_DAYS` or has ended: when it is read, and each day.

    Twice a minute it looks at the clock too. Where the clock was set, as by a time service after
    the boot, or something has ended since, the files are to be read again: what counted for nothing
    by the clock of before may count now.

    Args:
        timers: the event loop.
        wall_clock: seconds since 1970.
        changed: called when the files are to be read again.

    Attributes:
        expiring: what was read last.
        changed: as given.

    """

    def __init__(
        self,
        timers: Timers,
        wall_clock: Callable[[], float] = time.time,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.expiring: tuple[CertificateExpiry, ...] = ()
        self._timers = timers
        self._wall_clock = wall_clock
        self.changed = changed
        self._timer: Alarm | None = None
        self._said_at_s = 0.0
        self._ahead_s = 0.0
        """The lead of the wall clock over the event loop's."""
        self._ended: frozenset[CertificateExpiry] = frozenset()

    def follow(self, expiring: Sequence[CertificateExpiry]) -> None:
        """Watch these from now on."""
        self.expiring = tuple(expiring)
        self._note()
        self._say()
        self._wait()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def as_json(self) -> list[dict[str, Any]]:
        """Return each of them, the first to end first."""
        now_s = self._wall_clock()
        return [
            {
                "field": one.field,
                "number": one.number,
                "name": one.name,
                "ends_s": one.ends_s,
                "days_left": one.days_left(now_s),
            }
            for one in sorted(self.expiring, key=lambda one: one.ends_s)
        ]

    def _wait(self) -> None:
        self.close()
        self._timer = self._timers.call_later(LOOK_S, self._look) if self.expiring else None

    def _look(self) -> None:
        ahead_s, ended = self._ahead_s, self._ended
        self._note()
        try:
            if abs(self._ahead_s - ahead_s) > CLOCK_SET_S or self._ended != ended:
                self.changed()
            if self._timers.time() - self._said_at_s >= DAY_S:
                self._say()
        finally:  # a failure, which the event loop tells, is not the last look
            self._wait()

    def _note(self) -> None:
        now_s = self._wall_clock()
        self._ahead_s = now_s - self._timers.time()
        self._ended = frozenset(one for one in self.expiring if one.ends_s < now_s)

    def _say(self) -> None:
        self._said_at_s, now_s = self._timers.time(), self._wall_clock()
        for one in self.expiring:
            if one.ends_s < now_s:
                _log.error("%s", one.told_as_ended(now_s))
            elif (days := one.days_left(now_s)) < ENDING_DAYS:
                _log.warning("%s: that of %r expires in %d days", one.where, one.name, days)


def _day(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M} UTC"
