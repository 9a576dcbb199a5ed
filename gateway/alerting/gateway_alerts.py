"""All that a gateway knows of alerts, without I/O: what is wrong, who was told, what people said.

It ties the judge, the desk and what waits for each way out together over one state, so that who
keeps it (`state.encode`) keeps all of it at one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from alerts.desk import TEST_RULE, AlertDesk, AlertNotFoundError, AlertSubject, LookTime, trial
from alerts.holding import FREE, LocalTime, RecordHold, holding_of
from alerts.matcher import AlertMatcher
from alerts.outgoing import WayQueue, parted
from alerts.record import AlertRecord
from alerts.state import AlertSilence, AlertState, OpenAlert
from alerts.terms import ways_of
from gateway.alerting.figures import AlertFigures
from gateway.alerting.judging import GatewayJudge, SeenByGateway
from gateway.alerting.plan import AlertPlan
from gateway.alerting.rules import GATEWAY_AWAY

if TYPE_CHECKING:
    from alerts.ack_link import AckLinks

KEPT_EACH_S: Final = 60.0
"""The interval at which untaken times and counts are kept: a kill delays an escalation by this, and
takes what came within it from what an alert counts."""
RENEWED_EACH_S: Final = 60.0
"""The interval at which a receiver that forgets is told anew what stands."""
MAX_TOLD: Final = 20
"""Alerts in the message on the gateway's topic."""
_LONGEST_STEP_S: Final = 60.0
"""A machine that slept, or a loop that was kept, saw nothing meanwhile."""


class GatewayAlerts:
    """The alerts of one gateway.

    Args:
        plan: what it goes by.
        state: what is remembered; it is changed in place.
        steady_s: now, by a clock that nobody sets.

    Attributes:
        state: likewise.
        told: what the last look had to tell.
        has_unkept: whether untaken times or counts are to be kept before long.

    """

    def __init__(self, plan: AlertPlan, state: AlertState, steady_s: float) -> None:
        self.state = state
        self.told: list[AlertRecord] = []
        self._plan = plan
        self._judge = GatewayJudge(plan.limits, state.still_lost)
        self._desk = AlertDesk(state, plan.terms, plan.remind_s)
        kept, gone = parted(state.ways, plan.ways)
        state.ways = kept | gone  # what is gone is told of until the next start
        self._routes = plan.routes
        self._queues = {
            way: WayQueue(one, plan.gather_s, partial(self._holding, way))
            for way, one in kept.items()
        }
        self._escalates = any(one.after_s > 0 for one in plan.routes)
        self.has_unkept = False
        self._unkept_s = 0.0
        self._unrenewed_s = 0.0
        self._counts: dict[AlertSubject, float | None] = {}
        self._untaken_s: dict[str, float] = {}
        """The time that nobody has taken on what was told, by alert."""
        self._seen: SeenByGateway | None = None
        self._steady_s = steady_s
        self._now = LocalTime(0)

    # -- as time passes --------------------------------------------------------------------------

    def look(self, seen: SeenByGateway, wall_us: int, steady_s: float, offset_s: int = 0) -> bool:
        """Take what was seen; return whether there is something to be kept.

        Args:
            seen: it.
            wall_us: now, microseconds since 1970, by a clock that may jump.
            steady_s: now, by one that does not.
            offset_s: local time less UTC.

        """
        self._seen = seen
        longest_s = max(_LONGEST_STEP_S, 3 * self._plan.look_s)
        passed_s = min(max(0.0, steady_s - self._steady_s), longest_s)
        self._steady_s, self._now = steady_s, LocalTime(wall_us, offset_s)
        before = (len(self.state.cleared), len(self.state.silences), self.state.last_us)
        dropped = [queue.pass_time(passed_s) for queue in self._queues.values()]
        held, later = self._desk.held, self._desk.later_than(wall_us)
        look = self._judge.look(seen, steady_s, held, self.telling, later)
        self.told = told = self._desk.look(look, LookTime(wall_us, passed_s))
        self._send(told)
        is_escalated = self._escalates and self._escalate()
        counts = {one.subject: one.value for one in look.counts}
        self.has_unkept = self.has_unkept or counts != self._counts
        self._counts = counts
        self._unkept_s += passed_s
        self._unrenewed_s += passed_s
        self.state.still_lost = seen.still_lost
        after = (len(self.state.cleared), len(self.state.silences), self.state.last_us)
        is_due = self.has_unkept and self._unkept_s >= KEPT_EACH_S
        if told or any(dropped) or is_escalated or is_due or before != after:
            self._unkept_s, self.has_unkept = 0.0, False
            return True
        return False

    @property
    def telling(self) -> frozenset[str]:
        """The lost gateways of which this one has told, and whose end it is to tell."""
        return frozenset(
            one.raised.gateway
            for one in self._desk.standing
            if one.is_told and one.raised.rule == GATEWAY_AWAY
        )

    def due(self) -> list[tuple[str, tuple[AlertRecord, ...]]]:
        """Return what each way out is to be handed now; ways that get nothing are left out."""
        found = ((way, queue.due()) for way, queue in self._queues.items())
        return [(way, records) for way, records in found if records]

    def renewals(self) -> list[tuple[str, tuple[AlertRecord, ...]]]:
        """Return what stands and is to be told anew, by ways whose receivers forget.

        It waits in no queue: what is not taken comes again with the next ones. An alert of which
        something waits in one, as in quiet hours, is left to that.
        """
        if self._unrenewed_s < RENEWED_EACH_S:
            return []
        self._unrenewed_s = 0.0
        ways = [way for way in self._plan.renewed if not self._queues[way].is_left_alone]
        found = ((way, tuple(self._standing_by(way))) for way in ways)
        return [(way, records) for way, records in found if records]

    def _standing_by(self, way: str) -> Iterator[AlertRecord]:
        waiting = {one.record.alert for one in self.state.ways[way].waiting}
        for one in self._desk.standing:
            alert = one.raised.alert
            if alert not in waiting and way in self.state.sent.get(alert, ()):
                yield msgspec.structs.replace(one.raised, at_us=self._now.wall_us)

    def taken(self, way: str, records: Iterable[AlertRecord]) -> bool:
        """Note that a way out has taken records; return whether that is to be kept."""
        before = len(self.state.ways[way].waiting)
        self._queues[way].taken(records)
        return len(self.state.ways[way].waiting) < before

    def failed(self, way: str, why: str) -> None:
        """Note that a way out did not take what it was given."""
        self._queues[way].failed(why)

    def refused(self, way: str, records: Iterable[AlertRecord], why: str) -> None:
        """Note that a way out will never take records."""
        self._queues[way].refused(records, why)

    # -- what people do --------------------------------------------------------------------------

    def acknowledge(self, alert_id: str, who: str, note: str) -> OpenAlert:
        """Acknowledge an open alert: see `AlertDesk.acknowledge`."""
        return self._desk.acknowledge(alert_id, who, note, self._now.wall_us)

    def of_link(self, links: AckLinks, token: str) -> OpenAlert:
        """Return the alert that a link is of.

        Raises:
            AckLinkError: the link is none of this gateway's, or too old.
            AlertNotFoundError: its alert does not stand any more.

        """
        mark = links.mark(token, self._now.wall_us)
        for alert in self._desk.standing:
            if links.is_of(mark, alert.raised.alert):
                return alert
        raise AlertNotFoundError("the alert of this link is over")

    def close(self, alert_id: str) -> None:
        """Close an alert as `AlertDesk.close` does, and tell its end by the ways out."""
        self._send(self._desk.close(alert_id, self._now.wall_us))

    def silence(
        self, matcher: AlertMatcher, for_s: float, begins_us: int, who: str, note: str
    ) -> AlertSilence:
        """Silence what a matcher takes: see `AlertDesk.silence`."""
        return self._desk.silence(
            matcher, for_s, self._now.wall_us, begins_us=begins_us, who=who, note=note
        )

    def end_silence(self, number: int) -> None:
        """End a silence: see `AlertDesk.end_silence`."""
        self._desk.end_silence(number)

    def test(self, gateway: str, site: str, ways: Sequence[str]) -> list[str]:
        """Send a trial alert, and its end, on ways out; return their names.

        Args:
            gateway: whose.
            site: where it stands.
            ways: on which; none for all.

        """
        wall_us = self._now.wall_us
        self.state.last_us = number = max(wall_us, self.state.last_us + 1)
        meant = [way for way in self._queues if not ways or way in ways]
        for way in meant:
            self._queues[way].add(trial(gateway, site, wall_us, number))
        return meant

    # -- what is told of them --------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Return what ``/status`` says of them."""
        standing = self._desk.standing
        return {
            "standing": len(standing),
            "critical": sum(one.raised.severity == "critical" for one in standing),
            "ways": self._ways(),
            "left_out": self.state.left_out,
        }

    def figures(self) -> AlertFigures:
        """Return what ``/metrics`` tells of alerts: each rule is there, with 0 where none
        stands."""
        rules = self._plan.terms.items()
        standing: dict[tuple[str, str], int] = {(rule, one.severity): 0 for rule, one in rules}
        for one in self._desk.standing:
            if one.is_told:
                about = one.raised.rule, one.raised.severity
                standing[about] = standing.get(about, 0) + 1
        return AlertFigures(self._seen, standing, self.state.ways)

    def document(self) -> dict[str, Any]:
        """Return all of them, ready for JSON."""
        return {
            "alerts": [self._alert(one) for one in self._desk.standing],
            "cleared": [msgspec.to_builtins(one) for one in reversed(self.state.cleared)],
            "silences": [_silence(one) for one in self.state.silences],
            "ways": self._ways(),
            "rules": {
                name: {
                    "severity": terms.severity,
                    "after_s": terms.after_s,
                    "clears_after_s": terms.clears_after_s,
                    "what_to_do": terms.what_to_do,
                }
                for name, terms in self._plan.terms.items()
            },
            "left_out": self.state.left_out,
        }

    def problem(self) -> dict[str, Any]:
        """Return what is wrong, for a message that is retained."""
        told = [one.raised for one in self._desk.standing if one.is_told]
        return {
            "problem": "ON" if told else "OFF",
            "count": len(told),
            "alerts": [
                {
                    "alert": one.alert,
                    "rule": one.rule,
                    "gateway": one.gateway,
                    "part": one.part,
                    "severity": one.severity,
                    "since_us": one.since_us,
                    "what_to_do": one.what_to_do,
                }
                for one in told[:MAX_TOLD]
            ],
        }

    def _send(self, records: Sequence[AlertRecord]) -> None:
        for record in records:
            ways = ways_of(record, self._routes, list(self._queues))
            if record.change == "raised":
                self.state.sent[record.alert] = ways
            else:  # who was told of it is told of the rest, by whichever route
                ways = self.state.sent.get(record.alert, ways)
            if record.change == "cleared":
                self.state.sent.pop(record.alert, None)
            for way in ways:
                if way in self._queues:
                    self._queues[way].add([record])

    def _escalate(self) -> bool:
        """Tell further ways of what nobody takes on; return whether any was told."""
        told = False
        self._untaken_s.clear()
        for alert in self._desk.standing:
            sent = self.state.sent.get(alert.raised.alert)
            if sent is None or not alert.untaken_s or alert.taken_on is not None:
                continue
            self._untaken_s[alert.raised.alert] = alert.untaken_s
            self.has_unkept = self.has_unkept or self._may_escalate(alert)
            for way in ways_of(alert.raised, self._routes, list(self._queues), alert.untaken_s):
                if way not in sent:
                    sent.append(way)
                    self._queues[way].add([alert.raised])
                    told = True
        return told

    def _may_escalate(self, alert: OpenAlert) -> bool:
        return any(
            one.after_s > alert.untaken_s and one.matcher.matches(alert.raised)
            for one in self._routes
        )

    def _holding(self, way: str, record: AlertRecord) -> RecordHold:
        if record.rule == TEST_RULE:
            return FREE
        untaken_s = self._untaken_s.get(record.alert, 0.0)
        return holding_of(record, way, self._routes, self._now, untaken_s)

    def _ways(self) -> dict[str, Mapping[str, Any]]:
        return {
            way: {
                "waiting": len(one.waiting),
                "delivered": one.delivered,
                "dropped": one.dropped,
                "trouble": one.trouble,
            }
            for way, one in self.state.ways.items()
        }

    def _alert(self, one: OpenAlert) -> dict[str, Any]:
        silence = self._desk.silence_of(one.raised, self._now.wall_us)
        return {
            **msgspec.to_builtins(one.raised),
            "is_told": one.is_told,
            "silence": None if silence is None else silence.number,
            "reminders": one.reminders,
            "taken_on": None if one.taken_on is None else msgspec.to_builtins(one.taken_on),
        }


def _silence(one: AlertSilence) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(one)
    return told | {"matcher": one.matcher.patterns, "left_s": round(one.left_s)}
