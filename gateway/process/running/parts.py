"""The parts of one gateway process, as records: what each stage of its start gives to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.watched_tasks import WatchedTasks
from gateway.broker.broker import GatewayBroker
from gateway.coap.oscore.devices import OscoreDevices
from gateway.coap.server import CoapServer
from gateway.coap.site import GatewaySite
from gateway.coap.topics.bridge import CoapBridge
from gateway.log.message_log import MessageLog
from gateway.node.links.groups_part import GroupsPart
from gateway.node.links.link_admission import LinkAdmission
from gateway.node.links.node import TreeNode
from gateway.node.links.retained_part import RetainedPart
from gateway.node.members.membership import Members
from gateway.node.signing.fleet_proof import FleetProof
from gateway.process.access.device_keys import DeviceKeys
from gateway.process.access.files import AccessFiles
from gateway.process.configuration.addresses import Addresses
from gateway.process.configuration.config import GatewaySettings
from gateway.process.running.access_in_use import AccessInUse
from gateway.process.running.alert_watch import AlertWatch
from gateway.process.running.arrivals import NodeArrivals
from gateway.process.running.attachment import Attachment
from gateway.process.running.console_part import ConsolePart
from gateway.process.running.drain import Drain
from gateway.process.running.memory_budget import StoreLimits
from gateway.process.running.own_messages import OwnMessages
from gateway.process.running.page_part import PagePart
from gateway.process.running.readings import Readings
from gateway.process.running.settings_in_use import SettingsInUse
from gateway.process.running.status_report import GatewayStatus
from gateway.process.state_folder.life import GatewayLife, Renewals
from gateway.trust.certificates.expiry import ExpiryWatch
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.node.links.routed_part import RoutedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInputs:
    """The things that a gateway process is given.

    Attributes:
        settings: by which it goes.
        stack: closes what was opened.
        watched: what runs beside.
        end: called when the process may end, since it is drained.
        renewals: starts it anew, with a later boot epoch.

    """

    settings: SettingsInUse
    stack: contextlib.AsyncExitStack
    watched: WatchedTasks
    end: Callable[[], None]
    renewals: Renewals

    @property
    def at_start(self) -> GatewaySettings:
        """Return the configuration by which the gateway starts."""
        return self.settings.now


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseParts:
    """The parts that all other parts need."""

    page: PagePart
    messages: OwnMessages
    refusals: CountedLines
    stores: StoreLimits
    readings: Readings
    files: AccessFiles
    devices: DeviceKeys
    proof: FleetProof
    addresses: Addresses
    log: MessageLog
    expiry: ExpiryWatch
    members: Members
    life: GatewayLife
    capability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeParts:
    """The gateway's node, and what rides on its links."""

    node: TreeNode
    arrivals: NodeArrivals
    admission: LinkAdmission
    routed: RoutedPart | None
    groups: GroupsPart


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """The broker, and what it shares with other gateways."""

    broker: GatewayBroker
    coap_topics: CoapBridge
    retained: RetainedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class CoapParts:
    """The parts that serve CoAP."""

    site: GatewaySite
    oscore: OscoreDevices
    server: CoapServer


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """The parts of a gateway that runs."""

    access: AccessInUse
    admission: LinkAdmission
    alerts: AlertWatch | None
    attachment: Attachment
    broker: GatewayBroker
    coap: CoapServer
    coap_topics: CoapBridge
    console: ConsolePart
    drain: Drain
    expiry: ExpiryWatch
    groups: GroupsPart
    life: GatewayLife
    members: Members
    node: TreeNode
    oscore: OscoreDevices
    proof: FleetProof
    readings: Readings
    routed: RoutedPart | None
    site: GatewaySite
    status: GatewayStatus
