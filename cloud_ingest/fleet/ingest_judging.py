"""Judgement of the job itself and of its collectors. Pure.

No clock is held against another one here. That a collector lives is seen by what changes in its
spool; that the job is behind, by a place in the spool that it has not reached in time. Times are
those of the job's clock as the watch takes it (`WatchClock`), microseconds. Where that is set
between two looks, no time has passed: a clock that nobody sets says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cloud_ingest.evidence.facts import UNTIMED_US, Activity
from cloud_ingest.evidence.signs import CollectorSign, IngestSigns
from cloud_ingest.fleet.flapping import DampedAlerts
from cloud_ingest.fleet.kinds import INGEST, AlertKind
from cloud_ingest.fleet.rules import AlertRules

MAX_BEGUN: Final = 32
"""Times that the query was begun again that are remembered."""
MAX_COLLECTORS: Final = 256
"""Spools that are looked at."""
MAX_REFUSALS: Final = 32
"""Kinds of refusals of one collector that are told apart."""
_KILLED: Final = "the job was killed, or ended with an error"
_WHY_MAX: Final = 200
_SLOT_US: Final = 60_000_000
_LEAST_LEAP_US: Final = 1_000_000
"""By less, clocks are only corrected."""


class CollectorState(msgspec.Struct, array_like=True):
    """One collector.

    Attributes:
        changed_us: when its status last changed.
        status_us: what the status said then.
        refusals: what its disk had refused, by what it was.
        refused_us: when that last grew; None if it never did.
        goal: a place in its spool that is to come into the tables; None where there is none.
        goal_us: when the spool had come so far.

    """

    changed_us: int
    status_us: int | None
    refusals: dict[str, int]
    refused_us: int | None = None
    goal: int | None = None
    goal_us: int = 0


class IngestState(msgspec.Struct):
    """The kept state of the job and its collectors.

    Attributes:
        collectors: by the folder of the spool.
        begun_us: when the query was begun again, or the job after it had been killed.
        why: the reason of the last time.
        runs: the job has begun, and has not said that it ends.
        slots: messages, and those of them that went to quarantine, by slot.
        looked_us: when the job last looked at its collectors; None if it never did.
        steady_us: what the clock that nobody sets said then (`IngestSigns`).

    """

    collectors: dict[str, CollectorState] = {}
    begun_us: list[int] = []
    why: str = ""
    runs: bool = False
    slots: dict[int, tuple[int, int]] = {}
    looked_us: int | None = None
    steady_us: int | None = None


class IngestJudge:
    """Holds what the job sees of itself and of its collectors against the rules.

    Args:
        rules: of the fleet.
        alerts: are raised and cleared.
        known: what is remembered.

    """

    def __init__(self, rules: AlertRules, alerts: DampedAlerts, known: IngestState) -> None:
        self._rules = rules.ingest
        self._flapping = rules.of(INGEST, None).flapping
        self._alerts = alerts
        self._known = known

    def took(self, activity: Iterable[Activity], progress_us: int | None, now_us: int) -> None:
        """Count what a micro-batch had that is new.

        What was collected long before is read again, since a part of the tables was set back: it
        has been judged. So has what stood in quarantine before, which nobody says the time of.

        Args:
            activity: of the micro-batch, in the watch's time.
            progress_us: how far the watch was before it; None if it had not begun.
            now_us: the job's clock.

        """
        window_us = round(self._rules.quarantine_growing.window_s * 1e6)
        since_us = UNTIMED_US if progress_us is None else progress_us - window_us
        slots, slot = self._known.slots, now_us // _SLOT_US
        messages, refused = slots.get(slot, (0, 0))
        for one in activity:
            if one.collected_us != UNTIMED_US and one.collected_us >= since_us:
                messages, refused = messages + one.messages, refused + one.undecodable
        slots[slot] = messages, refused
        oldest = (now_us - window_us) // _SLOT_US
        self._known.slots = {at: counts for at, counts in slots.items() if oldest < at <= slot}

    def see(self, signs: IngestSigns, now_us: int) -> None:
        """Take what the job sees."""
        known = self._known
        reasons = list(signs.begun_again)
        if signs.has_started:
            if known.runs:
                reasons.insert(0, _KILLED)
            known.runs = True
        if reasons:
            known.begun_us = [*known.begun_us, *[now_us] * len(reasons)][-MAX_BEGUN:]
            known.why = reasons[-1][:_WHY_MAX]
        self._note_leap(signs, now_us)
        present = {one.spool: one for one in signs.collectors[:MAX_COLLECTORS]}
        for gone in known.collectors.keys() - present.keys():  # this job reads it no longer
            del known.collectors[gone]
            self._alerts.forget_about(INGEST, [gone], now_us)
        for sign in present.values():
            self._collector(sign, now_us)

    def _note_leap(self, signs: IngestSigns, now_us: int) -> None:
        """Move what is noted of collectors along with the job's clock, if that was set."""
        known = self._known
        looked_us, known.looked_us = known.looked_us, now_us
        steady_us, known.steady_us = known.steady_us, signs.steady_us
        if looked_us is None or steady_us is None or signs.steady_us is None or signs.has_started:
            return
        leap_us = now_us - looked_us - (signs.steady_us - steady_us)
        if abs(leap_us) < _LEAST_LEAP_US:
            return
        for one in known.collectors.values():
            one.changed_us += leap_us
            one.goal_us += leap_us
            if one.refused_us is not None:
                one.refused_us += leap_us

    def ended(self) -> None:
        """The job ends because it was asked to, or is done."""
        self._known.runs = False

    def time_passed(self, now_us: int) -> None:
        """Look at it all again."""
        self._failing(now_us)
        self._quarantine(now_us)

    def _collector(self, sign: CollectorSign, now_us: int) -> None:
        refusals = dict(sorted(sign.refusals.items())[:MAX_REFUSALS])
        one = self._known.collectors.get(sign.spool)
        if one is None:
            one = CollectorState(now_us, sign.status_us, refusals)
            self._known.collectors[sign.spool] = one
        if sign.status_us != one.status_us:
            one.status_us, one.changed_us = sign.status_us, now_us
        self._silent(sign.spool, one, now_us)
        self._disk(sign.spool, one, refusals, now_us)
        self._behind(sign, one, now_us)

    def _silent(self, spool: str, one: CollectorState, now_us: int) -> None:
        rule = self._rules.collector_silent
        after_us = round(rule.after_s * 1e6)
        # A spool without a status is a copy, or its collector has not begun: nobody is silent.
        is_wrong = one.status_us is not None and now_us - one.changed_us > after_us
        at_us = one.changed_us + after_us if is_wrong else one.changed_us
        message = f"the collector of {spool} has not written its status.json for {rule.after_s:g} s"
        self._judge("collector-silent", spool, rule.on and is_wrong, at_us, message)

    def _disk(
        self, spool: str, one: CollectorState, refusals: Mapping[str, int], now_us: int
    ) -> None:
        rule = self._rules.collector_disk
        grown = [name for name, count in refusals.items() if count > one.refusals.get(name, 0)]
        if grown:
            one.refused_us = now_us
        one.refusals = dict(refusals)
        if one.refused_us is None:
            return
        is_wrong = rule.on and now_us - one.refused_us <= rule.clears_s * 1e6
        message = f"the disk of the collector of {spool} refuses: {', '.join(grown[:3])}"
        value = float(sum(refusals.values()))
        self._judge("collector-disk", spool, is_wrong, now_us, message, value)

    def _behind(self, sign: CollectorSign, one: CollectorState, now_us: int) -> None:
        rule = self._rules.behind
        is_wrong: bool | None = None
        late_us = 0 if one.goal is None else now_us - one.goal_us
        if sign.marked <= sign.committed:
            one.goal, is_wrong = None, False
        elif one.goal is None or sign.committed >= one.goal or one.goal > sign.marked:
            if one.goal is not None and late_us < rule.clears_s * 1e6:
                is_wrong = False
            one.goal, one.goal_us = sign.marked, now_us
        elif late_us >= rule.opens_s * 1e6:
            is_wrong = True
        message = (
            f"what stood in {sign.spool} {late_us / 1e6:.0f} s ago is not in the tables; "
            f"{sign.marked - sign.committed} bytes wait"
        )
        is_wrong = is_wrong if rule.on else False
        self._judge("ingest-behind", sign.spool, is_wrong, now_us, message, late_us / 1e6)

    def _failing(self, now_us: int) -> None:
        rule, known = self._rules.failing, self._known
        window_us = round(rule.window_s * 1e6)
        known.begun_us = [each for each in known.begun_us if each > now_us - window_us]
        count = len(known.begun_us)
        is_wrong = True if count >= rule.times else None if count else False
        message = f"begun again {count} times in {rule.window_s:g} s, at last since: {known.why}"
        is_wrong = is_wrong if rule.on else False
        self._judge("ingest-failing", "", is_wrong, now_us, message, float(count))

    def _quarantine(self, now_us: int) -> None:
        rule = self._rules.quarantine_growing
        oldest = (now_us - round(rule.window_s * 1e6)) // _SLOT_US
        slots = [counts for at, counts in self._known.slots.items() if at > oldest]
        messages, refused = (sum(each) for each in zip(*slots, strict=True)) if slots else (0, 0)
        share = refused / messages if messages else 0.0
        is_wrong: bool | None = None
        if share >= rule.share and refused >= rule.least:
            is_wrong = True
        elif messages and share < rule.share / 2:  # where nothing came nothing is known
            is_wrong = False
        message = f"{refused} of {messages} messages in {rule.window_s:g} s went to quarantine"
        is_wrong = is_wrong if rule.on else False
        self._judge("quarantine-growing", "", is_wrong, now_us, message, float(refused))

    def _judge(
        self,
        kind: AlertKind,
        spool: str,
        is_wrong: bool | None,
        at_us: int,
        message: str,
        value: float | None = None,
    ) -> None:
        about = kind, INGEST, spool
        self._alerts.judge(about, is_wrong, at_us, message, value, rule=self._flapping)
