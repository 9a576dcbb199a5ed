"""Status record of a gateway: what it knows of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from typing import Any, Final

from gateway.backups.backup_state import BackupState
from gateway.base import build
from gateway.base.printable import printable
from gateway.broker.data_plane import DataPlane
from gateway.broker.statistics import report
from gateway.node.links.node import TreeNode
from gateway.process.configuration.config import GatewaySection
from gateway.process.fleet_status.pace import StatusPace, TreePlace
from gateway.process.fleet_status.status_sources import StatusFindings
from gateway.sensors.sampler import Sampler
from light_dataclasses import dataclass
from record_formats.status_record import (
    MAX_COUNTERS,
    MAX_LINKS,
    MAX_TEXT,
    LinkStatus,
    StatusRecord,
)
from tree_handler.members.hierarchy import Membership
from tree_handler.members.place import Place

_MOST_S: Final = 1e9
"""An age beyond this comes of a clock that is wrong."""


@dataclass(frozen=True, slots=True)
class OwnStatus:
    """The parts of a running gateway that are told of.

    Attributes:
        settings: its id, and where on the map it stands.
        node: its node in the tree.
        core: its broker.
        members: all gateways that it knows.
        sampler: reads its sensors.
        page: address of its console for other machines; empty for none.
        software: Hedgerow's version.
        build: of this process.

    """

    settings: GatewaySection
    node: TreeNode
    core: DataPlane
    members: Membership
    sampler: Sampler
    page: str = ""
    software: str = build.VERSION
    build: build.Build = field(default_factory=build.running)

    @property
    def own_id(self) -> str:
        """This gateway's id, as it is configured."""
        return self.settings.id

    def place_in_tree(self) -> TreePlace:
        """Return the ids of root and parent; no parent at the root, nor while the link there is
        gone."""
        tree = self.node.tree
        parent = None if tree.parent_link is None else self.node.links.get(tree.parent_link)
        return TreePlace(tree.root_id, parent.peer_id if parent else None)

    def record(
        self,
        interval_s: float,
        up_s: float,
        place: Place,
        looked: StatusFindings,
        pace: StatusPace,
    ) -> StatusRecord:
        """Return how it is now.

        Args:
            interval_s: how often it says so.
            up_s: since its start.
            place: where in the hierarchy it stands.
            looked: what was looked up.
            pace: has counted what happened to its place in the tree.

        """
        waiting, at = report.waiting(self.core), self.place_in_tree()
        links = sorted(self._links(), key=lambda link: (link.state != "forwarding", link.peer))
        return StatusRecord(
            interval_s=interval_s,
            software=self.software,
            build=self.build,
            up_s=round(up_s, 1),
            domain=place.domain,
            group=place.group,
            latitude=self.settings.latitude,
            longitude=self.settings.longitude,
            **asdict(looked.machine),
            **asdict(looked.release),
            **_told(looked.backup),
            **asdict(looked.rating),
            queue_messages=waiting.queued_messages + waiting.inflight_messages,
            queue_bytes=self._queue_bytes(),
            mqtt_clients=self.core.sessions.connected,
            root=at.root,
            parent=at.parent,
            root_cost_ms=self.node.tree.cost_ms,
            roles=tuple(self._roles(at)),
            links=tuple(links[:MAX_LINKS]),
            link_count=len(links),
            reconvergences=pace.reconvergences,
            elections=pace.elections,
            counters=self._counters(),
            page=self.page,
        )

    def _links(self) -> Iterator[LinkStatus]:
        forwarding = self.node.tree.forwarding
        for n in self.node.tree.neighbours():
            if n.link in self.node.links:
                rtt_ms = None if n.rtt_ms is None else round(n.rtt_ms, 1)
                state = "forwarding" if n.link in forwarding else "discarding"
                yield LinkStatus(n.peer_id, rtt_ms, n.role.name.lower(), state)

    def _queue_bytes(self) -> int:
        backlog_bytes = self.node.exchange.backlog_bytes
        return sum(
            link.queued_bytes + backlog_bytes(number) for number, link in self.node.links.items()
        )

    def _roles(self, at: TreePlace) -> Iterator[str]:
        hierarchy = self.members.hierarchy()
        if at.root == self.own_id:
            yield "tree-root"
        if hierarchy.root == self.own_id:
            yield "fleet-head"
        if self.own_id in hierarchy.domain_heads.values():
            yield "domain-head"
        if self.own_id in hierarchy.group_heads.values():
            yield "group-head"
        member = self.members.get(self.own_id)
        if member is not None and member.draining:
            yield "draining"

    def _counters(self) -> dict[str, int]:
        core, traffic = self.core, self.core.traffic
        counted: Mapping[str, Any] = {
            "mqtt_received": traffic.published,
            "mqtt_sent": traffic.delivered,
            "mqtt_dropped": core.dropped,
            "mqtt_refused": sum(core.refusals.counts.values()),
            "sensors_failed": self.sampler.failed,
            "sensors_skipped": self.sampler.skipped,
            "log_bytes": self.node.log.length,
            "log_appended_bytes": self.node.log.appended_bytes,
            "log_damaged_bytes": self.node.log.damaged_bytes,
            "log_lost_messages": self.node.log.lost_messages,
            **asdict(self.node.replication.counters),
            **self.node.exchange.counters,
        }
        told = [(name, int(count)) for name, count in counted.items() if count]
        return dict(told[:MAX_COUNTERS])


def _told(backup: BackupState) -> dict[str, Any]:
    """Return what a record has of backups; the reason may be anybody's words."""
    age_s = backup.backup_age_s
    return {
        "backup": backup.backup,
        "backup_why": printable(backup.backup_why)[:MAX_TEXT],
        "backup_age_s": None if age_s is None else round(min(age_s, _MOST_S), 1),
    }
