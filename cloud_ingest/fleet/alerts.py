"""Alerts: each is raised once, and cleared once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from cloud_ingest.fleet.fair_history import newest_of_each
from cloud_ingest.fleet.kinds import AlertKind

MAX_CLOSED: Final = 20_000
"""Alerts that are remembered after they were cleared."""
MAX_CLOSED_A_GATEWAY: Final = 200
"""Likewise, of one gateway, so that none takes the room of others."""
MAX_OPEN: Final = 100_000
"""Alerts that are open at a time; more are counted, and not raised."""
MAX_OPEN_A_GATEWAY: Final = 600
"""Likewise, of one gateway: two of each sensor that is watched, and its own."""

Subject = tuple[str, str, str]
"""Kind, gateway, and sensor or ``""``."""


class Alert(msgspec.Struct, array_like=True):
    """One alert.

    Attributes:
        kind: what is wrong.
        gateway: with whom.
        sensor: with which of its sensors; ``""`` where it is the gateway's.
        opened_us: since when, by the collector's clock.
        cleared_us: until when; None while it is open.
        message: for a person.
        value: what was measured; None where nothing was.

    """

    kind: AlertKind
    gateway: str
    sensor: str
    opened_us: int
    cleared_us: int | None
    message: str
    value: float | None

    @property
    def id(self) -> str:
        """Its name for ever."""
        about = f"{self.gateway}/{self.sensor}" if self.sensor else self.gateway
        return f"{self.kind}:{about}:{self.opened_us}"


class AlertBook(msgspec.Struct):
    """All alerts of a fleet.

    Attributes:
        open: by what they are about.
        closed: those that were cleared, in that order.
        left_out: how many were not raised since `MAX_OPEN` were open.
        has_changed: a table has to be written anew.
        last_us: when what is remembered was last raised, by what it is about.
        open_of: how many are open, by gateway.
        just_cleared: since somebody last took them out here.

    """

    open: dict[Subject, Alert] = {}
    closed: list[Alert] = []
    left_out: int = 0
    has_changed: bool = False
    last_us: dict[Subject, int] = {}
    open_of: dict[str, int] = {}
    just_cleared: list[Alert] = []

    def forget(self, gateway: str) -> None:
        """Remember no alert of a gateway."""
        self.open = {about: each for about, each in self.open.items() if about[1] != gateway}
        self.closed = [each for each in self.closed if each.gateway != gateway]
        self.just_cleared = [each for each in self.just_cleared if each.gateway != gateway]
        self.last_us = {about: at for about, at in self.last_us.items() if about[1] != gateway}
        self.open_of.pop(gateway, None)
        self.has_changed = True

    def judge(
        self,
        subject: tuple[AlertKind, str, str],
        is_wrong: bool | None,
        at_us: int,
        message: str,
        value: float | None = None,
    ) -> None:
        """Raise or clear an alert if it is not so yet.

        Args:
            subject: what it is about.
            is_wrong: whether it is to be open; None: as it is.
            at_us: since when, by the collector's clock.
            message: for a person, if it is raised.
            value: what was measured, likewise.

        """
        there = self.open.get(subject)
        if is_wrong and there is None:
            open_of = self.open_of.get(subject[1], 0)
            if len(self.open) >= MAX_OPEN or open_of >= MAX_OPEN_A_GATEWAY:
                self.left_out += 1
                return
            # Its name holds the time: no other one about the same may have it.
            opened_us = max(at_us, self.last_us.get(subject, at_us - 1) + 1)
            self.open[subject] = Alert(*subject, opened_us, None, message, value)
            self.last_us[subject] = opened_us
            self.open_of[subject[1]] = open_of + 1
            self.has_changed = True
        elif is_wrong is False and there is not None:
            self._clear(subject, at_us)

    def forget_about(self, gateway: str, sensors: Iterable[str] | None, at_us: int) -> None:
        """Clear what is open about a gateway, or about sensors of it: nobody looks any longer."""
        names = None if sensors is None else set(sensors)
        about = [s for s in self.open if s[1] == gateway and (names is None or s[2] in names)]
        for subject in about:
            self._clear(subject, at_us)

    def kinds(self) -> dict[str, set[str]]:
        """Return the kinds of alerts that are open, by the gateway that they are about."""
        found: dict[str, set[str]] = {}
        for what, who, _ in self.open:
            found.setdefault(who, set()).add(what)
        return found

    def retell(self, subject: Subject, message: str) -> None:
        """Say something else of an alert that is open."""
        alert = self.open.get(subject)
        if alert is not None and alert.message != message:
            alert.message = message
            self.has_changed = True

    def is_open(self, kind: AlertKind, gateway: str, sensor: str = "") -> bool:
        """Return whether there is such an alert."""
        return (kind, gateway, sensor) in self.open

    def drop_closed(self, before_us: int) -> None:
        """Forget what was cleared before a time, and the oldest of who has too many."""
        recent = [each for each in self.closed if (each.cleared_us or 0) >= before_us]
        kept = newest_of_each(
            recent,
            lambda alert: alert.gateway,
            most=MAX_CLOSED,
            most_of_one=MAX_CLOSED_A_GATEWAY,
        )
        if len(kept) != len(self.closed):
            self.closed = kept
            self.has_changed = True
            about = {(alert.kind, alert.gateway, alert.sensor) for alert in kept}
            named = self.last_us.items()
            self.last_us = {s: us for s, us in named if s in about or s in self.open}

    def count_open(self) -> None:
        """Count anew how many are open of each gateway."""
        self.open_of = dict(Counter(who for _, who, _ in self.open))

    def all(self) -> Iterator[Alert]:
        """Return those that are open, and those that were, by time."""
        return iter(sorted((*self.open.values(), *self.closed), key=_order))

    def _clear(self, subject: Subject, at_us: int) -> None:
        alert = self.open.pop(subject)
        left = self.open_of.pop(alert.gateway, 1) - 1
        if left > 0:
            self.open_of[alert.gateway] = left
        alert.cleared_us = max(at_us, alert.opened_us)
        self.closed.append(alert)
        self.just_cleared.append(alert)
        del self.just_cleared[:-MAX_CLOSED]
        self.has_changed = True


def _order(alert: Alert) -> tuple[int, str, str, str]:
    return (alert.opened_us, alert.kind, alert.gateway, alert.sensor)
