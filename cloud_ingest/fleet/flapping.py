"""Damping: an alert that comes and goes too often becomes one alert, of the kind ``flapping``.

As in the damping of routes (RFC 2439): what was raised `raises` times within a window is no longer
told each time. One alert says that it flaps, and stands until nothing has changed for so long that
it is steady. What is wrong then is an alert of its own again, since the time that it is wrong. How
something is stays known meanwhile: damped is what is told of it, not what the watch knows.

Times are microseconds of the watch's time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from cloud_ingest.fleet.alerts import AlertBook, Subject
from cloud_ingest.fleet.kinds import KINDS, AlertKind
from cloud_ingest.fleet.rules import Flapping

FLAPPING: Final[AlertKind] = "flapping"


class Flap(msgspec.Struct, array_like=True):
    """The recent history of one subject that was wrong of late.

    Attributes:
        kind: what is wrong with it.
        raised_us: when alerts about it were raised, within the window.
        until_us: when it is forgotten, or steady, if nothing changes.
        window_us: within which raised alerts are counted.
        steady_us: how long nothing changes in what is steady.
        is_damped: the alert ``flapping`` stands for it.
        is_wrong: whether it is wrong now, while it is damped.
        changed_us: since when that is so.
        message: for a person, of when it was wrong last.
        value: what was measured then.

    """

    kind: AlertKind
    raised_us: list[int]
    until_us: int
    window_us: int
    steady_us: int
    is_damped: bool = False
    is_wrong: bool = False
    changed_us: int = 0
    message: str = ""
    value: float | None = None


class Flaps(msgspec.Struct):
    """All that were wrong of late.

    Attributes:
        of: by kind, gateway and sensor; as many as the watch has alerts about within a window,
            which kinds and watched sensors bound.

    """

    of: dict[Subject, Flap] = {}

    def forget(self, gateway: str) -> None:
        """Remember nothing of a gateway."""
        self.of = {about: flap for about, flap in self.of.items() if about[1] != gateway}


class DampedAlerts:
    """Raises and clears alerts, and damps those that flap.

    Args:
        book: of the alerts; nobody else raises or clears one there.
        flaps: what is remembered between two batches.

    """

    def __init__(self, book: AlertBook, flaps: Flaps) -> None:
        self._book = book
        self._flaps = flaps

    def judge(
        self,
        subject: tuple[AlertKind, str, str],
        is_wrong: bool | None,
        at_us: int,
        message: str,
        value: float | None = None,
        *,
        rule: Flapping,
    ) -> None:
        """Raise or clear an alert if it is not so yet.

        Args:
            subject: kind, gateway, and sensor or ``""``.
            is_wrong: whether it is to be open; None: as it is.
            at_us: since when.
            message: for a person, if it is raised.
            value: what was measured, likewise.
            rule: when it flaps.

        """
        if is_wrong is None:
            return
        flap = self._flaps.of.get(subject)
        if flap is not None and at_us >= flap.until_us:
            self._end(subject, flap)
            flap = self._flaps.of.get(subject)
        if flap is not None and flap.is_damped:
            if not rule.on:
                self._end(subject, flap)
            else:
                _change(flap, is_wrong, at_us, message, value)
                return
        if is_wrong and subject not in self._book.open:
            self._raise(subject, at_us, message, value, rule)
        else:
            self._book.judge(subject, is_wrong, at_us, message, value)

    def time_passed(self, now_us: int) -> None:
        """End what is steady by now."""
        for subject, flap in list(self._flaps.of.items()):
            if now_us >= flap.until_us:
                self._end(subject, flap)

    def subjects(self) -> list[Subject]:
        """Return what is wrong, be it told as an alert or damped."""
        damped = [about for about, flap in self._flaps.of.items() if flap.is_damped]
        return [*self._book.open, *damped]

    def is_open(self, kind: AlertKind, gateway: str, sensor: str = "") -> bool:
        """Return whether something is wrong, be it told as an alert or damped."""
        flap = self._flaps.of.get((kind, gateway, sensor))
        if flap is not None and flap.is_damped:
            return flap.is_wrong
        return self._book.is_open(kind, gateway, sensor)

    def kinds(self) -> dict[str, set[str]]:
        """Return the kinds of what is wrong, damped or not, by gateway."""
        found = self._book.kinds()
        for (kind, gateway, _), flap in self._flaps.of.items():
            if flap.is_damped and flap.is_wrong:
                found.setdefault(gateway, set()).add(kind)
        return found

    def forget_about(self, gateway: str, sensors: Iterable[str] | None, at_us: int) -> None:
        """Clear what is open about a gateway, or about sensors of it: nobody looks any longer."""
        names = None if sensors is None else set(sensors)
        for about in list(self._flaps.of):
            if about[1] == gateway and (names is None or about[2] in names):
                del self._flaps.of[about]
        self._book.forget_about(gateway, names, at_us)

    def _raise(
        self,
        subject: tuple[AlertKind, str, str],
        at_us: int,
        message: str,
        value: float | None,
        rule: Flapping,
    ) -> None:
        known = self._flaps.of.get(subject)
        window_us, steady_us = round(rule.window_s * 1e6), round(rule.steady_s * 1e6)
        before = [] if known is None else known.raised_us
        raised_us = [each for each in before if each > at_us - window_us][1 - rule.raises :]
        flap = Flap(subject[0], [*raised_us, at_us], at_us + window_us, window_us, steady_us)
        if rule.on and len(flap.raised_us) >= rule.raises and self._damp(subject, flap, rule):
            _change(flap, True, at_us, message, value)
        else:
            self._book.judge(subject, True, at_us, message, value)
            if not self._book.is_open(*subject):
                return  # there is no room for it, so nothing was told
        self._flaps.of[subject] = flap

    def _damp(self, subject: tuple[AlertKind, str, str], flap: Flap, rule: Flapping) -> bool:
        """Let the alert ``flapping`` stand for a subject; return whether it does."""
        about = FLAPPING, subject[1], subject[2]
        kinds = sorted({*self._damped(subject), subject[0]})
        message = (
            f"{', '.join(kinds)}: raised {rule.raises} times within {rule.window_s:g} s, and told "
            f"no more until nothing changes for {rule.steady_s:g} s"
        )
        self._book.judge(about, True, flap.raised_us[-1], message, float(rule.raises))
        self._book.retell(about, message)
        flap.is_damped = self._book.is_open(*about)
        return flap.is_damped

    def _damped(self, subject: Subject) -> list[str]:
        """Return the kinds that are damped of the gateway or sensor that a subject is about."""
        of, about = self._flaps.of, subject[1:]
        return [kind for kind in KINDS if (kind, *about) in of and of[kind, *about].is_damped]

    def _end(self, subject: Subject, flap: Flap) -> None:
        """Forget what was wrong of late; tell what is left of what was damped."""
        del self._flaps.of[subject]
        if not flap.is_damped:
            return
        if not self._damped(subject):
            self._book.judge((FLAPPING, subject[1], subject[2]), False, flap.until_us, "")
        if flap.is_wrong:
            about = flap.kind, subject[1], subject[2]
            self._book.judge(about, True, flap.changed_us, flap.message, flap.value)
            # It counts as raised, also if it flaps again.
            again_us = [flap.changed_us]
            until_us = flap.changed_us + flap.window_us
            self._flaps.of[subject] = Flap(
                flap.kind, again_us, until_us, flap.window_us, flap.steady_us
            )


def _change(flap: Flap, is_wrong: bool, at_us: int, message: str, value: float | None) -> None:
    """Note how what is damped is now."""
    if is_wrong == flap.is_wrong:
        return
    flap.is_wrong, flap.changed_us = is_wrong, at_us
    flap.until_us = at_us + flap.steady_us
    if is_wrong:
        flap.message, flap.value = message, value
