"""Status report of a gateway, as ``/status`` and ``hedgerow status`` tell it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from gateway.backups.backup_state import BackupFiles
from gateway.base import build, event_loop
from gateway.base.event_log.failures import ALL
from gateway.base.watched_tasks import WatchedTasks
from gateway.broker.broker import GatewayBroker
from gateway.broker.statistics.report import report
from gateway.node.links.groups_part import GroupsPart
from gateway.node.links.node import TreeNode
from gateway.node.links.retained_part import RetainedPart
from gateway.process.configuration.config import GatewaySection
from gateway.process.running.alert_watch import AlertWatch
from gateway.process.running.attachment import Attachment
from gateway.process.running.drain import Drain
from gateway.process.status.edge import GatewayEdge
from light_dataclasses import dataclass
from tree_handler.members.hierarchy import Membership

if TYPE_CHECKING:
    from gateway.node.links.routed_part import RoutedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """The parts of a running gateway that have something to tell.

    Attributes:
        own: gives what the configuration says of it; its place may move.
        epoch: its boot epoch.
        capability: what it is elected by.
        members: all gateways that it knows.
        node: its node in the tree.
        attachment: its way into the tree.
        broker: its broker.
        retained: the retained messages on its links.
        routed: routed mode; None in mode ``flood``.
        groups: shared subscriptions over the fleet.
        drain: how it leaves.
        edge: sensors, CoAP and certificates.
        watched: what runs beside.
        backups: how it stands with backups by a timer.
        alerts: what is wrong; None where nobody looks.
        started_s: wall-clock time of its start.

    """

    own: Callable[[], GatewaySection]
    epoch: int
    capability: float
    members: Membership
    node: TreeNode
    attachment: Attachment
    broker: GatewayBroker
    retained: RetainedPart
    routed: RoutedPart | None
    groups: GroupsPart
    drain: Drain
    edge: GatewayEdge
    watched: WatchedTasks
    backups: BackupFiles
    alerts: AlertWatch | None = None
    started_s: float = field(default_factory=time.time)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as it is now, ready for JSON."""
        own, drained = self.own(), self.drain.state
        return {
            "id": own.id,
            "domain": own.domain,
            "group": own.group,
            "boot_epoch": self.epoch,
            "capability": self.capability,
            "pid": os.getpid(),
            "event_loop": event_loop.running(),
            "version": build.VERSION,
            "build": build.running(),
            "up_s": round(time.time() - self.started_s, 1),
            "mqtt_clients": self.broker.client_count,
            "broker": report(self.broker.core),
            "retained": self.retained.status(),
            "members": [record.id for record in self.members],
            "places": {record.id: str(record.place) for record in self.members},
            "dialling": self.attachment.neighbours.status()
            | {"duplicate_links": self.node.pairing.duplicates},
            "disk": {"failure": self.node.log.failure, "free_bytes": self._free_bytes()},
            "failing": dict(self.watched.failing),
            "set_aside": dict(ALL),
            "alerts": None if self.alerts is None else self.alerts.summary(),
            "refused_links": self.node.admission.status(),
            "hierarchy": self._hierarchy(),
            "routed": None if self.routed is None else self.routed.status(),
            "shared_subscriptions": self.groups.status(),
            **self.edge.as_json(),
            "backup": self._backup(),
            "drain": None if drained is None else drained.as_json(),
            **self.node.status(),
        }

    def _backup(self) -> dict[str, Any] | None:
        """Return how it stands with backups, as it was looked at last.

        None where nobody has looked.
        """
        last = self.backups.last
        if not last.backup:
            return None
        return {"state": last.backup, "why": last.backup_why, "age_s": last.backup_age_s}

    def _free_bytes(self) -> int | None:
        """Return what the disk of its log still takes; None if it does not say."""
        try:
            disk = os.statvfs(self.own().state_dir)
        except OSError:
            return None
        return disk.f_bavail * disk.f_frsize

    def _hierarchy(self) -> dict[str, Any]:
        """Return where it stands among domains and groups (A1, A2)."""
        own_id, hierarchy = self.own().id, self.members.hierarchy()
        return {
            "root": hierarchy.root,
            "parent": hierarchy.parents[own_id],
            "substitutes": hierarchy.substitutes(own_id),
            "children": hierarchy.children[own_id],
            "suspects": sorted(self.members.suspects),
        }


class StatusPage:
    """The document ``/status``, which CoAP serves and is itself a part of.

    It says nothing before the gateway has all its parts.
    """

    def __init__(self) -> None:
        self._tells: Callable[[], dict[str, Any]] = dict

    def tell(self, status: GatewayStatus) -> None:
        """Tell of these parts from now on."""
        self._tells = status.as_json

    def as_json(self) -> dict[str, Any]:
        """Return what there is to tell now."""
        return self._tells()
