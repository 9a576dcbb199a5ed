"""A thousand gateways raise alerts as they do in a process: a site without power is one of them.

All of them look, each with an alert state of its own that survives kills, and hand over to one
mailbox that is killed as well. The root takes those that are lost out of the records, as it does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection

import pytest

from alerts import state as states
from alerts.record import AlertRecord
from alerts.state import AlertState
from gateway.alerting import rules
from gateway.alerting.gateway_alerts import GatewayAlerts
from gateway.alerting.judging import SeenByGateway
from gateway.alerting.lost_gateways import LostGateways
from gateway.alerting.plan import AlertPlan
from tree_handler.members.absence import AbsenceNotice
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord

SITES, OF_A_SITE = 20, 50
LOOK_S = 10.0
PLAN = AlertPlan(ways=("mail",))
MISSED_AFTER_S = 10.0
TAKEN_OUT_AFTER_S = 150.0
BEGAN_US = 1_795_835_560_000_000
SETTING_S = PLAN.terms[rules.GATEWAY_AWAY].after_s


class Mailbox:
    """Keeps each mail once, by its name; killed before it has answered it may get it again."""

    def __init__(self) -> None:
        self.had: dict[str, AlertRecord] = {}
        self.at_s: dict[str, float] = {}

    def take(self, records: Collection[AlertRecord], now_s: float) -> None:
        for one in records:
            self.had.setdefault(one.delivery_id, one)
            self.at_s.setdefault(one.delivery_id, now_s)

    @property
    def changes(self) -> Counter[tuple[str, str, str]]:
        return Counter((one.change, one.rule, one.gateway) for one in self.had.values())


class Thousand:
    """Sites of fifty; those that are there see the same tree.

    Args:
        seed: draws who is killed when.
        sites: how many.

    """

    def __init__(self, seed: int = 0, sites: int = SITES) -> None:
        self.draw = random.Random(seed)
        self.now_s = 0.0
        self.box = Mailbox()
        self.members = Membership()
        self.records = [self._record(n) for n in range(sites * OF_A_SITE)]
        for one in self.records:
            self.members.update(one)
        self.lost = LostGateways(self.members)
        self.kept = {one.id: AlertState().encode() for one in self.records}
        self.running = {one.id: self._started(one.id) for one in self.records}
        self.links = Counter({one.id: 1 for one in self.records})
        self.dead: dict[str, float] = {}
        self.words = 0

    @staticmethod
    def _record(n: int, epoch: int = 1) -> MemberRecord:
        site, place = divmod(n, OF_A_SITE)
        at = ("campus", f"site-{site}") if site else ("", "")
        return MemberRecord(
            f"gw-{n}", epoch, 0, *at, "10.0.0.1", 1883, capability=float(OF_A_SITE - place)
        )

    def _started(self, name: str) -> GatewayAlerts:
        return GatewayAlerts(PLAN, states.decode(self.kept[name]), self.now_s)

    def site(self, number: int) -> list[str]:
        return [f"gw-{n}" for n in range(number * OF_A_SITE, (number + 1) * OF_A_SITE)]

    def dies(self, *names: str) -> None:
        for name in names:
            self.running.pop(name, None)
            self.dead[name] = self.now_s

    def comes_back(self, *names: str) -> None:
        for name in names:
            del self.dead[name]
            self.running[name] = self._started(name)
            n = int(name.removeprefix("gw-"))
            self.records[n] = self._record(n, self.records[n].epoch + 1)
            self.members.update(self.records[n])

    def is_forgotten(self, name: str) -> None:
        """An operator says that a gateway will not come back; that reaches all who are there."""
        del self.dead[name]
        n = int(name.removeprefix("gw-"))
        self.members.is_forgotten(AbsenceNotice.of(self.records[n]))

    def restarts(self, name: str) -> None:
        """Killed and up again, before anybody misses it; what was not kept is gone."""
        self.running[name] = self._started(name)

    def goes_on(self, seconds: float, *, kills: int = 0) -> None:
        """Let all look, and some be killed between what they keep and what they hand over."""
        for _ in range(round(seconds / LOOK_S)):
            self.now_s += LOOK_S
            self._tree()
            fleet = self.lost.look()
            wall_us = BEGAN_US + round(self.now_s * 1e6)
            to_tell: dict[str, list[str]] = {}
            for lost, by in fleet.told_by.items():
                to_tell.setdefault(by or "", []).append(lost)
            killed = set(self.draw.sample(sorted(self.running), kills)) if kills else set()
            for name, alerts in list(self.running.items()):
                seen = SeenByGateway(
                    gateway=name,
                    site=fleet.sites[name],
                    ahead_s=0.0,
                    links=self.links[name],
                    away=to_tell.get(name, ()),
                    missing=fleet.lost,
                    forgotten=fleet.forgotten,
                    told_elsewhere={one for one, by in fleet.have_told.items() if by != name},
                    sites=fleet.sites,
                    above=fleet.above,
                )
                if alerts.look(seen, wall_us, self.now_s):
                    self.kept[name] = alerts.state.encode()
                self._say(name, alerts)
                self._hand_over(name, is_killed=name in killed, kills=kills)

    def _say(self, name: str, alerts: GatewayAlerts) -> None:
        """Say of which lost ones it has told; that reaches all, those that come back too."""
        epoch = self.members.latest_epoch(name)
        self.words += len(self.lost.to_say(alerts.telling, name, epoch))

    def _hand_over(self, name: str, *, is_killed: bool, kills: int) -> None:
        alerts = self.running[name]
        for way, records in alerts.due():
            if kills and self.draw.random() < 0.3:  # the mailbox dies before it keeps them
                alerts.failed(way, "connection reset")
                continue
            self.box.take(records, self.now_s)
            is_killed = is_killed or (kills > 0 and self.draw.random() < 0.5)
            if not is_killed:
                alerts.taken(way, records)
                self.kept[name] = alerts.state.encode()
        if is_killed:
            self.running[name] = self._started(name)

    def _tree(self) -> None:
        missed = {one for one, at in self.dead.items() if self.now_s >= at + MISSED_AFTER_S}
        for one, at in self.dead.items():
            record = self.members.get(one)
            if record is not None and self.now_s >= at + TAKEN_OUT_AFTER_S:
                self.members.is_absent(AbsenceNotice(one, record.epoch, record.version))
        self.members.suspect(frozenset(one for one in missed if one in self.members))


@pytest.mark.drawn(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_site_of_fifty_that_loses_its_power_is_one_alert_whoever_is_killed(seed: int) -> None:
    fleet = Thousand(seed)
    fleet.goes_on(30)
    fleet.dies(*fleet.site(7))
    fleet.goes_on(600, kills=3)
    assert fleet.box.changes == {("raised", rules.GATEWAY_AWAY, "gw-350"): 1}
    (raised_s,) = fleet.box.at_s.values()
    assert 30 + SETTING_S <= raised_s <= 30 + SETTING_S + 60
    fleet.comes_back(*fleet.site(7))
    fleet.goes_on(180, kills=3)
    assert fleet.box.changes == {
        ("raised", rules.GATEWAY_AWAY, "gw-350"): 1,
        ("cleared", rules.GATEWAY_AWAY, "gw-350"): 1,
    }
    assert not any(alerts.document()["alerts"] for alerts in fleet.running.values())


def test_the_substitute_tells_of_a_head_that_dies_and_goes_on_when_the_head_is_back() -> None:
    fleet = Thousand(sites=3)
    head, leaf = "gw-50", "gw-99"
    fleet.dies(head)
    fleet.goes_on(SETTING_S + 60)
    assert fleet.box.changes == {("raised", rules.GATEWAY_AWAY, head): 1}
    assert [name for name, one in fleet.running.items() if one.document()["alerts"]] == ["gw-51"]
    fleet.dies(leaf)
    fleet.goes_on(600)
    assert len(fleet.box.had) == 1, "what is below a lost gateway is hidden by it"
    fleet.comes_back(head)
    fleet.goes_on(600)
    told = fleet.box.changes
    assert told[("cleared", rules.GATEWAY_AWAY, head)] == 1
    assert told[("raised", rules.GATEWAY_AWAY, leaf)] == 1, "it is missed for itself, and once"
    assert told[("cleared", rules.GATEWAY_AWAY, leaf)] == 0
    fleet.comes_back(leaf)
    fleet.goes_on(120)
    told = fleet.box.changes
    raised, cleared = (told[change, rules.GATEWAY_AWAY, leaf] for change in ("raised", "cleared"))
    assert raised == cleared == 1


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dead_s", [20, 60, SETTING_S + 30, 400])
def test_a_lost_gateway_is_told_of_once_though_its_head_goes_and_comes_back(dead_s: float) -> None:
    fleet = Thousand(sites=2)
    head, leaf = "gw-50", "gw-99"
    fleet.dies(leaf, head)
    fleet.goes_on(dead_s)
    fleet.comes_back(head)
    fleet.goes_on(600)
    assert fleet.box.changes[("raised", rules.GATEWAY_AWAY, leaf)] == 1
    words = fleet.words
    fleet.goes_on(600)
    assert fleet.words == words, "a still fleet says nothing"
    fleet.comes_back(leaf)
    fleet.goes_on(300)
    assert fleet.box.changes[("cleared", rules.GATEWAY_AWAY, leaf)] == 1
    assert not any(alerts.document()["alerts"] for alerts in fleet.running.values())


def test_who_has_told_of_a_lost_gateway_and_is_lost_itself_is_followed_by_the_next_one() -> None:
    fleet = Thousand(sites=2)
    head, leaf = "gw-50", "gw-99"
    fleet.dies(leaf)
    fleet.goes_on(SETTING_S + 60)
    assert fleet.lost.look().have_told == {leaf: head}
    fleet.dies(head)  # its word goes with it: another one may tell
    fleet.goes_on(SETTING_S + 600)
    assert fleet.lost.look().have_told == {head: "gw-51"}
    assert fleet.box.changes[("raised", rules.GATEWAY_AWAY, head)] == 1
    fleet.comes_back(head)
    fleet.goes_on(600)
    fleet.comes_back(leaf)
    fleet.goes_on(600)
    told = fleet.box.changes
    raised, cleared = (told[change, rules.GATEWAY_AWAY, leaf] for change in ("raised", "cleared"))
    assert 1 <= raised == cleared <= 2


def test_a_gateway_below_a_lost_one_is_told_of_as_ever() -> None:
    fleet = Thousand(sites=2)
    fleet.dies("gw-0")  # the root: all others are below it
    fleet.goes_on(SETTING_S + 60)
    assert fleet.box.changes == {("raised", rules.GATEWAY_AWAY, "gw-0"): 1}
    fleet.dies("gw-1")  # the next root, which has told of it
    fleet.goes_on(SETTING_S + 60)
    assert fleet.box.changes[("raised", rules.GATEWAY_AWAY, "gw-0")] == 2, "by the next one"
    alerts = fleet.running["gw-60"]
    seen = SeenByGateway(gateway="gw-60", site="", ahead_s=0.0, links=1, is_read_only=True)
    alerts.look(seen, BEGAN_US + 10**12, fleet.now_s + 10)
    assert [one["rule"] for one in alerts.document()["alerts"]] == [rules.DISK_READ_ONLY]


def test_one_that_will_not_come_back_is_over_once_though_the_root_has_taken_it_out_before() -> None:
    fleet = Thousand(sites=3)
    fleet.dies("gw-99")
    fleet.goes_on(SETTING_S + TAKEN_OUT_AFTER_S)
    assert "gw-99" not in fleet.members
    fleet.is_forgotten("gw-99")
    fleet.goes_on(600, kills=3)
    assert fleet.box.changes == {
        ("raised", rules.GATEWAY_AWAY, "gw-99"): 1,
        ("cleared", rules.GATEWAY_AWAY, "gw-99"): 1,
    }
    assert not any(alerts.document()["alerts"] for alerts in fleet.running.values())
