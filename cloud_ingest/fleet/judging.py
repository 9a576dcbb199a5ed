"""Judgement of a gateway: from a status record, and as time passes.

Times are microseconds of the collector's clock; a gateway's own clock is only ever a thing to be
judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from cloud_ingest.evidence.facts import Statement
from cloud_ingest.fleet.clock import WatchClock
from cloud_ingest.fleet.flapping import FLAPPING, DampedAlerts
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.health import DRAINING, silence_limit_us
from cloud_ingest.fleet.kinds import AlertKind
from cloud_ingest.fleet.listening import Listening
from cloud_ingest.fleet.lives import RecordPosition
from cloud_ingest.fleet.rules import AlertRules, Thresholds
from record_formats.status_record import StatusRecord

MAX_ELECTIONS: Final = 32
"""Of one gateway that are remembered."""
_BACKUP_WRONG: Final = frozenset(("overdue", "trial failed"))
_PAUSES: Final = 3
"""A stretch in which nobody was heard counts as this part of what makes a gateway silent."""


class Judge:
    """Holds what gateways say, and do not say, against the rules.

    Args:
        rules: of the fleet.
        alerts: are raised and cleared.
        listening: when the collector was there.
        clock: what is known of its clock.

    """

    def __init__(
        self, rules: AlertRules, alerts: DampedAlerts, listening: Listening, clock: WatchClock
    ) -> None:
        self._rules = rules
        self._alerts = alerts
        self._listening = listening
        self._clock = clock

    # -- a status record -------------------------------------------------------------------------

    def heard(self, gateway: GatewayState, at_us: int) -> None:
        """Something of a gateway has come, perhaps after a silence that nobody looked at."""
        self._look_for_silence(gateway, at_us)

    def status(
        self, gateway: GatewayState, said: Statement, record: StatusRecord, heard: RecordPosition
    ) -> None:
        """A gateway's newest record.

        Args:
            gateway: as it was before this record.
            said: the record's stamp.
            record: what it says.
            heard: whether it came when it was sent, and begins a life.

        """
        rules, at_us = self._rules.of(gateway.gateway, gateway.domain), said.collected_us
        self._temperature(gateway, rules, record, at_us)
        self._supply(gateway, rules, record, at_us)
        self._disk(gateway, rules, record, at_us)
        self._backup(gateway, record, at_us)
        if heard.is_live:
            if self._clock.is_vouched_for:
                self._clock_off(gateway, rules, said)
            self._judge("silent", gateway, False, at_us, "")
        self._elections(gateway, record, said.collected_us, begins=heard.begins)

    def _temperature(
        self, gateway: GatewayState, rules: Thresholds, record: StatusRecord, at_us: int
    ) -> None:
        value, hot = record.temperature_cel, rules.hot
        if value is not None:
            is_wrong = _between(value, hot.clears_cel, hot.opens_cel)
            message = f"its processor has {value:.1f} degrees Celsius"
            self._judge("hot", gateway, is_wrong, at_us, message, value)

    def _supply(
        self, gateway: GatewayState, rules: Thresholds, record: StatusRecord, at_us: int
    ) -> None:
        rule = rules.under_voltage
        if record.under_voltage is not None:  # else it could not look
            gateway.powered = 0 if record.under_voltage else min(gateway.powered + 1, 1_000)
        is_wrong: bool | None = None
        if record.under_voltage:
            is_wrong = True
        elif gateway.powered >= rule.clears_records:
            is_wrong = False
        self._judge("under-voltage", gateway, is_wrong, at_us, "its supply is too weak")

    def _disk(
        self, gateway: GatewayState, rules: Thresholds, record: StatusRecord, at_us: int
    ) -> None:
        full, wearing = rules.disk_full, rules.disk_wearing
        if record.disk_free_bytes is not None and record.disk_total_bytes:
            free = record.disk_free_bytes / record.disk_total_bytes
            is_wrong = _between(-free, -full.clears_free, -full.opens_free)
            message = f"{free:.1%} of its disk is free"
            self._judge("disk-full", gateway, is_wrong, at_us, message, free)
        if record.disk_written_bytes is not None:
            window_us = round(wearing.window_s * 1e6)
            pace = gateway.wear.look(record.disk_written_bytes, at_us, window_us)
            if pace is not None:
                limits = wearing.clears_bytes_per_day, wearing.opens_bytes_per_day
                is_wrong = _between(pace, *limits)
                message = f"{pace / 1e9:.1f} GB are written to its disk in a day at this pace"
                self._judge("disk-wearing", gateway, is_wrong, at_us, message, pace)

    def _backup(self, gateway: GatewayState, record: StatusRecord, at_us: int) -> None:
        is_wrong: bool | None = record.backup in _BACKUP_WRONG
        if not record.backup:  # it could not look, or is of an earlier release
            is_wrong = None
        message = f"its backup: {record.backup}"
        if record.backup_why:
            message = f"{message}, {record.backup_why}"
        age_s = record.backup_age_s
        self._judge("backup-overdue", gateway, is_wrong, at_us, message, age_s)

    def _clock_off(self, gateway: GatewayState, rules: Thresholds, said: Statement) -> None:
        rule = rules.clock_off
        beyond = said.origin_us is None
        ahead_s = 1e12 if said.origin_us is None else (said.origin_us - said.collected_us) / 1e6
        gateway.offsets_s = [*gateway.offsets_s, ahead_s][-rule.records :]
        is_wrong: bool | None = None
        if len(gateway.offsets_s) == rule.records:
            off_s = [abs(each) for each in gateway.offsets_s]
            if min(off_s) > rule.opens_s:
                is_wrong = True
            elif max(off_s) < rule.clears_s:
                is_wrong = False
        way = "ahead" if ahead_s > 0 else "behind, or what it says takes so long"
        message = (
            "its clock is beyond the calendar"
            if beyond
            else (f"its clock is {abs(ahead_s):.0f} s {way}")
        )
        value = None if beyond else ahead_s
        self._judge("clock-off", gateway, is_wrong, said.collected_us, message, value)

    def _elections(
        self, gateway: GatewayState, record: StatusRecord, at_us: int, *, begins: bool
    ) -> None:
        before = gateway.status
        if before is None:
            return
        if begins:  # at its start a gateway is its own root for a moment: that alone is no election
            times = record.elections + (before.root == gateway.gateway == record.root)
        else:
            times = record.elections - before.elections
        if times > 0:
            fresh = [at_us] * min(times, MAX_ELECTIONS)
            gateway.elections_us = [*gateway.elections_us, *fresh][-MAX_ELECTIONS:]

    # -- as time passes --------------------------------------------------------------------------

    def time_passed(self, gateway: GatewayState, now_us: int) -> None:
        """Look at a gateway again, whether it said something or not.

        Args:
            gateway: it.
            now_us: how far the collector is.

        """
        self._look_for_silence(gateway, now_us)
        rules = self._rules.of(gateway.gateway, gateway.domain)
        self._missing(gateway, rules, now_us)
        self._flapping(gateway, rules, now_us)
        self._two_lives(gateway, rules, now_us)
        self._given_up(gateway, rules, now_us)
        self._unwatched(gateway, rules, now_us)

    def clear_what_is_off(self, gateways: Iterable[GatewayState], now_us: int) -> None:
        """Clear alerts whose rules are off, of gateways that say nothing about it any more, too.

        Args:
            gateways: all that are known.
            now_us: how far the collector is.

        """
        subjects = self._alerts.subjects()
        known = {each.gateway: each.domain for each in gateways} if subjects else {}
        for kind, name, sensor in subjects:
            if name not in known or kind == FLAPPING:  # which ends by its own rule
                continue
            rules = self._rules.of(name, known[name], sensor or None)
            if not rules.are_for(kind):
                about = cast(AlertKind, kind), name, sensor  # it was raised as one
                self._alerts.judge(about, False, now_us, "", rule=rules.flapping)

    def _look_for_silence(self, gateway: GatewayState, now_us: int) -> None:
        record = gateway.status
        if record is None or self._alerts.is_open("silent", gateway.gateway):
            return
        rule = self._rules.of(gateway.gateway, gateway.domain).silent
        limit_us = silence_limit_us(gateway, rule)
        if (
            limit_us is None
            or not rule.on  # nobody looks for it, at each gateway that is away
            or now_us - gateway.last_us <= limit_us
            or DRAINING in record.roles
        ):
            return
        pause_us = limit_us // _PAUSES
        if self._listening.listened_us(gateway.last_us, now_us, pause_us) > limit_us:
            message = f"nothing was heard of it, though it speaks every {record.interval_s:g} s"
            since_us = gateway.last_us + limit_us
            self._judge("silent", gateway, True, now_us, message, since_us=since_us)

    def _missing(self, gateway: GatewayState, rules: Thresholds, now_us: int) -> None:
        rule = rules.gap
        # What was lost for good has had its alert: it is not the reason of another one.
        oldest_us = now_us - round(rule.forgets_s * 1e6)
        holes = [
            hole
            for life in gateway.lives.values()
            for hole in life.numbering.holes
            if hole.found_us >= oldest_us
        ]
        if not holes:
            self._judge("gap", gateway, False, now_us, "")
            return
        since_us = min(hole.found_us for hole in holes) + round(rule.after_s * 1e6)
        count = sum(hole.count for hole in holes)
        message = f"{count} of its messages are missing"
        is_wrong = True if since_us <= now_us else None
        self._judge("gap", gateway, is_wrong, now_us, message, float(count), since_us=since_us)

    def _flapping(self, gateway: GatewayState, rules: Thresholds, now_us: int) -> None:
        rule = rules.flapping_root
        if not gateway.elections_us:
            return
        gateway.elections_us = _within(gateway.elections_us, rule.window_s, now_us)
        count = len(gateway.elections_us)
        is_wrong = _between(count, 2, rule.elections)
        message = f"it became root {count} times in {rule.window_s:g} s"
        since_us = gateway.elections_us[-1] if is_wrong else None
        value = float(count)
        self._judge("flapping-root", gateway, is_wrong, now_us, message, value, since_us=since_us)

    def _two_lives(self, gateway: GatewayState, rules: Thresholds, now_us: int) -> None:
        rule = rules.two_lives
        if not gateway.returns_us:
            return
        gateway.returns_us = _within(gateway.returns_us, rule.clears_s, now_us)
        count = len(gateway.returns_us)
        is_wrong = True if count >= rule.returns else None if count else False
        message = "two gateways run under its id in turns: a copied card?"
        since_us = gateway.returns_us[-1] if is_wrong else None
        self._judge("two-lives", gateway, is_wrong, now_us, message, since_us=since_us)

    def _given_up(self, gateway: GatewayState, rules: Thresholds, now_us: int) -> None:
        rule, at_us = rules.given_up, gateway.given_up_us
        if at_us is None:
            return
        is_wrong = now_us - at_us <= rule.clears_s * 1e6
        message = (
            "it leaves more gaps in its numbers, or begins more lives, than are looked after: "
            f"{gateway.given_up} missing messages are looked for no longer"
        )
        self._judge("given-up", gateway, is_wrong, at_us, message, float(gateway.given_up))

    def _unwatched(self, gateway: GatewayState, rules: Thresholds, now_us: int) -> None:
        rule, at_us = rules.sensors_unwatched, gateway.unwatched_us
        if at_us is None:
            return
        is_wrong = now_us - at_us <= rule.clears_s * 1e6
        count = len(gateway.sensors)
        message = f"more of its sensors have a rule than the {count} that are watched"
        self._judge("sensors-unwatched", gateway, is_wrong, at_us, message, float(count))

    def _judge(
        self,
        kind: AlertKind,
        gateway: GatewayState,
        is_wrong: bool | None,
        at_us: int,
        message: str,
        value: float | None = None,
        *,
        since_us: int | None = None,
    ) -> None:
        """Raise, clear or leave an alert; one whose rule is off is cleared.

        Args:
            kind: of the alert.
            gateway: which it is about.
            is_wrong: whether it is to be open; None: as it is.
            at_us: now, when it is cleared.
            message: for a person, if it is raised.
            value: what was measured, likewise.
            since_us: since when it is wrong; now if not given.

        """
        rules = self._rules.of(gateway.gateway, gateway.domain)
        about = kind, gateway.gateway, ""
        found = is_wrong if rules.are_for(kind) else False
        when_us = since_us if found and since_us is not None else at_us
        self._alerts.judge(about, found, when_us, message, value, rule=rules.flapping)


def _within(times_us: list[int], span_s: float, now_us: int) -> list[int]:
    return [each for each in times_us if each > now_us - span_s * 1e6]


def _between(value: float, clears: float, opens: float) -> bool | None:
    """Return whether something is wrong; None where it neither begins nor ends."""
    if value >= opens:
        return True
    return False if value < clears else None
