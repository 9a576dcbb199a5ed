"""The watch over a fleet: facts of micro-batches go in, tables come out.

It has no clock and does no I/O. Who calls it says which batch it has, and keeps `FleetWatch.state`;
`cloud_ingest.fleet.writer` does both. Within a batch the order of facts makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cloud_ingest.bounded_counts import added
from cloud_ingest.evidence.facts import (
    UNTIMED_US,
    Activity,
    BatchFacts,
    GivenUp,
    Interval,
    Numbers,
    Statement,
)
from cloud_ingest.evidence.signs import IngestSigns
from cloud_ingest.fleet import lives, state, tables
from cloud_ingest.fleet.flapping import DampedAlerts
from cloud_ingest.fleet.gateway_state import GatewayState, ReportedTopology, keep_newest, note_top
from cloud_ingest.fleet.health import Health, health
from cloud_ingest.fleet.ingest_judging import IngestJudge
from cloud_ingest.fleet.judging import Judge
from cloud_ingest.fleet.numbers import Hole
from cloud_ingest.fleet.order_of_facts import by_sensor, by_time, merged_numbers
from cloud_ingest.fleet.outgoing import OutgoingAlerts
from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.sensors import SensorJudge
from cloud_ingest.fleet.state import FleetState, GapRow, TopologyRow
from cloud_ingest.fleet.tables import FleetChanges
from cloud_ingest.member_place import NO_PLACE, MemberError, read_place
from record_formats.status_record import StatusError, StatusRecord, decode

LATE_START_US: Final = 600_000_000
"""A watch that begins late takes numbers as had, below the first that it hears, for so long."""
SETTLED_US: Final = 10_000_000
"""A number missing for less than this is not told: two links need not be as fast."""


class FleetWatch:
    """Folds facts into the fleet's tables.

    Args:
        rules: when alerts are raised.
        remembered: what an earlier watch's `state` returned; None for one that begins.
        after: number of the last rows in the tables, where nothing is remembered of what came
            before: then it begins late.
        hands_out: whether there is a way out that is told of alerts.

    Raises:
        StateError: what is remembered can't be read.

    """

    def __init__(
        self,
        rules: AlertRules,
        remembered: bytes | None = None,
        *,
        after: int = 0,
        hands_out: bool = False,
    ) -> None:
        self._rules = rules
        self._state = FleetState() if remembered is None else state.decode(remembered)
        if remembered is None and after > 0:
            self._state.outbox.number = after + 1
            self._state.began_late_until_us = -1
        known = self._state
        self._alerts = DampedAlerts(known.alerts, known.flaps)
        self._judge = Judge(rules, self._alerts, known.listening, known.clock)
        self._sensors = SensorJudge(rules, self._alerts)
        remind_us = round(rules.kept.remind_s * 1e6)
        self.outgoing = OutgoingAlerts(
            known.alerts, known.outgoing, remind_us, is_used=hands_out, site_of=self._site_of
        )
        """The changes that a way out is to be told, once `state` is kept."""
        self._ingest = IngestJudge(rules, self._alerts, known.ingest)
        # What changed last may not have come into the tables.
        self._has_news = self._gaps_changed = remembered is not None
        self._state.alerts.has_changed |= remembered is not None
        self._committed_us: int | None = None

    def _site_of(self, gateway: str) -> str:
        found = self._state.gateways.get(gateway)
        if found is None or found.domain in (None, NO_PLACE):
            return ""
        return f"{found.domain}/{'' if found.group in (None, NO_PLACE) else found.group}"

    # -- what goes in ----------------------------------------------------------------------------

    def has_taken(self, query: str, batch_id: int) -> bool:
        """Return whether this batch of a query is in the tables, or on its way to them."""
        return batch_id <= self._state.queries.get(query, -1)

    def take(self, facts: BatchFacts, query: str = "") -> None:
        """Take a batch; one that was taken before changes nothing.

        Args:
            facts: what it tells.
            query: whose batch it is: another query counts its batches anew.

        """
        if self.has_taken(query, facts.batch_id):
            return
        queries = self._state.queries
        queries.pop(query, None)
        queries[query] = facts.batch_id
        for gone in list(queries)[: -state.MAX_QUERIES]:
            del queries[gone]
        self._has_news = True
        self._state.clock.job_says(facts.committed_us, self.progress_us)
        facts = self._state.clock.timed(facts, self._state.gateways)
        self._ingest.took(facts.activity, self.progress_us, self._job_us(facts.committed_us))
        come_us: dict[str, int] = {}
        events: list[Statement | Activity] = [*facts.statements, *facts.activity]
        for each in sorted(events, key=by_time):
            if each.collected_us == UNTIMED_US:
                continue
            gateway = self._hear(each.gateway, each.collected_us)
            come_us[each.gateway] = max(come_us.get(each.gateway, 0), each.collected_us)
            if isinstance(each, Statement):
                self._say(gateway, each)
            else:
                gateway.act(each, each.collected_us)
        for untimed in facts.activity:  # which copies came says nothing of who is there
            known = self._state.gateways.get(untimed.gateway)
            if untimed.collected_us == UNTIMED_US and known is not None:
                known.act(untimed, None)
        other_us = self.progress_us or facts.committed_us
        for name, epoch, come, kept_local in merged_numbers(facts.numbers):
            at_us = come_us.get(name, other_us)
            gateway = self._known(name, at_us)
            gateway.kept_local = added(gateway.kept_local, kept_local)
            self._number(gateway, epoch, come, at_us)
        for told in facts.given_up:
            self._give_up(told, come_us.get(told.gateway, other_us))
        for delays in facts.delays:
            self._state.minutes.take(delays)
        for span in sorted(facts.sensors, key=by_sensor):
            at_us = come_us.get(span.gateway, other_us)
            self._sensors.take(self._known(span.gateway, at_us), span, at_us)
        self._committed_us = facts.committed_us

    def tables_have(self, all_numbers: Iterable[Numbers]) -> bool:
        """Miss none of these numbers, whoever told of them; nothing else is known of them.

        Args:
            all_numbers: that the tables have. They are added to what is known.

        Returns:
            Whether something of it was new.

        """
        is_new = False
        for name, epoch, come, _ in merged_numbers(all_numbers):
            top = max((last for _, last in come), default=0)
            gateway = self._state.gateways.get(name)
            if gateway is not None and epoch in gateway.lives:
                life = gateway.lives[epoch]
                before = life.numbering.top, life.numbering.missing
                self._number(gateway, epoch, come, life.heard_us)
                is_new |= before != (life.numbering.top, life.numbering.missing)
                continue
            past = self._state.departed.setdefault(name, {}) if gateway is None else gateway.past
            is_new |= note_top(past, epoch, top)
        keep_newest(self._state.departed, state.DEPARTED_TIMES * self._rules.kept.gateways)
        self._has_news |= is_new
        return is_new

    def progressed(self, collected_us: int, now_us: int) -> None:
        """A collector says that it had taken all that there was.

        Args:
            collected_us: until when, by its clock.
            now_us: the clock that batches are committed by.

        """
        clock = self._state.clock
        clock.job_says(now_us, self.progress_us)
        self._state.listening.took(clock.heard_until(collected_us, self.progress_us))
        self._has_news = True

    def ingest_says(self, signs: IngestSigns, now_us: int) -> None:
        """Take what the job sees of itself and of its collectors.

        Args:
            signs: what it saw since it last said so.
            now_us: the clock that batches are committed by.

        """
        self._state.clock.job_says(now_us, self.progress_us)
        self._ingest.see(signs, self._job_us(now_us))

    def ingest_ends(self) -> None:
        """The job ends, and was not killed."""
        self._ingest.ended()

    def _job_us(self, now_us: int) -> int:
        limit_us = self._state.clock.limit_us
        return now_us if limit_us is None else limit_us

    @property
    def progress_us(self) -> int | None:
        """Return the time up to which collectors have come; None before they took anything."""
        return self._state.listening.progress_us

    # -- what comes out --------------------------------------------------------------------------

    def changes(self, now_us: int) -> FleetChanges:
        """Return what has changed since this was last asked: rows to append, and tables to replace.

        It is given again until `written` is called.

        Args:
            now_us: the clock of who asks, by which minutes end while nothing comes.

        """
        progress_us = self.progress_us
        self._ingest.time_passed(self._job_us(now_us))
        if progress_us is None or not self._has_news:
            self.outgoing.look(self._job_us(now_us))
        replaced = {}
        if progress_us is not None:
            judged_us = self._state.clock.judged_until(progress_us)
            if self._has_news:
                self._look(judged_us)
            elapsed_us = 0 if self._committed_us is None else max(0, now_us - self._committed_us)
            for due in self._state.minutes.due(progress_us + elapsed_us):
                self._state.outbox.latency.append(state.latency_row(due))
            if self._has_news:
                healths = self._healths(judged_us)
                replaced["gateways"] = tables.gateways(self._gateways(), healths, judged_us)
            if self._gaps_changed:
                replaced["gaps"] = tables.gaps(self._gateways(), self._state.gaps)
        if self._state.alerts.has_changed:
            replaced["alerts"] = tables.alerts(self._state.alerts.all())
        return FleetChanges(
            tables.appended(self._state.outbox), replaced, self._state.outbox.number
        )

    def unwritten(self) -> FleetChanges | None:
        """Return rows that an earlier watch was about to append when it ended; None if there are
        none."""
        outbox = self._state.outbox
        if not outbox.is_being_written:
            return None
        return FleetChanges(tables.appended(outbox), {}, outbox.number)

    def begin_writing(self) -> None:
        """Note that the rows of `changes` are being written; `state` is to be kept before."""
        self._state.outbox.is_being_written = True

    def written(self, changes: FleetChanges) -> None:
        """Note that the rows of `changes` or `unwritten` are in the tables; none came since."""
        self._has_news &= "gateways" not in changes.replace
        self._gaps_changed &= "gaps" not in changes.replace
        self._state.alerts.has_changed &= "alerts" not in changes.replace
        self._state.outbox = state.RowOutbox(self._state.outbox.number + 1)

    def state(self) -> bytes:
        """Return all that another watch needs to go on."""
        return self._state.encode()

    # -- gateways --------------------------------------------------------------------------------

    def _gateways(self) -> Iterable[GatewayState]:
        return self._state.gateways.values()

    def _known(self, name: str, at_us: int) -> GatewayState:
        gateways = self._state.gateways
        gateway = gateways.get(name)
        if gateway is None:
            if len(gateways) >= self._rules.kept.gateways:
                longest = min(gateways.values(), key=lambda each: (each.last_us, each.gateway))
                self._forget(longest.gateway, at_us)
            gateway = gateways[name] = GatewayState(name, at_us, at_us)
            gateway.past = self._state.departed.pop(name, {})
        return gateway

    def _healths(self, now_us: int) -> dict[str, Health]:
        kinds = self._alerts.kinds()
        return {
            each.gateway: health(
                each,
                self._rules.of(each.gateway, each.domain).silent,
                kinds.get(each.gateway, ()),
                now_us,
            )
            for each in self._gateways()
        }

    def _forget(self, name: str, at_us: int) -> None:
        departed = self._state.departed
        departed[name] = self._state.gateways.pop(name).tops()
        keep_newest(departed, state.DEPARTED_TIMES * self._rules.kept.gateways)
        self._alerts.forget_about(name, None, at_us)
        self._gaps_changed = True

    def _hear(self, name: str, at_us: int) -> GatewayState:
        self._state.listening.took(at_us)
        gateway = self._known(name, at_us)
        self._judge.heard(gateway, at_us)
        gateway.first_us = min(gateway.first_us, at_us)
        gateway.last_us = max(gateway.last_us, at_us)
        return gateway

    def _say(self, gateway: GatewayState, said: Statement) -> None:
        try:
            if said.kind == "status":
                self._status(gateway, said, decode(said.payload))
            elif said.collected_us >= gateway.member_us:
                gateway.domain, gateway.group = read_place(said.payload, said.gateway)
                gateway.member_us, gateway.record_error = said.collected_us, None
        except (StatusError, MemberError) as error:
            gateway.record_error = str(error)

    def _status(self, gateway: GatewayState, said: Statement, record: StatusRecord) -> None:
        heard = lives.place(gateway, said, record)
        if not heard.is_newest:
            return
        gateway.record_error = None
        if said.collected_us > gateway.member_us:
            gateway.domain = record.domain or NO_PLACE
            gateway.group = record.group or NO_PLACE
        self._judge.status(gateway, said, record, heard)
        gateway.status, gateway.status_us = record, said.collected_us
        gateway.origin_us = said.origin_us
        links = tuple((link.peer, link.role, link.state) for link in record.links)
        told = ReportedTopology(said.boot_epoch, record.root, record.parent, links)
        if told != gateway.told:
            gateway.told = told
            self._state.outbox.topology.append(
                TopologyRow(
                    said.collected_us,
                    gateway.gateway,
                    said.boot_epoch,
                    record.root,
                    record.parent,
                    record.root_cost_ms,
                    tuple((each.peer, each.rtt_ms, each.role, each.state) for each in record.links),
                    record.reconvergences,
                )
            )

    def _number(
        self, gateway: GatewayState, epoch: int, come: Sequence[Interval], at_us: int
    ) -> None:
        numbering = gateway.life(epoch, at_us).numbering
        if numbering.top == 0 and come and self._began_late(at_us):
            numbering.top = min(come)[0] - 1
        for hole in numbering.come(come, at_us):
            if hole.is_told:
                self._closed(gateway, epoch, hole, at_us)
        gone = sorted(numbering.give_up(), key=lambda hole: -hole.count)
        for hole in gone[: state.MAX_GAPS_A_GATEWAY]:
            self._closed(gateway, epoch, hole, None)

    def _give_up(self, told: GivenUp, at_us: int) -> None:
        gateway = self._known(told.gateway, at_us)
        gateway.given_up = added(gateway.given_up, told.missing)
        gateway.given_up_us = max(at_us, gateway.given_up_us or at_us)
        life = gateway.lives.get(told.boot_epoch)
        known = {
            (gap.first, gap.last)
            for gap in self._state.gaps
            if (gap.gateway, gap.epoch, gap.closed_us) == (told.gateway, told.boot_epoch, None)
        }
        for first, last in told.gaps:
            if (first, last) not in known:
                self._closed(gateway, told.boot_epoch, Hole(first, last, at_us), None)
            if life is not None:
                life.numbering.forget_between(first, last)

    def _began_late(self, at_us: int) -> bool:
        until_us = self._state.began_late_until_us
        if until_us is None:
            return False
        if until_us < 0:
            until_us = self._state.began_late_until_us = at_us + LATE_START_US
        return at_us <= until_us

    def _closed(self, gateway: GatewayState, epoch: int, hole: Hole, at_us: int | None) -> None:
        about = gateway.gateway, epoch, hole.first, hole.last, hole.found_us
        self._state.gaps.append(GapRow(*about, at_us))
        self._gaps_changed = True

    # -- time ------------------------------------------------------------------------------------

    def _look(self, progress_us: int) -> None:
        kept, alerts, listening = self._rules.kept, self._state.alerts, self._state.listening
        old_us = listening.ago(round(kept.forget_gateway_s * 1e6))
        for name in [each.gateway for each in self._gateways() if each.last_us < old_us]:
            self._forget(name, progress_us)
        for gateway in self._gateways():
            self._judge.time_passed(gateway, progress_us)
            for life in gateway.lives.values():
                self._gaps_changed |= life.numbering.tell(progress_us - SETTLED_US)
        self._judge.clear_what_is_off(self._gateways(), progress_us)
        self._alerts.time_passed(progress_us)
        self.outgoing.look(progress_us)
        before_us = listening.ago(round(kept.closed_s * 1e6))
        alerts.drop_closed(before_us)
        gaps = [gap for gap in self._state.gaps if gap.found_us >= before_us]
        gaps = state.newest_of_each(gaps)
        self._gaps_changed |= len(gaps) != len(self._state.gaps)
        self._state.gaps = gaps
