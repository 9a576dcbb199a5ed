"""Years of a fleet in hours, and what finds what only they bring."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.tools import cli
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import ReplicationAction, SendRequest
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.forgetting import Forgetting
from tree_handler.replication.hearsay import Hearsay
from tree_handler.replication.neighbour_picture import NeighbourPicture
from tree_handler.replication.repair import SearchId
from tree_handler.replication.replication import Replication
from tree_handler.replication.search import Searches
from tree_handler.replication.telling import Telling
from tree_handler.retained import sync, tombstones
from tree_handler.retained.sync_state import SyncLink
from tree_handler.simulation.runs import run
from tree_handler.simulation.years import HAPPENINGS, YearsOptions, YearsSimulation
from tree_handler.simulation.years_gateway import YearsGateway
from tree_handler.simulation.years_traffic import YearsTraffic
from tree_handler.spanning.agreement import Agreements
from tree_handler.spanning.bpdu import Kind
from tree_handler.spanning.neighbour import Neighbour

SMALL = replace(YearsOptions.drawn(1, 6), weeks=2)


def violations(options: YearsOptions) -> list[str]:
    return [f"{one.invariant}: {one.what}" for one in run(options).violations]


def test_years_of_a_fleet_of_twelve_keep_what_a_day_keeps(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--soak"):
        assert violations(replace(YearsOptions.drawn(1, 12), years=5, weeks=5)) == []
        return
    for seed in (1, 52):  # 52: newcomers, each of which hears of all lives that are over
        assert violations(replace(YearsOptions.drawn(seed, 12), years=30)) == []


@pytest.mark.drawn(6)
@pytest.mark.parametrize("happening", HAPPENINGS)
def test_whatever_a_week_brings_is_over_in_time(happening: str) -> None:
    assert violations(replace(SMALL, happening=happening)) == []


def test_an_error_of_reading_that_is_taken_for_an_absence_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Searches.looked

    def looked(
        self: Searches, number: SearchId, found: dict[Epoch, Intervals], *, was_read: bool
    ) -> list[ReplicationAction]:
        return real(self, number, found)

    monkeypatch.setattr(Searches, "looked", looked)
    found = violations(replace(SMALL, happening="unreadable"))
    assert any("gives up" in what for what in found)


def test_late_answers_that_are_no_sign_of_life_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    came, done, gives_up = AntiEntropy.came, AntiEntropy.done, NeighbourPicture.gives_up

    def came_in_vain(self: AntiEntropy, link: int, header: Header) -> None:
        if self._neighbours[link].asked is not None:
            came(self, link, header)

    def done_in_vain(self: AntiEntropy, link: int, now: float) -> list[SendRequest]:
        return [] if self._neighbours[link].asked is None else done(self, link, now)

    def given_up_for_good(self: NeighbourPicture, timeout_s: float, now: float) -> None:
        gives_up(self, timeout_s, now)
        self.ask_again_at = math.inf

    monkeypatch.setattr(AntiEntropy, "came", came_in_vain)
    monkeypatch.setattr(AntiEntropy, "done", done_in_vain)
    monkeypatch.setattr(NeighbourPicture, "gives_up", given_up_for_good)
    found = violations(replace(SMALL, happening="stalled"))
    assert any("asks nobody" in what for what in found)


def test_a_digest_that_waits_for_a_pause_of_the_fleet_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sync, "UNSETTLED_S", math.inf)
    found = violations(replace(SMALL, happening="busy"))
    assert any("in a busy fleet" in what for what in found)


def test_an_answer_that_is_dropped_because_it_is_late_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SyncLink, "is_late", lambda *_: None)
    found = violations(replace(SMALL, happening="slow"))
    assert any("lacks once/" in what for what in found)


def _tell_without_stopping(self: Agreements, neighbour: Neighbour) -> None:
    self._say(neighbour, Kind.LEAVE, neighbour.asked)
    self._reset(neighbour)


def _put_off_for_good(self: NeighbourPicture, at_least_s: float, now: float) -> None:
    self.put_off |= self.unproven
    self.put_off_until = math.inf


@pytest.mark.parametrize(
    ("options", "broken", "found"),
    [
        pytest.param(
            replace(SMALL, happening="restart", weeks=6),
            {(Agreements, "leave"): _tell_without_stopping},
            "1: live ring",
            id="a ring of links",
        ),
        pytest.param(
            replace(SMALL, happening="restart"),
            {(AntiEntropy, "ask"): lambda *_: [], (AntiEntropy, "lacks"): lambda *_: None},
            "that others have",
            id="a message that some lack",
        ),
        pytest.param(
            replace(SMALL, happening="renew"),
            {
                (NeighbourPicture, "puts_off"): _put_off_for_good,
                (AntiEntropy, "ask_anew"): lambda *_: [],
            },
            "that others have",
            id="what was refused before its key came and is not asked for again",
        ),
        pytest.param(
            replace(SMALL, happening="busy"),
            {
                (Replication, "handed_out"): lambda *_: 1 << 60,
                (Replication, "is_catching_up"): lambda *_: False,
            },
            "that clients had as news",
            id="a message that clients get twice",
        ),
        pytest.param(
            replace(SMALL, happening="still"),
            {(Telling, "has_news_for"): lambda *_: True},
            "messages are sent, 240 s after",
            id="a still fleet that goes on talking",
        ),
        pytest.param(
            replace(SMALL, gateways=3, weeks=9, happening="power_cut"),
            {(Forgetting, "notes"): lambda *_: []},
            "streams of gw-",
            id="lives that are never forgotten",
        ),
    ],
)
def test_each_check_of_the_years_finds_what_it_is_for(
    options: YearsOptions,
    broken: dict[tuple[type, str], Callable[..., object]],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for (of, name), instead in broken.items():
        monkeypatch.setattr(of, name, instead)
    assert any(found in what for what in violations(options))


def test_a_table_that_nothing_makes_smaller_is_found_wherever_it_is() -> None:
    simulation = YearsSimulation(SMALL)
    simulation.start_all()
    simulation.clock.run(30.0)
    gateway = simulation.gateways["gw-1"]
    assert isinstance(gateway, YearsGateway)
    assert isinstance(simulation.traffic, YearsTraffic)
    simulation.traffic.check_tables(simulation.gateways)
    assert simulation.checks.violations == []
    for link in range(100, 200):  # that come up, and of which nobody says that they end
        gateway.replication.repair.link_up(link, gateway.now)
    simulation.traffic.check_tables(simulation.gateways)
    places = "_forgetting.neighbours._neighbours", "_forgetting.telling._told", "_searches._links"
    assert {one.what for one in simulation.checks.violations} == {
        f"gw-1 keeps {100 + len(gateway.ends)} items in replication.{place}, at most 28 are due"
        for place in (*places, "_arrivals.flooding.links")
    }


def test_a_deletion_that_is_forgotten_while_a_gateway_is_away_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tombstones, "LASTING_SHARE", 10**9)
    found = violations(replace(SMALL, happening="long_away"))
    assert any("once/" in what and ", not " in what for what in found)


def test_the_command_lives_through_years_and_says_how_to_do_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["simulate", "--subject", "years", "--runs", "1", "--gateways", "2"]
    assert cli.main(arguments) == 0
    assert "1 runs, 0 of them failed" in capsys.readouterr().out
    drawn = replace(YearsOptions.drawn(7, 12), years=30)
    same = "--seed 7 --gateways 12 --runs 1 --years 30"
    assert drawn.replay == f"hedgerow simulate --subject years {same}"
    assert "happening='slow'" in replace(drawn, happening="slow").replay


@pytest.mark.parametrize("is_sought", [True, False])
def test_what_all_near_logs_have_dropped_comes_from_one_farther_off(
    monkeypatch: pytest.MonkeyPatch, *, is_sought: bool
) -> None:
    """One is away while an origin writes its last words, which its neighbours' logs then drop."""
    if not is_sought:
        monkeypatch.setattr(Hearsay, "due", lambda *_: [])
    simulation = YearsSimulation(replace(YearsOptions.drawn(1, 12), weeks=1))
    simulation.start_all()
    gateways, network = simulation.gateways, simulation.network
    traffic, clock = simulation.traffic, simulation.clock
    assert isinstance(traffic, YearsTraffic)
    clock.run(clock.now + 60.0)
    near = {
        one: {other for edge in network.edges if one in edge.ids for other in edge.ids} - {one}
        for one in gateways
    }
    away = min(gateways, key=lambda one: len(near[one]))
    origin = max(set(gateways) - near[away] - {away})
    cut = [edge for edge in network.edges if away in edge.ids]
    for edge in cut:
        network.cut(edge)
    clock.run(clock.now + 30.0)
    for number in range(3):
        traffic.write(gateways[origin], f"once/{number}", b"last words")
    clock.run(clock.now + 30.0)
    stream = (origin, gateways[origin].tree.identity.boot_epoch)
    for one in near[away]:
        disk = traffic.years_disk(one)
        disk.log = [row for row in disk.log if row[1].stream != stream]
        gateway = gateways[one]
        assert isinstance(gateway, YearsGateway)
        gateway.log_trimmed()
    for edge in cut:
        network.heal(edge)
    clock.run(clock.now + 60.0)
    lacking = list(traffic.lacking(gateways, network))
    assert any(away in what for what in lacking) is not is_sought, lacking
