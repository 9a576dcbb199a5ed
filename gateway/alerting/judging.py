"""Judgement of what a gateway sees: which of it is wrong, well, or neither. Pure.

What could not be looked at is None in `SeenByGateway`, and is then judged by no rule: an alert
neither begins nor ends because nobody could look. So it is after a start: what an alert of before
is about stays neither wrong nor well until this life has evidence of its own.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from alerts import thresholds
from alerts.desk import AlertLook, AlertSubject, Sighting
from alerts.wear import Wear
from gateway.alerting import rules
from gateway.alerting.sensor_judging import SensorFinding
from gateway.alerting.sensor_rules import SensorRules
from light_dataclasses import dataclass

COUNTED_S: Final = 300.0
"""The time over which events are counted."""
ELECTIONS: Final = 4
FLAPPING_S: Final = 600.0
"""Whoever became root so often within so long goes off and on."""
JUMP_S: Final = 60.0
"""A wall clock that moved by so much against one that nobody sets has been set."""
SETTLED_S: Final = 60.0
"""A part of the process that has run for so long since the start has not failed at once."""
_NEARLY: Final = 0.8
"""A limit that was near is so until less than this share of what was near is used."""
_MAX_NAMES: Final = 8
_NOTHING: Final[Mapping[AlertSubject, float | None]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLimits:
    """Thresholds from which something is wrong.

    Attributes:
        free_share: of the disk, at least.
        hot_cel: the processor's temperature.
        used_share: of any limit on what all clients share.
        failed_logins: refused within `COUNTED_S`.

    """

    free_share: float = thresholds.LITTLE_FREE
    hot_cel: float = thresholds.HOT_CEL
    used_share: float = 0.9
    failed_logins: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenByGateway:
    """One look of a gateway at itself, its machine and its neighbours.

    Attributes:
        gateway: its id.
        site: its domain and group, as ``DOMAIN/GROUP``.
        ahead_s: its wall clock less one that nobody sets.
        free_bytes: of the disk with its state ...
        total_bytes: ... and of all of that.
        is_read_only: whether that disk takes nothing any more.
        written_bytes: to it, since the machine's start.
        temperature_cel: of the processor.
        under_voltage: whether the supply is too weak now.
        is_throttled: whether the firmware slows the processor down now.
        disk_life_used: how much of the card's life time is used, as a share.
        is_clock_kept: whether a time service keeps the clock.
        log_failure: why the log refuses messages; empty if it takes them, None if it has not tried.
        certificates: each certificate and list, as ``/status`` has them.
        limits: what is used, and how much may be, by name.
        dropped: messages to clients since the start.
        lost: messages that the log could not read, since the start.
        still_lost: those of them that nobody has brought back.
        failed_logins: passwords, keys and certificates that were refused, since the start.
        links: to neighbours.
        dialled: each address, as ``/status`` has it.
        away: gateways that the tree has lost, and of which this one is to tell.
        missing: all that it has lost.
        forgotten: gateways that will not come back.
        told_elsewhere: lost gateways of which another one has told, and goes on.
        sites: where gateways stand.
        above: of each gateway, the one above it.
        failing: parts of the process that do not run, and why.
        untried: parts that this life of the process has not tried yet.
        returned: the release that was sent back, and why; None if the last one was not.
        is_release_known: whether that could be looked at.
        elections: so often it has become root, since the start.
        sensors: what rules make of them; None while none is read.
        unread_sensors: the rules of those that may have values that were not read yet, by name.

    """

    gateway: str
    site: str
    ahead_s: float
    free_bytes: int | None = None
    total_bytes: int | None = None
    is_read_only: bool | None = None
    written_bytes: int | None = None
    temperature_cel: float | None = None
    under_voltage: bool | None = None
    is_throttled: bool | None = None
    disk_life_used: float | None = None
    is_clock_kept: bool | None = None
    log_failure: str | None = ""
    certificates: Sequence[Mapping[str, Any]] = ()
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    dropped: int = 0
    lost: int = 0
    still_lost: int = 0
    failed_logins: int = 0
    links: int = 0
    dialled: Sequence[Mapping[str, Any]] = ()
    away: Sequence[str] = ()
    missing: Collection[str] = ()
    forgotten: Collection[str] = ()
    told_elsewhere: Collection[str] = ()
    sites: Mapping[str, str] = field(default_factory=dict)
    above: Mapping[str, str | None] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    untried: Collection[str] = ()
    returned: tuple[str, str] | None = None
    is_release_known: bool = False
    elections: int = 0
    sensors: Sequence[SensorFinding] | None = None
    unread_sensors: Mapping[str, SensorRules] = field(default_factory=dict)


class GatewayJudge:
    """Holds what a gateway sees against the rules.

    Args:
        limits: from where on something is wrong.
        lost: messages that an earlier life has told as lost, and nobody has brought back.

    """

    def __init__(self, limits: AlertLimits | None = None, lost: int = 0) -> None:
        self._limits = limits or AlertLimits()
        self._lost_before = lost
        self._wear = Wear()
        self._ahead_s: float | None = None
        self._began_s: float | None = None
        many = self._limits.failed_logins
        self._dropped = _Recent(1, "{} messages to clients were dropped")
        self._lost = _Recent(1, "its log lost {} messages to damage of the disk")
        self._logins = _Recent(many, "{} log-ins were refused", unsure_from=math.ceil(many / 2))
        self._elections = _Recent(
            ELECTIONS, "it became root {} times", unsure_from=2, within_s=FLAPPING_S
        )

    def look(
        self,
        seen: SeenByGateway,
        steady_s: float,
        held: Mapping[AlertSubject, float | None] = _NOTHING,
        telling: Collection[str] = (),
        later: Collection[AlertSubject] = (),
    ) -> AlertLook:
        """Judge what was seen.

        Args:
            seen: it.
            steady_s: when, by a clock that nobody sets.
            held: what alerts stand about, or are about to, and what was measured last.
            telling: lost gateways of which this one has told.
            later: alerts that began at a time that has not come yet, as the wall clock stands now.

        """
        self._began_s = steady_s if self._began_s is None else self._began_s
        # What no neighbour brings back is found missing at each start, and was told of.
        lost = max(0, seen.lost - self._lost_before)
        verdict = _Verdict(seen, held)
        self._machine(verdict, seen, steady_s)
        _strain(verdict, seen)
        self._clock(verdict, seen)
        _certificates(verdict, seen, later)
        self._broker(verdict, seen)
        _neighbours(verdict, seen, held, telling)
        for rule, recent, total in (
            (rules.MESSAGES_DROPPED, self._dropped, seen.dropped),
            (rules.MESSAGES_LOST, self._lost, lost),
            (rules.REFUSED_LOGINS, self._logins, seen.failed_logins),
            (rules.ROOT_FLAPPING, self._elections, seen.elections),
        ):
            verdict.counts(rule, recent, total, steady_s)
        _sensors(verdict, seen, held)
        _process(verdict, seen, held, is_settled=steady_s - self._began_s >= SETTLED_S)
        return AlertLook(verdict.judged, verdict.wrong, verdict.unsure, seen.above, verdict.counted)

    def _machine(self, verdict: _Verdict, seen: SeenByGateway, steady_s: float) -> None:
        limits = self._limits
        if seen.free_bytes is not None and seen.total_bytes:
            free = seen.free_bytes / seen.total_bytes
            message = f"{free:.1%} of its disk is free ({seen.free_bytes / 1e6:.0f} MB)"
            enough = limits.free_share * thresholds.ENOUGH_FREE / thresholds.LITTLE_FREE
            is_wrong = True if free < limits.free_share else None if free < enough else False
            verdict.is_wrong(rules.DISK_FULL, is_wrong, message, value=free)
        if seen.is_read_only is not None:
            message = "its disk takes nothing any more: it is read-only"
            verdict.is_wrong(rules.DISK_READ_ONLY, seen.is_read_only, message)
        if seen.written_bytes is not None:
            at_us, window_us = round(steady_s * 1e6), round(thresholds.WEAR_WINDOW_S * 1e6)
            pace = self._wear.look(seen.written_bytes, at_us, window_us)
            if pace is not None:
                message = f"{pace / 1e9:.1f} GB are written to its disk in a day at this pace"
                opens, clears = thresholds.WEARING_BYTES_PER_DAY, thresholds.LASTING_BYTES_PER_DAY
                is_wrong = True if pace >= opens else None if pace >= clears else False
                verdict.is_wrong(rules.DISK_WEARING, is_wrong, message, value=pace)
        if (hot := seen.temperature_cel) is not None:
            cool = limits.hot_cel - (thresholds.HOT_CEL - thresholds.COOL_CEL)
            is_wrong = True if hot >= limits.hot_cel else None if hot >= cool else False
            message = f"its processor has {hot:.0f} degrees Celsius"
            verdict.is_wrong(rules.HOT, is_wrong, message, value=hot)
        if seen.under_voltage is not None:
            message = "its supply is too weak: cards are damaged by this"
            verdict.is_wrong(rules.UNDER_VOLTAGE, seen.under_voltage, message)

    def _clock(self, verdict: _Verdict, seen: SeenByGateway) -> None:
        if seen.is_clock_kept is not None:
            message = "no time service keeps its clock"
            verdict.is_wrong(rules.CLOCK_NOT_KEPT, not seen.is_clock_kept, message)
        before_s, self._ahead_s = self._ahead_s, seen.ahead_s
        if before_s is None:
            return
        by_s = seen.ahead_s - before_s
        way = "forward" if by_s > 0 else "back"
        message = f"its clock was set {way} by {abs(by_s):.0f} s"
        verdict.is_wrong(rules.CLOCK_JUMPED, abs(by_s) >= JUMP_S, message, value=by_s)

    def _broker(self, verdict: _Verdict, seen: SeenByGateway) -> None:
        if seen.log_failure is not None:
            message = f"its log takes no messages: {seen.log_failure}"
            verdict.is_wrong(rules.LOG_REFUSES, bool(seen.log_failure), message)
        verdict.judge(rules.LIMIT_NEAR)
        for name, (used, limit) in sorted(seen.limits.items()):
            share = used / limit if limit > 0 else 0.0
            near = self._limits.used_share
            is_wrong = True if share >= near else None if share >= near * _NEARLY else False
            message = f"{used} of {limit} {name} are used"
            verdict.is_wrong(rules.LIMIT_NEAR, is_wrong, message, name, share)


class _Verdict:
    """The sightings of one look at the gateway, rule by rule.

    Args:
        seen: what is looked at.
        held: what alerts stand about, or are about to, and what was measured last.

    """

    def __init__(
        self, seen: SeenByGateway, held: Mapping[AlertSubject, float | None] = _NOTHING
    ) -> None:
        self._seen = seen
        self._held = held
        self.judged: set[str] = set()
        self.wrong: list[Sighting] = []
        self.counted: list[Sighting] = []
        self.unsure: set[AlertSubject] = set()

    def judge(self, rule: str) -> None:
        """Note that a rule was judged: what it does not find wrong is well."""
        self.judged.add(rule)

    def is_wrong(
        self,
        rule: str,
        is_wrong: bool | None,
        message: str,
        part: str = "",
        value: float | None = None,
        *,
        gateway: str = "",
    ) -> None:
        """Judge one thing: wrong, well, or None for neither."""
        self.judge(rule)
        whose = gateway or self._seen.gateway
        site = self._seen.sites.get(whose, self._seen.site)
        if is_wrong:
            self.wrong.append(Sighting(rule, whose, part, site, message, value))
        elif is_wrong is None:
            self.unsure.add((rule, whose, part))

    def counts(self, rule: str, recent: _Recent, total: int, now_s: float) -> None:
        """Judge a number that only grows by what came of late.

        An alert that stands goes on to say how much came in all, also while that is not wrong.
        """
        own = self._seen
        held = self._held.get((rule, own.gateway, ""))
        is_wrong = recent.count(total, now_s, held)
        self.is_wrong(rule, is_wrong, recent.message, value=recent.in_all)
        if held is not None:
            one = Sighting(rule, own.gateway, "", own.site, recent.message, recent.in_all)
            self.counted.append(one)


class _Recent:
    """Counts what came of late, of a number that only grows, and since its alert began.

    Args:
        wrong_from: so many of late are wrong.
        says: what came, with ``{}`` for how much.
        unsure_from: so many are not well yet.
        within_s: what is of late.

    Attributes:
        in_all: so much has come since the alert began.

    """

    def __init__(
        self,
        wrong_from: int,
        says: str,
        *,
        unsure_from: int | None = None,
        within_s: float = COUNTED_S,
    ) -> None:
        self._wrong_from = wrong_from
        self._unsure_from = wrong_from if unsure_from is None else unsure_from
        self._says = says
        self._within_s = within_s
        self._marks: deque[tuple[float, int]] = deque([(float("-inf"), 0)])
        self._is_held = False
        self.in_all = 0

    def count(self, total: int, now_s: float, held: float | None) -> bool | None:
        """Count on; return whether what came of late is wrong, well, or None for neither.

        Args:
            total: what the number is now.
            now_s: when.
            held: what its alert counts so far; None if there is none.

        """
        fresh = max(0, total - self._marks[-1][1])
        if total != self._marks[-1][1]:
            self._marks.append((now_s, total))
        while len(self._marks) > 1 and self._marks[1][0] <= now_s - self._within_s:
            self._marks.popleft()
        of_late = max(0, total - self._marks[0][1])
        self._is_held = held is not None
        self.in_all = of_late if held is None else round(held) + fresh
        return (
            True if of_late >= self._wrong_from else None if of_late >= self._unsure_from else False
        )

    @property
    def message(self) -> str:
        """Return what has come, for a person: of late, or since the alert began."""
        when = "in all" if self._is_held else f"in {self._within_s / 60:.0f} minutes"
        return f"{self._says.format(self.in_all)} {when}"


def _strain(verdict: _Verdict, seen: SeenByGateway) -> None:
    if seen.is_throttled is not None:
        # Of a supply that is too weak its own alert says all.
        is_wrong = None if seen.is_throttled and seen.under_voltage else seen.is_throttled
        verdict.is_wrong(rules.THROTTLED, is_wrong, "its firmware slows the processor down")
    if (used := seen.disk_life_used) is not None:
        message = f"up to {used:.0%} of its card's life time are used"
        verdict.is_wrong(rules.DISK_WORN, used >= thresholds.WORN_SHARE, message, value=used)


def _certificates(verdict: _Verdict, seen: SeenByGateway, later: Collection[AlertSubject]) -> None:
    for rule in (rules.CERTIFICATE_ENDING, rules.CERTIFICATE_ENDED):
        verdict.judge(rule)
        if not seen.is_clock_kept:  # a machine that was started without a clock shows an old time
            verdict.unsure.update(one for one in later if one[0] == rule)
    for one in seen.certificates:
        days = int(one["days_left"])
        part = f"{one['field']} {one['number']}"
        if days < 0:
            message = f"{one['field']}: that of {one['name']!r} has ended"
            verdict.is_wrong(rules.CERTIFICATE_ENDED, True, message, part, days)
        elif days < thresholds.ENDING_DAYS:
            message = f"{one['field']}: that of {one['name']!r} ends in less than {days + 1} days"
            verdict.is_wrong(rules.CERTIFICATE_ENDING, True, message, part, days)


def _neighbours(
    verdict: _Verdict,
    seen: SeenByGateway,
    held: Collection[AlertSubject],
    telling: Collection[str],
) -> None:
    verdict.judge(rules.NO_LINK)
    verdict.judge(rules.NEIGHBOUR_AWAY)
    if not seen.links:  # that says all: of others an alert neither begins nor ends meanwhile
        _cut_off(verdict, seen, held)
        # Whom nobody dials any more, since the configuration has another one, is no neighbour.
        dialled = {str(one["address"]) for one in seen.dialled}
        of_neighbours = (one for one in held if one[0] == rules.NEIGHBOUR_AWAY)
        verdict.unsure.update(one for one in of_neighbours if one[2] in dialled)
        return
    # A start forgets who is at an address until there is a link: the alert goes on by its name.
    named = {part: who for rule, who, part in held if rule == rules.NEIGHBOUR_AWAY}
    told = {*seen.missing, *seen.forgotten}
    for one in seen.dialled:
        if not one["linked"]:
            address, who = str(one["address"]), str(one["id"] or "")
            message = f"no link to {address} ({who or one['source']}): {one['why']}"
            whose = named.get(address, who)
            # Of one that the tree has lost its alert says all, wherever that is raised; of one that
            # will not come back somebody has said all. One that is dialled just now is unknown.
            is_unsure = who in told or whose in told or one["fails_since_s"] is None
            is_wrong = None if is_unsure else True
            verdict.is_wrong(rules.NEIGHBOUR_AWAY, is_wrong, message, address, gateway=whose)
    verdict.judge(rules.GATEWAY_AWAY)
    # Whoever tells of a lost gateway does so until it is back, also when another one is to tell
    # of such by now, and when its record is no more. Who is about to leaves it to one that has.
    missed = {who for rule, who, _ in held if rule == rules.GATEWAY_AWAY}
    still = {who for who in missed if who not in seen.sites or who in seen.missing}
    still.difference_update(seen.forgotten)
    still.difference_update(one for one in seen.told_elsewhere if one not in telling)
    for who in sorted({*seen.away, *still}):
        verdict.is_wrong(rules.GATEWAY_AWAY, True, f"the tree has lost {who}", gateway=who)


def _cut_off(verdict: _Verdict, seen: SeenByGateway, held: Collection[AlertSubject]) -> None:
    others = sorted(set(seen.sites) - {seen.gateway})
    # Who is cut off takes all others out of its records after a while, and is cut off still.
    knows_others = bool(others) or (rules.NO_LINK, seen.gateway, "") in held
    named = ", ".join(others[:_MAX_NAMES]) + (" and more" if len(others) > _MAX_NAMES else "")
    message = "it has no link to any gateway" + (f", and knows {named}" if others else "")
    verdict.is_wrong(rules.NO_LINK, knows_others, message)


def _sensors(verdict: _Verdict, seen: SeenByGateway, held: Collection[AlertSubject]) -> None:
    if seen.sensors is None:
        return
    for rule in (rules.SENSOR_SILENT, rules.SENSOR_STUCK, rules.SENSOR_RANGE):
        verdict.judge(rule)
    verdict.unsure.update(one for one in held if _is_unread(seen.unread_sensors, one))
    for one in seen.sensors:
        verdict.is_wrong(one.rule, one.is_wrong, one.message, one.part, one.value)


def _is_unread(unread: Mapping[str, SensorRules], subject: AlertSubject) -> bool:
    """Return whether a rule still has to hear of the value that an alert is about."""
    rule, _, part = subject
    own = (each for name, each in unread.items() if f"{part}/".startswith(f"{name}/"))
    if rule == rules.SENSOR_STUCK:
        return any(each.judges_stuck(part) for each in own)
    return rule == rules.SENSOR_RANGE and any(each.judges_range(part) for each in own)


def _process(
    verdict: _Verdict, seen: SeenByGateway, held: Collection[AlertSubject], *, is_settled: bool
) -> None:
    verdict.judge(rules.PART_FAILING)
    of_parts = (one for one in held if one[0] == rules.PART_FAILING)
    verdict.unsure.update(one for one in of_parts if not is_settled or one[2] in seen.untried)
    for name, why in sorted(seen.failing.items()):
        verdict.is_wrong(rules.PART_FAILING, True, f"{name} has failed: {why}", name)
    if seen.is_release_known:
        verdict.judge(rules.RELEASE_RETURNED)
        if seen.returned is not None:
            release, why = seen.returned
            message = f"{release} was sent back: {why}"
            verdict.is_wrong(rules.RELEASE_RETURNED, True, message, release)
