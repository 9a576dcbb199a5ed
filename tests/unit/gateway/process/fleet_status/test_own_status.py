"""A status record tells of each part of a running gateway what that part says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from surroundings import hooks

from gateway.backups.backup_state import BackupState
from gateway.broker.data_plane import DataPlane
from gateway.broker.limits import Limits
from gateway.process.configuration.config import GatewaySection
from gateway.process.fleet_status.machine import MachineReading
from gateway.process.fleet_status.own_release import ReleaseReading
from gateway.process.fleet_status.own_status import OwnStatus
from gateway.process.fleet_status.pace import StatusPace
from gateway.process.fleet_status.rating import Rating
from gateway.process.fleet_status.status_sources import StatusFindings
from record_formats.status_record import MAX_LINKS, MAX_TEXT, LinkStatus, StatusRecord
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place
from tree_handler.replication.counters import Counters
from tree_handler.spanning.neighbour import Role


class Gateway:
    """gw-a, whose parts say what a test wants."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.core = DataPlane(hooks(commit=lambda *_: None), Limits())
        self.members = Membership()
        self.tree = SimpleNamespace(
            root_id="gw-root",
            parent_link=4,
            cost_ms=2.5,
            forwarding={4, 6},
            neighbours=lambda: self.neighbours,
        )
        self.neighbours: list[Any] = []
        self.waiting = dict[int, int]()
        self.node = SimpleNamespace(
            tree=self.tree,
            links={4: SimpleNamespace(peer_id="gw-p", queued_bytes=100)},
            exchange=SimpleNamespace(
                backlog_bytes=lambda link: self.waiting.get(link, 0), counters={"sent": 9}
            ),
            log=SimpleNamespace(length=8, appended_bytes=7, damaged_bytes=0, lost_messages=6),
            replication=SimpleNamespace(counters=Counters(received=3)),
        )
        sampler: Any = SimpleNamespace(failed=1, skipped=2)
        node: Any = self.node
        own = GatewaySection("gw-a", folder, **settings)
        self.told = OwnStatus(own, node, self.core, self.members, sampler, software="3.1")

    def link(self, number: int, peer: str, rtt_ms: float | None, role: Role) -> None:
        self.neighbours.append(SimpleNamespace(link=number, peer_id=peer, rtt_ms=rtt_ms, role=role))
        self.node.links.setdefault(number, SimpleNamespace(peer_id=peer, queued_bytes=0))

    def knows(self, name: str, capability: float, place: Place, *, drains: bool = False) -> None:
        domain, group = place.domain, place.group
        record = MemberRecord(name, 1, 0, domain, group, "10.0.0.1", 1883)
        self.members.update(replace(record, capability=capability, draining=drains))

    def record(self, looked: StatusFindings | None = None) -> StatusRecord:
        pace = StatusPace("gw-a", 10.0, self.told.place_in_tree(), 0.0)
        place = Place("campus", "north")
        return self.told.record(10.0, 12.34, place, looked or StatusFindings(), pace)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    made = Gateway(tmp_path, latitude=47.5, longitude=8.25)
    yield made
    made.core.stop()


async def test_what_was_looked_up_stands_beside_what_the_parts_say(gateway: Gateway) -> None:
    looked = StatusFindings(
        MachineReading(load1=0.5, disk_free_bytes=11),
        ReleaseReading(release="3.1.0", ring=2, reboot_due=True),
        BackupState("overdue", "the place is full", 86_400.04),
        Rating(rated_messages_per_s=400, rated_clients=50),
    )
    record = gateway.record(looked)
    assert (record.interval_s, record.up_s, record.software) == (10.0, 12.3, "3.1")
    assert (record.domain, record.group) == ("campus", "north")
    assert (record.latitude, record.longitude) == (47.5, 8.25)
    assert (record.load1, record.disk_free_bytes) == (0.5, 11)
    assert (record.release, record.ring, record.reboot_due) == ("3.1.0", 2, True)
    assert (record.backup, record.backup_why) == ("overdue", "the place is full")
    assert record.backup_age_s == 86_400.0
    assert (record.rated_messages_per_s, record.rated_clients) == (400, 50)
    assert (record.root, record.parent, record.root_cost_ms) == ("gw-root", "gw-p", 2.5)
    assert (record.queue_messages, record.mqtt_clients, record.page) == (0, 0, "")


@pytest.mark.parametrize(
    ("age_s", "told"), [(None, None), (0.04, 0.0), (1e9, 1e9), (1e9 + 1, 1e9), (1e300, 1e9)]
)
async def test_the_age_of_a_backup_is_told_to_a_tenth_and_up_to_thirty_years(
    gateway: Gateway, age_s: float | None, told: float | None
) -> None:
    why = "x" * (MAX_TEXT + 1)
    record = gateway.record(StatusFindings(backup=BackupState("good", why, age_s)))
    assert record.backup_age_s == told
    assert record.backup_why == "x" * MAX_TEXT


@pytest.mark.parametrize(("parent_link", "parent"), [(None, None), (4, "gw-p"), (5, None)])
async def test_a_parent_is_told_as_long_as_there_is_a_link_to_it(
    gateway: Gateway, parent_link: int | None, parent: str | None
) -> None:
    gateway.tree.parent_link = parent_link
    assert gateway.told.place_in_tree().parent == gateway.record().parent == parent


async def test_links_that_forward_come_first_and_each_by_its_peer(gateway: Gateway) -> None:
    gateway.link(5, "gw-b", 1.26, Role.BLOCKED)
    gateway.link(6, "gw-z", None, Role.DESIGNATED)
    gateway.link(4, "gw-p", 0.04, Role.ROOT)
    gateway.link(7, "gw-gone", 1.0, Role.DESIGNATED)
    del gateway.node.links[7]
    record = gateway.record()
    assert record.links == (
        LinkStatus("gw-p", 0.0, "root", "forwarding"),
        LinkStatus("gw-z", None, "designated", "forwarding"),
        LinkStatus("gw-b", 1.3, "blocked", "discarding"),
    )
    assert record.link_count == 3


async def test_of_too_many_links_the_first_are_told_and_all_are_counted(gateway: Gateway) -> None:
    for number in range(100, 101 + MAX_LINKS):
        gateway.link(number, f"gw-{number}", None, Role.DESIGNATED)
    record = gateway.record()
    assert (len(record.links), record.link_count) == (MAX_LINKS, MAX_LINKS + 1)
    assert record.links[-1].peer == f"gw-{99 + MAX_LINKS}"


async def test_what_waits_for_links_is_counted_in_them_and_in_the_log(gateway: Gateway) -> None:
    gateway.link(6, "gw-z", None, Role.DESIGNATED)
    gateway.waiting = {4: 20, 6: 3, 9: 5_000}
    assert gateway.record().queue_bytes == 100 + 20 + 3


async def test_its_roles_are_those_of_the_tree_and_of_the_hierarchy(gateway: Gateway) -> None:
    north, south = Place("campus", "north"), Place("campus", "south")
    assert gateway.record().roles == ()
    gateway.knows("gw-root", 9.0, Place())
    gateway.knows("gw-b", 8.0, Place("campus"))
    gateway.knows("gw-a", 2.0, north)
    assert gateway.record().roles == ("group-head",)
    gateway.members.update(MemberRecord("gw-b", 1, 1, "other", "", "10.0.0.1", 1883))
    gateway.knows("gw-c", 3.0, south)
    assert gateway.record().roles == ("group-head",)
    gateway.tree.root_id = "gw-a"
    assert gateway.record().roles == ("tree-root", "group-head")


async def test_who_leads_all_says_so_and_that_it_drains(gateway: Gateway) -> None:
    gateway.knows("gw-a", 2.0, Place("campus", "north"))
    assert gateway.record().roles == ("fleet-head", "domain-head", "group-head")
    gateway.knows("gw-0", 1.0, Place(), drains=True)
    assert gateway.record().roles == ("fleet-head", "domain-head", "group-head")
    gateway.members.update(
        MemberRecord("gw-a", 1, 1, "campus", "", "10.0.0.1", 1883, draining=True)
    )
    assert gateway.record().roles == ("draining",)


async def test_only_what_has_happened_is_counted(gateway: Gateway) -> None:
    gateway.core.refusals.counts["one"] += 4
    gateway.core.refusals.counts["another"] += 5
    assert gateway.record().counters == {
        "mqtt_refused": 9,
        "sensors_failed": 1,
        "sensors_skipped": 2,
        "log_bytes": 8,
        "log_appended_bytes": 7,
        "log_lost_messages": 6,
        "received": 3,
        "sent": 9,
    }
