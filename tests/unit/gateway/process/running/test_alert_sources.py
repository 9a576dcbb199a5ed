"""Alerts are judged by all that a gateway sees of itself: each part's word comes to its field."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from surroundings import hooks

from gateway.alerting.lost_gateways import FleetLook
from gateway.alerting.sensor_rules import SensorRules
from gateway.broker.data_plane import DataPlane
from gateway.broker.limits import Limits
from gateway.process.fleet_status.machine import MachineReading
from gateway.process.fleet_status.own_release import ReleaseReading
from gateway.process.fleet_status.strain import StrainReading
from gateway.process.running.alert_sources import AlertSources, MachineEyes, MachineLook
from tree_handler.members.place import Place

WRONG_PASSWORD = "connection refused (bad_user_name_or_password)"
LOOK = MachineLook(
    MachineReading(
        temperature_cel=61.5,
        under_voltage=True,
        disk_free_bytes=10,
        disk_total_bytes=1_000,
        disk_written_bytes=77,
    ),
    ReleaseReading(release="3.2.0"),
    is_read_only=False,
    is_clock_kept=True,
    strain=StrainReading(is_throttled=False, disk_life_used=0.4),
)


class Gateway:
    """gw-a of campus/north, and what its parts say."""

    def __init__(self) -> None:
        self.core = DataPlane(hooks(commit=lambda *_: None), Limits())
        self.log = SimpleNamespace(failure="", appends=0, lost_messages=5, still_lost_messages=2)
        self.fleet = FleetLook()
        self.handshakes = Counter[str]()
        self.told: list[tuple[set[str], str, int]] = []
        self.published: list[tuple[str, bool]] = []
        parts: dict[str, Any] = {
            "own": lambda: SimpleNamespace(id="gw-a", place=Place("campus", "north")),
            "node": SimpleNamespace(
                log=self.log,
                links={1: None, 4: None},
                tree=SimpleNamespace(identity=SimpleNamespace(gateway_id="gw-a", boot_epoch=7)),
                publish=lambda entry, *, control: self.published.append((entry, control)),
            ),
            "core": self.core,
            "fleet": SimpleNamespace(look=lambda: self.fleet, to_say=self._to_say),
            "attachment": SimpleNamespace(
                neighbours=SimpleNamespace(status=lambda: {"addresses": [{"failed": 3}]})
            ),
            "edge": SimpleNamespace(
                expiry=SimpleNamespace(as_json=lambda: [{"field": "mqtt.certificate_file"}]),
                coap_counts=lambda: SimpleNamespace(dtls=self.handshakes),
            ),
            "watched": SimpleNamespace(failing={"reload": "no"}),
            "elections": SimpleNamespace(count=6),
            "sensors": SimpleNamespace(look=lambda: ["finding"], unread={"hall": SensorRules()}),
            "steady_s": lambda: 1_000.0,
        }
        self.sources = AlertSources(**parts)

    def _to_say(self, lost: set[str], teller: str, epoch: int) -> list[str]:
        self.told.append((lost, teller, epoch))
        return ["first", "second"]


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    made = Gateway()
    yield made
    made.core.stop()


async def test_what_the_parts_of_a_gateway_say_is_seen(gateway: Gateway) -> None:
    seen = gateway.sources.seen(LOOK, {"alerts by mail"})
    assert (seen.gateway, seen.site) == ("gw-a", "campus/north")
    assert (seen.free_bytes, seen.total_bytes, seen.written_bytes) == (10, 1_000, 77)
    assert (seen.temperature_cel, seen.under_voltage) == (61.5, True)
    assert (seen.is_throttled, seen.disk_life_used) == (False, 0.4)
    assert (seen.is_read_only, seen.is_clock_kept) == (False, True)
    assert (seen.lost, seen.still_lost, seen.dropped) == (5, 2, 0)
    assert (seen.links, seen.dialled) == (2, [{"failed": 3}])
    assert seen.certificates == [{"field": "mqtt.certificate_file"}]
    assert (seen.failing, seen.untried) == ({"reload": "no"}, {"alerts by mail"})
    assert (seen.elections, seen.sensors) == (6, ["finding"])
    assert seen.unread_sensors == {"hall": SensorRules()}


async def test_of_each_limit_that_all_clients_share_it_is_seen_how_near_it_is(
    gateway: Gateway,
) -> None:
    limits = gateway.sources.seen(LOOK).limits
    assert limits["connections"] == (0, Limits().connections)
    assert set(limits) == {
        "connections",
        "sessions",
        "subscriptions_bytes",
        "retained_messages",
        "retained_bytes",
        "retained_tombstones",
        "all_queues_bytes",
        "all_wills_bytes",
        "all_unreleased_messages",
        "all_buffers_bytes",
        "uncommitted_bytes",
    }


@pytest.mark.parametrize(
    ("failure", "appends", "seen"),
    [("", 0, None), ("", 1, ""), ("the disk is full", 0, "the disk is full")],
)
async def test_whether_the_log_takes_messages_is_unknown_until_it_has_tried(
    gateway: Gateway, failure: str, appends: int, seen: str | None
) -> None:
    gateway.log.failure, gateway.log.appends = failure, appends
    assert gateway.sources.seen(LOOK).log_failure == seen


@pytest.mark.parametrize(
    ("outcome", "returned"),
    [
        ("returned", ("3.3.0", "it did not come up")),
        ("confirmed", None),
        ("on trial", None),
        ("", None),
    ],
)
async def test_only_a_release_that_was_sent_back_is_seen_as_one(
    gateway: Gateway, outcome: str, returned: tuple[str, str] | None
) -> None:
    release = ReleaseReading(trial=outcome, trial_release="3.3.0", trial_why="it did not come up")
    seen = gateway.sources.seen(MachineLook(MachineReading(), release))
    assert seen.returned == returned
    assert not seen.is_release_known
    assert gateway.sources.seen(LOOK).is_release_known


async def test_wrong_passwords_and_failed_handshakes_are_counted_together_and_nothing_else(
    gateway: Gateway,
) -> None:
    gateway.core.refusals.counts[WRONG_PASSWORD] += 3
    gateway.core.refusals.counts["connection refused (server_busy)"] += 50
    gateway.handshakes["handshakes_failed"] += 4
    gateway.handshakes["handshakes_done"] += 60
    assert gateway.sources.seen(LOOK).failed_logins == 7


async def test_a_gateway_tells_of_the_lost_ones_that_are_its_own_to_tell(gateway: Gateway) -> None:
    gateway.fleet = FleetLook(
        sites={"gw-b": "campus/north"},
        above={"gw-b": "gw-a"},
        lost={"gw-b", "gw-c", "gw-d"},
        told_by={"gw-b": "gw-a", "gw-c": "gw-x", "gw-d": None},
        forgotten={"gw-old"},
        have_told={"gw-b": "gw-a", "gw-c": "gw-x"},
    )
    seen = gateway.sources.seen(LOOK)
    assert (seen.away, seen.missing) == (["gw-b"], {"gw-b", "gw-c", "gw-d"})
    assert (seen.told_elsewhere, seen.forgotten) == ({"gw-c"}, {"gw-old"})
    assert (seen.sites, seen.above) == ({"gw-b": "campus/north"}, {"gw-b": "gw-a"})


async def test_others_hear_of_whom_a_gateway_has_told_under_its_own_name_and_life(
    gateway: Gateway,
) -> None:
    gateway.sources.say_told({"gw-b"})
    assert gateway.told == [({"gw-b"}, "gw-a", 7)]
    assert gateway.published == [("first", True), ("second", True)]


async def test_the_wall_clock_is_ahead_of_one_that_nobody_sets_by_their_difference(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_250.0)
    assert gateway.sources.seen(LOOK).ahead_s == 250.0
    assert gateway.sources.seen(LOOK).failed_logins == 0


def test_a_machine_is_looked_at_where_its_disk_says_whether_it_takes_anything(
    tmp_path: Path,
) -> None:
    seen = MachineEyes(tmp_path, tmp_path).look()
    assert seen.is_read_only is False
    assert seen.machine.disk_total_bytes is not None
    assert MachineEyes(tmp_path / "none", tmp_path).look() == MachineLook.unseen()
