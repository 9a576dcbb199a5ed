"""The desk of alerts: each is raised once, kept while it lasts, and cleared once.

What this module states, and no other:

- Something is told of when it was wrong for `RuleTerms.after_s`, and is over when it was well for
  `RuleTerms.clears_after_s`. Who could not look has seen neither.
- Of what is told as raised it is told once that it is over, silenced or not. Of what never was
  told nothing is told at its end either.
- What is silenced or hidden when it would be told is told later, if it lasts that long.
- Something that hides (a lost gateway) hides all that is wrong with the same gateway, and of those
  below that gateway the alerts that hide as well: they are lost with it. Whoever is there and
  below a lost one is told of as ever.
- Durations are counted while somebody looks, with the time that the caller says has passed. The
  wall clock only names times for people, and ends a silence early if it is ahead: it can neither
  raise an alert nor keep one from being told for longer than somebody wanted.

Sans-I/O: it is given what was seen and the time, and returns the records to be told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

import msgspec

from alerts.matcher import AlertMatcher
from alerts.record import AlertRecord, Change
from alerts.state import AlertSilence, AlertState, OpenAlert, TakenOn
from alerts.terms import RuleTerms
from light_dataclasses import dataclass

MAX_ALERTS: Final = 500
"""That stand or are about to; more are counted, and not raised."""
MAX_ALERTS_A_RULE: Final = 100
"""Likewise of one rule, so that none takes the room of the others."""
MAX_CLEARED: Final = 100
MAX_SILENCES: Final = 100
LONGEST_SILENCE_S: Final = 31 * 86_400.0
UNHIDDEN_AFTER_S: Final = 60.0
"""A hidden alert is told when nothing has hidden it for so long: it is over soon as well."""
MAX_DEPTH: Final = 64
"""Of the tree above a gateway; a longer way up is a circle."""
MAX_MESSAGE: Final = 500
"""Characters of a message or note."""
TEST_RULE: Final = "test"
"""Of alerts that only try a way out."""

AlertSubject = tuple[str, str, str]
"""Rule, gateway, and part of it or ``""``."""


class AlertNotFoundError(LookupError):
    """There is no such alert or silence; the message names it."""


class SilenceError(ValueError):
    """A silence that can't be; the message says why."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing that is wrong.

    Attributes:
        rule: by which.
        gateway: with whom.
        part: with which part of it; ``""`` for all of it.
        site: its domain and group, as ``DOMAIN/GROUP``.
        message: for a person.
        value: what was measured; None where nothing was.

    """

    rule: str
    gateway: str
    part: str
    site: str
    message: str
    value: float | None = None

    @property
    def subject(self) -> AlertSubject:
        """Return the subject of the alert: its rule, gateway and part."""
        return self.rule, self.gateway, self.part


@dataclass(frozen=True, slots=True)
class AlertLook:
    """The result of one look at everything that rules judge.

    Attributes:
        judged: rules by which everything was looked at: what is not wrong is well by them.
        wrong: what is wrong.
        unsure: what is neither wrong nor well, such as a value between two thresholds.
        counts: what alerts that count say by now, wrong still or not.
        above: of each gateway, the one above it in the tree; None or no entry for no one.

    """

    judged: Collection[str]
    wrong: Sequence[Sighting]
    unsure: Collection[AlertSubject] = ()
    above: Mapping[str, str | None] = field(default_factory=dict)
    counts: Sequence[Sighting] = ()


@dataclass(frozen=True, slots=True)
class LookTime:
    """The time of one look, by two clocks.

    Attributes:
        wall_us: microseconds since 1970, by a clock that may jump.
        passed_s: since the last look, by one that does not; 0 for the first look of a process.

    """

    wall_us: int
    passed_s: float


class AlertDesk:
    """Keeps the alerts.

    Args:
        state: what is remembered; it is changed in place.
        rules: their terms, by name; what stands of a rule that is not there is over.
        remind_s: what stands and nobody has taken on is told of again so often; 0: never.

    """

    def __init__(
        self, state: AlertState, rules: Mapping[str, RuleTerms], remind_s: float = 0.0
    ) -> None:
        self._state = state
        self._rules = rules
        self._remind_s = remind_s
        self._alerts = {_subject(one.raised): one for one in state.alerts}

    # -- looking ---------------------------------------------------------------------------------

    def look(self, look: AlertLook, now: LookTime) -> list[AlertRecord]:
        """Take what was seen, and return what is to be told, in order.

        Args:
            look: what was seen.
            now: when.

        """
        passed_s = max(0.0, now.passed_s)
        self._age_silences(now.wall_us, passed_s)
        self._begin_no_later_than(now.wall_us)
        above = self._hiding() | dict(look.above) if look.wrong or self._alerts else {}
        for sighting in look.wrong:
            self._see(sighting, above, now.wall_us, passed_s)
        for count in look.counts:
            if (alert := self._alerts.get(count.subject)) is not None:
                _says(alert, count)
        told = list(self._seen_well(look, now.wall_us, passed_s))
        hiding = self._hiding()
        for alert in self._alerts.values():
            told += self._tell(alert, self._is_hidden(alert, hiding, above), now, passed_s)
        self._state.alerts = list(self._alerts.values())
        return told

    def _begin_no_later_than(self, wall_us: int) -> None:
        """Let what began while the clock was ahead begin now: nothing is wrong since tomorrow."""
        for alert in self._alerts.values():
            if alert.raised.since_us > wall_us:
                alert.raised = msgspec.structs.replace(alert.raised, since_us=wall_us)

    def _see(
        self, sighting: Sighting, above: Mapping[str, str | None], wall_us: int, passed_s: float
    ) -> None:
        terms = self._rules.get(sighting.rule)
        if terms is None:
            return
        alert = self._alerts.get(sighting.subject)
        if alert is None:
            if not self._has_room(sighting, terms, above):
                return
            alert = self._begin(sighting, terms, wall_us)
        elif not alert.is_open:
            alert.held_s += passed_s
        alert.well_s = None
        alert.above = above.get(sighting.gateway, alert.above)
        _says(alert, sighting)
        if alert.held_s >= terms.after_s:
            alert.is_open = True

    def _has_room(
        self, sighting: Sighting, terms: RuleTerms, above: Mapping[str, str | None]
    ) -> bool:
        """Return whether one more may be raised; what it would hide makes room for it."""
        of_rule = [one for subject, one in self._alerts.items() if subject[0] == sighting.rule]
        if len(self._alerts) < MAX_ALERTS and len(of_rule) < MAX_ALERTS_A_RULE:
            return True
        if terms.hides:
            hiding = self._hiding()
            if any(at in hiding for at in _way_up(sighting.gateway, above)):
                return False  # nobody would be told of it
            for one in of_rule:
                if not one.is_told and sighting.gateway in _way_up(one.raised.gateway, above):
                    del self._alerts[_subject(one.raised)]
                    return True
        self._state.left_out += 1
        return False

    def _begin(self, sighting: Sighting, terms: RuleTerms, wall_us: int) -> OpenAlert:
        # Its name holds the time, or a later one: no other has it, wherever the clock is set.
        number = self._state.last_us = max(wall_us, self._state.last_us + 1)
        raised = _record(sighting, terms, wall_us, number)
        alert = self._alerts[sighting.subject] = OpenAlert(raised=raised)
        return alert

    def _seen_well(self, look: AlertLook, wall_us: int, passed_s: float) -> Iterator[AlertRecord]:
        wrong = {sighting.subject for sighting in look.wrong}
        for subject, alert in list(self._alerts.items()):
            terms = self._rules.get(subject[0])
            if terms is not None and (
                subject in wrong or subject in look.unsure or subject[0] not in look.judged
            ):
                continue
            alert.well_s = 0.0 if alert.well_s is None else alert.well_s + passed_s
            if terms is None or not alert.is_open or alert.well_s >= terms.clears_after_s:
                yield from self._end(subject, wall_us)

    def _end(self, subject: AlertSubject, wall_us: int) -> Iterator[AlertRecord]:
        alert = self._alerts.pop(subject)
        if not alert.is_open:
            return
        at_us = max(wall_us, alert.raised.since_us)
        cleared = _change(alert.raised, "cleared", at_us)
        self._state.cleared = [*self._state.cleared, cleared][-MAX_CLEARED:]
        if alert.is_told:
            yield cleared

    def _tell(
        self, alert: OpenAlert, is_hidden: bool, now: LookTime, passed_s: float
    ) -> Iterator[AlertRecord]:
        if is_hidden:
            alert.hidden_s = 0.0
        elif alert.hidden_s is not None:
            alert.hidden_s += passed_s
        if not alert.is_open:
            return
        alert.quiet_s += passed_s * alert.is_told
        is_quiet = is_hidden or self.silence_of(alert.raised, now.wall_us) is not None
        if alert.is_told and alert.taken_on is None and not is_quiet:
            alert.untaken_s += passed_s
        if is_quiet or (alert.hidden_s is not None and alert.hidden_s < UNHIDDEN_AFTER_S):
            return
        at_us = now.wall_us
        if not alert.is_told:
            alert.is_told = True
            yield _change(alert.raised, "raised", at_us)
        elif self._remind_s and alert.taken_on is None and alert.quiet_s >= self._remind_s:
            alert.quiet_s = 0.0
            alert.reminders += 1
            yield _change(alert.raised, "reminded", at_us, alert.reminders)

    def _hiding(self) -> dict[str, str | None]:
        """Return which gateways hide others, with the one above each, as was last known."""
        return {one.raised.gateway: one.above for one in self._alerts.values() if self._hides(one)}

    def _hides(self, alert: OpenAlert) -> bool:
        terms = self._rules.get(alert.raised.rule)
        return terms is not None and terms.hides

    def _is_hidden(
        self, alert: OpenAlert, hiding: Collection[str], above: Mapping[str, str | None]
    ) -> bool:
        gateway = alert.raised.gateway
        if not self._hides(alert):
            return gateway in hiding
        return any(at in hiding for at in _way_up(gateway, above))

    # -- what people do --------------------------------------------------------------------------

    def acknowledge(self, alert_id: str, who: str, note: str, wall_us: int) -> OpenAlert:
        """Note that somebody has taken an alert on: it is not reminded of any more.

        Raises:
            AlertNotFoundError: none of that name stands.

        """
        for alert in self._alerts.values():
            if alert.is_open and alert.raised.alert == alert_id:
                alert.taken_on = TakenOn(who, note[:MAX_MESSAGE], wall_us)
                return alert
        raise AlertNotFoundError(f"no alert {alert_id!r} stands")

    def close(self, alert_id: str, wall_us: int) -> list[AlertRecord]:
        """End an alert of which nobody will see the end, and return what is to be told of that.

        What is wrong still is raised anew.

        Args:
            alert_id: its name.
            wall_us: now, microseconds since 1970.

        Raises:
            AlertNotFoundError: none of that name stands.

        """
        for subject, alert in list(self._alerts.items()):
            if alert.is_open and alert.raised.alert == alert_id:
                told = list(self._end(subject, wall_us))
                self._state.alerts = list(self._alerts.values())
                return told
        raise AlertNotFoundError(f"no alert {alert_id!r} stands")

    def silence(
        self,
        matcher: AlertMatcher,
        for_s: float,
        wall_us: int,
        *,
        begins_us: int = 0,
        who: str = "",
        note: str = "",
    ) -> AlertSilence:
        """Let nobody be told of some alerts for a time.

        Args:
            matcher: which.
            for_s: how long.
            wall_us: now, microseconds since 1970.
            begins_us: when; 0 for now.
            who: wants it.
            note: why.

        Raises:
            SilenceError: the time is no time, or there are too many silences.

        """
        if not 0 < for_s <= LONGEST_SILENCE_S:
            raise SilenceError(f"{for_s:g} s is not up to {LONGEST_SILENCE_S / 86_400:g} days")
        if not 0 <= begins_us <= wall_us + round(366 * 86_400e6):
            raise SilenceError("it does not begin within a year")
        if len(self._state.silences) >= MAX_SILENCES:
            raise SilenceError(f"there are {MAX_SILENCES} silences: end one first")
        made = AlertSilence(
            number=self._state.next_silence,
            matcher=matcher,
            begins_us=begins_us,
            ends_us=max(begins_us, wall_us) + round(for_s * 1e6),
            left_s=for_s,
            who=who,
            note=note[:MAX_MESSAGE],
        )
        self._state.next_silence += 1
        self._state.silences = [*self._state.silences, made]
        return made

    def end_silence(self, number: int) -> None:
        """End a silence.

        Raises:
            AlertNotFoundError: there is none of that number.

        """
        left = [one for one in self._state.silences if one.number != number]
        if len(left) == len(self._state.silences):
            raise AlertNotFoundError(f"there is no silence {number}")
        self._state.silences = left

    def _age_silences(self, wall_us: int, passed_s: float) -> None:
        for one in self._state.silences:
            if one.begins_us <= wall_us:
                one.left_s -= passed_s
        kept = [one for one in self._state.silences if one.left_s > 0 and wall_us < one.ends_us]
        self._state.silences = kept

    # -- asking ----------------------------------------------------------------------------------

    def silence_of(self, record: AlertRecord, wall_us: int) -> AlertSilence | None:
        """Return what silences an alert; None if nothing does."""
        for one in self._state.silences:
            if one.begins_us <= wall_us and one.matcher.matches(record):
                return one
        return None

    @property
    def held(self) -> Mapping[AlertSubject, float | None]:
        """Return what alerts stand about, or are about to, and what was measured last."""
        return {subject: one.raised.value for subject, one in self._alerts.items()}

    def later_than(self, wall_us: int) -> set[AlertSubject]:
        """Return what alerts are about that began after a time."""
        return {about for about, one in self._alerts.items() if one.raised.at_us > wall_us}

    @property
    def standing(self) -> list[OpenAlert]:
        """Those that are open, told or not, the worst and then the oldest first."""
        found = [one for one in self._alerts.values() if one.is_open]
        return sorted(found, key=_order)


def trial(
    gateway: str, site: str, wall_us: int, number: int | None = None
) -> tuple[AlertRecord, AlertRecord]:
    """Return an alert that tries a way out, raised and cleared.

    Args:
        gateway: whose.
        site: where it stands.
        wall_us: now, microseconds since 1970.
        number: that its name ends in, which no other has; the time if it is not given.

    """
    message = "this alert only tries the way on which alerts leave"
    sighting = Sighting(TEST_RULE, gateway, "", site, message)
    terms = RuleTerms(severity="warning", after_s=0, clears_after_s=0, what_to_do="nothing")
    raised = _record(sighting, terms, wall_us, wall_us if number is None else number)
    return raised, _change(raised, "cleared", wall_us)


def _way_up(gateway: str, above: Mapping[str, str | None]) -> Iterator[str]:
    """Give the gateways above one, the nearest first."""
    at = above.get(gateway)
    for _ in range(MAX_DEPTH):
        if at is None or at == gateway:
            return
        yield at
        at = above.get(at)


def _says(alert: OpenAlert, sighting: Sighting) -> None:
    message = sighting.message[:MAX_MESSAGE]
    alert.raised = msgspec.structs.replace(alert.raised, message=message, value=sighting.value)


def _subject(record: AlertRecord) -> AlertSubject:
    return record.rule, record.gateway, record.part


def _record(sighting: Sighting, terms: RuleTerms, since_us: int, number: int) -> AlertRecord:
    about = f"{sighting.gateway}/{sighting.part}" if sighting.part else sighting.gateway
    return AlertRecord(
        alert=f"{sighting.rule}:{about}:{number}",
        change="raised",
        rule=sighting.rule,
        gateway=sighting.gateway,
        part=sighting.part,
        site=sighting.site,
        severity=terms.severity,
        since_us=since_us,
        at_us=since_us,
        message=sighting.message[:MAX_MESSAGE],
        value=sighting.value,
        what_to_do=terms.what_to_do,
    )


def _change(raised: AlertRecord, change: Change, at_us: int, number: int = 0) -> AlertRecord:
    return msgspec.structs.replace(raised, change=change, at_us=at_us, number=number)


def _order(alert: OpenAlert) -> tuple[bool, int]:
    return alert.raised.severity != "critical", alert.raised.since_us
