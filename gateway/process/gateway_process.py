"""One gateway process: what starts in which order, and how it stops.

Order: key and state, then the log (nothing may be accepted before it is open), the broker, the
node's way into the tree, CoAP, and the sensors last, since they publish at once. Stopping
goes backwards. A part that can't start stops those before it and names what is wrong.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.access import files as access_files
from gateway.access.files import AccessFiles
from gateway.alerting.lost_gateways import LostGateways
from gateway.backups.standing import BackupFiles
from gateway.broker.broker import GatewayBroker, open_broker
from gateway.broker.client_roll import ClientRoll
from gateway.broker.data_plane import DataPlane
from gateway.certificates.expiry import ExpiryWatch
from gateway.coap.access import CoapAccess
from gateway.coap.oscore.devices import OscoreDevices
from gateway.coap.server import CoapServer
from gateway.coap.site import GatewaySite
from gateway.coap_topics.bridge import CoapBridge
from gateway.configuration.addresses import Addresses
from gateway.configuration.broker_settings import faults_of_broker, settings_of_broker
from gateway.configuration.config import ConfigError, GatewaySettings
from gateway.fleet_status import publishing
from gateway.fleet_status.own_status import OwnStatus
from gateway.links.elections import Elections
from gateway.links.link_admission import LinkAdmission
from gateway.links.link_tls import LinkTls
from gateway.links.node import TreeNode
from gateway.links.retained_part import RetainedPart
from gateway.links.scope import Scope
from gateway.links.settings import NodeReceiver
from gateway.log.message_log import LogError, MessageLog
from gateway.members.membership import Members
from gateway.members.roll import MemberRoll
from gateway.members.watch import MemberWatch
from gateway.policy.origins import OriginRules
from gateway.process import (
    alerts_part,
    arrivals,
    coap_part,
    reloading,
    state,
    store_limits,
    tree_mode,
)
from gateway.process.access_in_use import AccessInUse, Faces
from gateway.process.alert_sources import AlertSources
from gateway.process.alert_watch import AlertWatch
from gateway.process.attachment import Attachment
from gateway.process.client_log import ClientLog
from gateway.process.console_part import ConsolePart
from gateway.process.drain import Drain
from gateway.process.node_settings import node_settings
from gateway.process.origin_times import OriginTimes
from gateway.process.reloading import ReloadedParts
from gateway.process.relocation import relocate
from gateway.process.sensor_watch import SensorWatch
from gateway.process.status_report import GatewayStatus
from gateway.signing import receivers
from gateway.signing.fleet_proof import FleetProof
from gateway.signing.revocations import Revocations
from gateway.state_folder import listeners_file
from gateway.state_folder.copied_card import CopiedCard
from gateway.state_folder.identity import capability
from gateway.state_folder.life import Renewals
from gateway.status.edge import GatewayEdge
from gateway.steady_clock import steady_clock
from gateway.watched_tasks import WatchedTasks
from tree_handler.batch import Entry, Header, Row
from tree_handler.members.member import MemberRecord
from tree_handler.sharing.rule import EachGateway
from tree_handler.spanning.spanning_tree import Identity

if TYPE_CHECKING:
    from gateway.links.routed_part import RoutedPart

_log = logging.getLogger(__name__)


class GatewayProcess:
    """Everything that one gateway runs.

    Args:
        settings: a checked configuration.
        end: called when the process may end, since it is drained.
        read: reads the configuration again; None where there is no file.
        renewals: starts it anew, with a later boot epoch; None where nobody does.

    """

    def __init__(
        self,
        settings: GatewaySettings,
        end: Callable[[], None] = lambda: None,
        read: Callable[[], GatewaySettings] | None = None,
        renewals: Renewals | None = None,
    ) -> None:
        self._renewals = renewals or Renewals(lambda: None)
        self._settings = settings
        self._members = Members(settings.gateway.state_dir)
        self._console = ConsolePart()
        self._coap_topics = CoapBridge(settings.coap.topics.limits)
        self._stores = store_limits.of(settings)
        self.watched = WatchedTasks()
        self._backups = BackupFiles()
        self._saying: publishing.StatusPublishing | None = None
        self._stack = AsyncExitStack()
        self._read, self._end = read, end

    async def start(self) -> None:
        """Start all parts.

        Raises:
            ConfigError: a file, key or sensor is not usable, or an address is in use.

        """
        try:
            await self._start()
        except BaseException as error:
            await self.stop()
            if isinstance(error, LogError):
                raise ConfigError("gateway.state_dir", str(error)) from error
            raise

    async def stop(self) -> None:
        """Stop all parts, the last started first."""
        await self._stack.aclose()

    @property
    def mqtt_port(self) -> int:
        """The port that clients and neighbours connect to."""
        return self._broker.port

    @property
    def mqtt_ports(self) -> dict[str, int]:
        """All ports of the broker, by scheme: ``mqtt``, ``mqtts``, ``ws``, ``wss``."""
        return self._broker.ports

    def status(self) -> dict[str, Any]:
        """What this gateway is and does, ready for JSON."""
        return self._status.as_json()

    async def _start(self) -> None:
        own, key = self._settings.gateway, self._settings.tree.key()
        self._readings = state.readings(self._settings, self._accept, self._refused, self.watched)
        files = self._read_access()
        self._addresses = await Addresses.of(self._settings)
        log = state.open_log(self._settings)
        self._stack.callback(log.close)
        self._expiry = self._stack.enter_context(closing(ExpiryWatch(asyncio.get_running_loop())))
        self._members.recall(log)
        self._life = state.begin_life(own, log, self._members, self._renewals)
        self._stack.callback(self._life.end)
        epoch = self._life.epoch
        self._copied_card = CopiedCard(own.id, self._life.epoch, self._publish_query)
        self._capability = self._settings.tree.capability or capability()
        self._node = self._make_node(key, log, files.links)
        self._stack.push_async_callback(self._node.stop)
        self._stack.callback(self._proof.close)
        self._proof.ride_on(self._node, own.id, epoch, files.revoking)
        self._routed = self._make_routed(own.state_dir)
        self._watch = MemberWatch(self._node, self._members, self._settings.tree.member_timeout_s)
        self._node.add_part(self._watch)
        self._broker = await self._start_broker(files)
        self._attachment = Attachment(
            self._node, self._settings.tree, own.id, key, epoch, self.watched.tell
        )
        self._attachment.turn_to(self._members.known)
        self._stack.push_async_callback(self._attachment.stop)
        owed = dict[str, int] if self._routed is None else self._routed.core.accounts.owed
        core = self._broker.core
        self._drain = Drain(self._node, core, self._leave, self._end, owed, self.watched)
        self._stack.push_async_callback(self._drain.stop)
        self._coap = await self._start_coap(files)
        sampler, site = self._readings.sampler, self._site
        edge = GatewayEdge(sampler, self._coap, site.registry, self._expiry, site.query_counts)
        alerts = self._prepare_alerts(edge)
        self._status = GatewayStatus(
            own=own,
            epoch=epoch,
            capability=self._capability,
            members=self._members.known,
            node=self._node,
            attachment=self._attachment,
            broker=self._broker,
            retained=self._retained,
            routed=self._routed,
            groups=self._groups,
            drain=self._drain,
            edge=edge,
            watched=self.watched,
            backups=self._backups,
            alerts=alerts,
        )
        figures = None if alerts is None else alerts.figures
        at = self._node, self._routed, edge, figures
        await self._console.start(self._settings, files, core, *at)
        self._stack.push_async_callback(self._console.stop)
        self._use(files)
        await self._attachment.start(self._addresses.own, self._link_port())
        self._members.publish(self._node, self._record())
        self._start_readings()
        self._say_status()
        if alerts is not None:
            alerts_part.serve(self._settings, alerts, self._console)
            alerts.start()
            self._stack.push_async_callback(alerts.stop)
        self._tell_listeners(own.state_dir)
        # Not before: a start that fails has one line alone.
        self._expiry.follow(self._access.files.expiring)
        await self._access.note("start")

    def _use(self, files: AccessFiles) -> None:
        coap = (self._coap, self._oscore)
        faces = Faces(self._node, self._proof, self._broker, *coap, self._console, self._expiry)
        self._access = AccessInUse(self._settings, files, faces, self.watched.tell)
        self._expiry.changed = self._access.look_again
        self._stack.callback(self._access.close)

    def _read_access(self) -> AccessFiles:
        state_dir, tree = self._settings.gateway.state_dir, self._settings.tree
        with state.being_read():
            kept = Revocations(state_dir)
            files = access_files.read(self._settings, kept.lists)
            self._proof = FleetProof(files.signing, state_dir, tree.name, kept)
        return files

    def _start_readings(self) -> None:
        match, filters = self._broker.core.retention.match, self._readings.retained_filters
        self._readings.start({topic: m.payload for f in filters for topic, m in match(f)})
        self._stack.push_async_callback(self._readings.stop)

    def _say_status(self) -> None:
        own, core, members = self._settings.gateway, self._broker.core, self._members.known
        sampler, page = self._readings.sampler, self._console.page
        parts = OwnStatus(own, self._node, core, members, sampler, page=page)
        place = lambda: self._settings.gateway.place  # noqa: E731  # it may move
        self._saying = publishing.begin(parts, own, self._backups, place, self._accept)
        self._stack.push_async_callback(self._saying.stop)

    def _prepare_alerts(self, edge: GatewayEdge) -> AlertWatch | None:
        if not self._settings.alerts.enabled:
            return None
        elections = Elections(self._settings.gateway.id, lambda: self._node.tree.root_id)
        self._node.add_part(elections)
        sources = AlertSources(
            own=lambda: self._settings.gateway,  # it may move
            node=self._node,
            core=self._broker.core,
            fleet=LostGateways(self._members.known),
            attachment=self._attachment,
            edge=edge,
            watched=self.watched,
            elections=elections,
            sensors=SensorWatch(self._readings),
            steady_s=steady_clock(),
        )
        watch = alerts_part.prepare(self._settings, sources, self._accept, self._site)
        alerts_part.obey(self._settings, self._readings, watch, self._refused)
        return watch

    def _make_node(self, key: bytes, log: MessageLog, tls: LinkTls | None) -> TreeNode:
        own, tree, limits = self._settings.gateway, self._settings.tree, self._settings.limits
        self._admission = LinkAdmission(
            limits.failures_at_once,
            limits.failures_per_s,
            is_required=tree.tls == "required",
            tls=tls,
            counted=self._link_refused,
        )
        identity = Identity(own.id, self._life.epoch, self._capability, self._addresses.own)
        node = node_settings(self._settings, key, identity, self._proof.seals)
        receiver = NodeReceiver(
            self._control,
            self._deliver,
            reads_unlogged=lambda: (
                len(self._broker.core.subscriptions) > 0 or bool(self._readings.command_topics)
            ),
            outlived=self._life.outlived,
            kept_out=self._copied_card.kept_out,
            is_there=self._proof.is_there,
            unproven=self._proof.unproven,
        )
        return TreeNode(
            node, log, receiver, self._admission, Scope(tree.replicate, tree.keep_local)
        )

    def _refused(self, kind: str, who: str) -> None:
        self._broker.core.refusals.count(kind, who)

    def _link_refused(self, kind: str) -> None:
        self._broker.core.refusals.counts[kind] += 1

    def _make_routed(self, state_dir: Path) -> RoutedPart | None:
        of = self._node, self._settings.tree, state_dir
        part = tree_mode.route(*of)
        if part is not None:
            self._stack.push_async_callback(part.stop)
        self._groups = tree_mode.share(*of, part, self._members.known)
        return part

    def _link_port(self) -> int:
        """Where neighbours open links; 0 if they can't."""
        if self._settings.tree.tls == "off":
            return self._broker.ports.get("mqtt", 0)
        return self._broker.ports["mqtts"] if self._admission.tls is not None else 0

    async def _start_broker(self, files: AccessFiles) -> GatewayBroker:
        own = (self._settings.gateway.id, self._life.epoch)
        self._origins = OriginRules(files.broker.policy, self._members.known, self._proof)
        self._times = OriginTimes(own, self._settings.gateway.state_dir)
        client_log = ClientLog(asyncio.get_running_loop())
        self._stack.callback(client_log.close)
        with faults_of_broker():
            broker = await open_broker(
                settings_of_broker(self._settings, self._addresses.listened, self._stores.broker),
                files.broker,
                tree=self._readings.overhear(self._node),
                links=self._node,
                memory=self._times.memory(self._node),
                recovered=self._broker_recovered,
                interest=self._routed,
                events=client_log,
                private=self._coap_topics,
                origins=self._origins,
                groups=self._groups if self._groups.decides else EachGateway(),
            )
        self._stack.push_async_callback(broker.shutdown)
        return broker

    def _broker_recovered(self, core: DataPlane) -> None:
        settle_s, refused = self._settings.tree.repair_interval_s, self._proof.unproven_retained
        self._retained = RetainedPart(self._node, core.shared_retention, settle_s, refused)
        self._node.add_part(self._retained)
        self._stack.callback(self._times.ride_on(self._node, self._retained).save)
        take_over, may_hold = core.arriving.take_over, self._origins.may_hold
        self._groups.begin(core.known_routes.touched_by, take_over, may_hold)
        if self._routed is not None:
            wanted = [f for one in core.sessions.values() for f in one.subscriptions]
            wanted += self._readings.command_topics
            self._routed.begin(wanted, lambda: core.sessions.connected)
            self._readings.wish(self._routed)

    async def reload(self) -> None:
        """Read neighbours, sensors and access again; if anything is wrong, all stays."""
        parts = ReloadedParts(
            access=self._access,
            attachment=self._attachment,
            node=self._node,
            oscore=self._oscore,
            readings=self._readings,
            revocations=self._proof.revocations,
        )
        try:
            settings, at_start_alone = await reloading.reload(self._settings, self._read, parts)
        except (ConfigError, OSError) as error:
            _log.error("nothing is read again: %s", error)
            self.watched.tell("reload", str(error))
            return
        self.watched.tell("reload", "")
        moved_from, self._settings = self._settings.gateway, settings
        if settings.gateway.place != moved_from.place:
            around = self._members, self._readings, self._site
            relocate(settings, *around, self._broker.core.retention)
            self._status = dataclasses.replace(self._status, own=settings.gateway)
        for field in at_start_alone:
            _log.warning("%s has changed: that takes a restart", field)
        _log.info("neighbours, sensors, certificates, passwords, keys and policy are read again")
        await self._access.note("reload")

    async def _start_coap(self, files: AccessFiles) -> CoapServer:
        own, coap = self._settings.gateway, self._settings.coap
        access = CoapAccess(files.policy)
        self._oscore = OscoreDevices(own.state_dir)
        self._oscore.contexts = state.oscore_contexts(self._oscore, files.oscore)
        self._site = GatewaySite(
            coap_part.owner(
                self._settings, self._life.epoch, access, self._proof, self._stores, self.watched
            ),
            MemberRoll(self._members, self._node),
            self._readings.sampler,
            carrier=self._node.direct,
            status=self.status,
            drain=self._drain.start,
            clients=ClientRoll(self._broker.core),
        )
        self._stack.push_async_callback(self._site.stop)
        await coap_part.recall(self._site)
        self._stack.callback(coap_part.bridge(self._coap_topics, self._site, access, self._broker))
        server = await coap_part.serve(
            self._site, coap, self._addresses, files, self._oscore, self._stores.coap, self._stack
        )
        self._site.start(self._readings, self._addresses.uri(server.ports), self._members.offer)
        return server

    def _record(self) -> MemberRecord:
        ports = self._broker.ports | self._coap.ports | {"link": self._link_port()}
        life = self._life.epoch, self._capability
        record = state.record(self._settings.gateway, *life, self._addresses.own, ports)
        return dataclasses.replace(record, offers=self._site.directory.offers)

    def _tell_listeners(self, state_dir: Path) -> None:
        ports = self._broker.ports | self._coap.ports
        listeners = self._addresses.at(ports) | self._console.listeners
        listeners_file.tell(state_dir, self._settings.gateway.id, listeners)
        self._stack.callback(listeners_file.remove, state_dir)

    def _accept(self, entry: Entry) -> None:
        self._broker.accept(entry)

    def _publish_query(self, topic: str, payload: bytes) -> None:
        self._node.publish(Entry(topic, payload), control=True)

    def _deliver(self, rows: list[Row], header: Header) -> None:
        arrivals.hand_out(rows, header, self._broker.core, self._readings, self._origins)

    def _control(self, entry: Entry, header: Header) -> None:
        with arrivals.heard(entry, header, self._refused):
            if self._proof.only_receives(header.origin):
                receivers.check(entry)
            self._members.receive(entry, header)
            self._watch.hear(entry, header)
            self._copied_card.receive(entry, header)
            self._proof.receive(entry, header)
            self._site.receive(entry.topic, entry.payload)
            self._groups.control(entry, header)
            if self._routed is not None:
                self._routed.control(entry, header)
                self._readings.met(header.origin)

    def _leave(self) -> None:
        """What a drain begins with: no readings any more, and nobody's head."""
        self._readings.end()
        self._members.change(draining=True)
        if self._saying is not None:
            self._saying.leave()
        _log.info("%s is draining", self._settings.gateway.id)
