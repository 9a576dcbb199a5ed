"""Sources of alerts: what a gateway sees of itself, its machine and its neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from gateway.alerting.judging import SeenByGateway
from gateway.alerting.lost_gateways import LostGateways, site_of
from gateway.base.lasting_clock import KernelClocks
from gateway.base.watched_tasks import WatchedTasks
from gateway.broker.data_plane import DataPlane
from gateway.broker.inbound.admission import refused_for
from gateway.broker.statistics import report
from gateway.mqtt import ReasonCode
from gateway.node.links.elections import Elections
from gateway.node.links.node import TreeNode
from gateway.process.configuration.config import GatewaySection
from gateway.process.fleet_status.machine import MachineFiles, MachineReading
from gateway.process.fleet_status.own_release import ReleaseFiles, ReleaseReading
from gateway.process.fleet_status.read_only_disk import takes_nothing
from gateway.process.fleet_status.strain import StrainFiles, StrainReading
from gateway.process.running.attachment import Attachment
from gateway.process.running.sensor_watch import SensorWatch
from gateway.process.state_folder.identity import COUNTER
from gateway.process.status.edge import GatewayEdge
from light_dataclasses import dataclass

RETURNED: Final = "returned"
"""The outcome of a trial of a release that was sent back."""
WRONG_PASSWORD: Final = refused_for(ReasonCode.BAD_USER_NAME_OR_PASSWORD)
"""The broker's count of clients whose password is wrong, or was tried too often."""
HANDSHAKES_FAILED: Final = "handshakes_failed"
"""DTLS's count of peers without a key or certificate that counts."""


@dataclass(frozen=True, slots=True)
class MachineLook:
    """One look at the machine, from a thread.

    Attributes:
        machine: its figures.
        release: which release it runs.
        is_read_only: whether the disk takes nothing any more.
        is_clock_kept: whether a time service keeps the clock.
        strain: what wears it down.

    """

    machine: MachineReading
    release: ReleaseReading
    is_read_only: bool | None = None
    is_clock_kept: bool | None = None
    strain: StrainReading = StrainReading()

    @classmethod
    def unseen(cls) -> MachineLook:
        """Return what is known of a machine that could not be looked at."""
        return cls(MachineReading(), ReleaseReading())


class MachineEyes:
    """Looks at one machine: it reads files and may wait for them.

    Args:
        state_dir: on the disk that is looked at.
        root: where the kernel's files are; another folder in tests.

    """

    def __init__(self, state_dir: Path, root: Path = Path("/")) -> None:
        self._state_dir = state_dir
        self._machine = MachineFiles(state_dir, root)
        self._release = ReleaseFiles(root=root)
        self._strain = StrainFiles(state_dir, root)
        self._clocks = KernelClocks()

    def look(self) -> MachineLook:
        """Look now; not for the event loop."""
        is_read_only = takes_nothing(self._state_dir, self._state_dir / COUNTER)
        if is_read_only is None:
            return MachineLook.unseen()
        kept = self._clocks.is_synchronised()
        machine, release = self._machine.read(), self._release.read()
        return MachineLook(machine, release, is_read_only, kept, self._strain.read())


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSources:
    """The parts of a running gateway that are looked at.

    Attributes:
        own: gives what the configuration says of it; its place may move.
        node: its node in the tree.
        core: its broker.
        fleet: which gateways it has lost.
        attachment: its way into the tree.
        edge: CoAP and certificates.
        watched: what runs beside.
        elections: how often it has become root.
        sensors: what rules make of them.
        steady_s: gives the time, by a clock that nobody sets.

    """

    own: Callable[[], GatewaySection]
    node: TreeNode
    core: DataPlane
    fleet: LostGateways
    attachment: Attachment
    edge: GatewayEdge
    watched: WatchedTasks
    elections: Elections
    sensors: SensorWatch
    steady_s: Callable[[], float]

    def seen(self, look: MachineLook, untried: Collection[str] = ()) -> SeenByGateway:
        """Return what there is to be seen now.

        Args:
            look: at the machine.
            untried: parts of the process that have not been tried yet.

        """
        own, core, machine, log = self.own(), self.core, look.machine, self.node.log
        fleet = self.fleet.look()
        limits = {
            name: (used, int(getattr(core.limits, name)))
            for name, used in report.use_of_limits(core).items()
        }
        returned = look.release.trial_release, look.release.trial_why
        return SeenByGateway(
            gateway=own.id,
            site=site_of(own.place),
            ahead_s=time.time() - self.steady_s(),
            free_bytes=machine.disk_free_bytes,
            total_bytes=machine.disk_total_bytes,
            is_read_only=look.is_read_only,
            written_bytes=machine.disk_written_bytes,
            temperature_cel=machine.temperature_cel,
            under_voltage=machine.under_voltage,
            is_throttled=look.strain.is_throttled,
            disk_life_used=look.strain.disk_life_used,
            is_clock_kept=look.is_clock_kept,
            log_failure=log.failure if log.failure or log.appends else None,
            certificates=self.edge.expiry.as_json(),
            limits=limits,
            dropped=core.dropped,
            lost=log.lost_messages,
            still_lost=log.still_lost_messages,
            failed_logins=self._failed_logins(),
            links=len(self.node.links),
            dialled=self.attachment.neighbours.status()["addresses"],
            away=[missed for missed, by in fleet.told_by.items() if by == own.id],
            missing=fleet.lost,
            forgotten=fleet.forgotten,
            told_elsewhere={one for one, by in fleet.have_told.items() if by != own.id},
            sites=fleet.sites,
            above=fleet.above,
            failing=self.watched.failing,
            untried=untried,
            returned=returned if look.release.trial == RETURNED else None,
            is_release_known=bool(look.release.release),
            elections=self.elections.count,
            sensors=self.sensors.look(),
            unread_sensors=self.sensors.unread,
        )

    def say_told(self, lost: Collection[str]) -> None:
        """Say to the others of which lost gateways this one has told, as far as they do not know.

        Args:
            lost: their ids.

        """
        own = self.node.tree.identity
        for entry in self.fleet.to_say(lost, own.gateway_id, own.boot_epoch):
            self.node.publish(entry, control=True)

    def _failed_logins(self) -> int:
        over_dtls = self.edge.coap_counts().dtls.get(HANDSHAKES_FAILED, 0)
        return self.core.refusals.counts[WRONG_PASSWORD] + over_dtls
