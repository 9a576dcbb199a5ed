"""Makes the parts of one gateway process, in the order in which a gateway starts.

Each stage makes its parts of those before it and gives them away as a record that does not change:
the ground (key, files, log, life), the tree, the broker, CoAP. What a part has opened the stack
closes, the last opened first; so a stage that fails leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging

from gateway.alerting.lost_gateways import LostGateways
from gateway.backups.backup_state import BackupFiles
from gateway.base.steady_clock import steady_clock
from gateway.broker.broker import GatewayBroker, open_broker
from gateway.broker.client_roll import ClientRoll
from gateway.broker.data_plane import DataPlane
from gateway.broker.limits import counted_refusals
from gateway.coap.access import CoapAccess
from gateway.coap.oscore.devices import OscoreDevices
from gateway.coap.site import GatewaySite
from gateway.coap.topics.bridge import CoapBridge
from gateway.node.links.elections import Elections
from gateway.node.links.link_admission import LinkAdmission
from gateway.node.links.node import TreeNode
from gateway.node.links.retained_part import RetainedPart
from gateway.node.links.scope import Scope
from gateway.node.links.settings import NodeReceiver
from gateway.node.links.tcp import TcpLinks
from gateway.node.members.membership import Members
from gateway.node.members.roll import MemberRoll
from gateway.node.members.watch import MemberWatch
from gateway.node.signing import receivers
from gateway.node.signing.fleet_proof import FleetProof
from gateway.node.signing.revocations import Revocations
from gateway.process.access import files as access_files
from gateway.process.access.device_keys import DeviceKeyFile
from gateway.process.configuration.addresses import Addresses
from gateway.process.configuration.broker_settings import faults_of_broker, settings_of_broker
from gateway.process.configuration.config import GatewaySettings
from gateway.process.fleet_status import publishing
from gateway.process.fleet_status.own_status import OwnStatus
from gateway.process.running import alerts_part, coap_part, state, store_limits, tree_mode
from gateway.process.running.access_in_use import AccessInUse, Faces
from gateway.process.running.alert_sources import AlertSources
from gateway.process.running.alert_watch import AlertWatch
from gateway.process.running.arrivals import LocalReaders, NodeArrivals
from gateway.process.running.attachment import Attachment
from gateway.process.running.client_log import ClientLog
from gateway.process.running.console_part import ConsolePart
from gateway.process.running.device_keys_in_use import DeviceKeysInUse
from gateway.process.running.drain import Drain
from gateway.process.running.node_settings import node_settings
from gateway.process.running.origin_times import OriginTimes
from gateway.process.running.own_messages import OwnMessages
from gateway.process.running.page_part import PageDesks, PagePart
from gateway.process.running.parts import (
    BaseParts,
    BrokerParts,
    CoapParts,
    GatewayParts,
    ProcessInputs,
    TreeParts,
)
from gateway.process.running.sensor_watch import SensorWatch
from gateway.process.running.status_report import GatewayStatus, StatusPage
from gateway.process.running.users_in_use import UsersInUse
from gateway.process.state_folder import listeners_file
from gateway.process.state_folder.copied_card import CopiedCard
from gateway.process.state_folder.identity import capability
from gateway.process.status.edge import GatewayEdge
from gateway.trust.certificates.expiry import ExpiryWatch
from gateway.trust.policy.origins import OriginRules
from tree_handler.batch import Entry, Header
from tree_handler.members.member import MemberRecord
from tree_handler.sharing.rule import EachGateway
from tree_handler.spanning.spanning_tree import Identity

_log = logging.getLogger(__name__)


async def build(around: ProcessInputs) -> GatewayParts:
    """Make and start all parts of a gateway.

    Raises:
        ConfigError: a file, key or sensor is not usable, or an address is in use.
        LogError: the log can't be read or written.

    """
    settings, stack = around.at_start, around.stack
    ground = await _ground(around)
    tree = _tree(around, ground)
    served = await _broker(around, ground, tree)
    core = served.broker.core
    attachment = _attachment(around, ground, tree.node)
    drain = _drain(around, ground, tree, core)
    page = StatusPage()
    coap = await _coap(around, ground, tree, served, drain, page)
    edge = GatewayEdge(
        ground.readings.sampler,
        coap.server,
        coap.site.registry,
        ground.expiry,
        coap.site.query_counts,
    )
    alerts = _alerts(around, ground, tree, core, attachment, edge, coap.site)
    status = GatewayStatus(
        own=around.settings.own,
        epoch=ground.life.epoch,
        capability=ground.capability,
        members=ground.members.known,
        node=tree.node,
        attachment=attachment,
        broker=served.broker,
        retained=served.retained,
        routed=tree.routed,
        groups=tree.groups,
        drain=drain,
        edge=edge,
        watched=around.watched,
        backups=BackupFiles(),
        alerts=alerts,
    )
    page.tell(status)
    console = ConsolePart()
    access = _access(around, ground, tree.node, served.broker, coap, console)
    keys = _device_keys(around, ground, coap, access)
    desks = PageDesks(keys, UsersInUse(access))
    web = ground.page.open(ground.files, served.broker, coap.site, ground.readings, desks)
    await console.start(
        settings,
        ground.files,
        core,
        tree.node,
        tree.routed,
        edge,
        web=web,
        figures=None if alerts is None else alerts.figures,
    )
    stack.push_async_callback(console.stop)
    parts = GatewayParts(
        access=access,
        admission=tree.admission,
        alerts=alerts,
        attachment=attachment,
        broker=served.broker,
        coap=coap.server,
        coap_topics=served.coap_topics,
        console=console,
        drain=drain,
        expiry=ground.expiry,
        groups=tree.groups,
        life=ground.life,
        members=ground.members,
        node=tree.node,
        oscore=coap.oscore,
        proof=ground.proof,
        readings=ground.readings,
        routed=tree.routed,
        site=coap.site,
        status=status,
    )
    await _go_public(around, ground, parts)
    return parts


# -- stages ------------------------------------------------------------------------------------


async def _ground(around: ProcessInputs) -> BaseParts:
    settings, stack = around.at_start, around.stack
    own, loop = settings.gateway, asyncio.get_running_loop()
    page = PagePart(settings)
    stack.callback(page.close)
    messages, refusals = OwnMessages(), counted_refusals(loop.time)
    readings = state.readings(settings, messages.accept, refusals.count, around.watched)
    with state.being_read():
        kept = Revocations(own.state_dir)
        files = access_files.read(settings, kept.lists)
        devices = DeviceKeyFile(own.state_dir).recalled()
        proof = FleetProof(files.signing, own.state_dir, settings.tree.name, kept)
    addresses = await Addresses.of(settings)
    log = state.open_log(settings)
    stack.callback(log.close)
    expiry = stack.enter_context(contextlib.closing(ExpiryWatch(loop)))
    members = Members(own.state_dir)
    members.recall(log)
    life = state.begin_life(own, log, members, around.renewals)
    stack.callback(life.end)
    return BaseParts(
        page=page,
        messages=messages,
        refusals=refusals,
        stores=store_limits.of(settings),
        readings=readings,
        files=files,
        devices=devices,
        proof=proof,
        addresses=addresses,
        log=log,
        expiry=expiry,
        members=members,
        life=life,
        capability=settings.tree.capability or capability(),
    )


def _tree(around: ProcessInputs, ground: BaseParts) -> TreeParts:
    settings, stack, proof = around.at_start, around.stack, ground.proof
    own, tree, epoch = settings.gateway, settings.tree, ground.life.epoch
    admission = _admission(settings, ground)
    arrivals = NodeArrivals(ground.refusals.count)

    # The node tells it whom it keeps out, and sends what it says of that.
    def say(topic: str, payload: bytes) -> None:
        node.publish(Entry(topic, payload), control=True)

    copied = CopiedCard(own.id, epoch, say)
    receiver = NodeReceiver(
        arrivals.control,
        arrivals.deliver,
        reads_unlogged=arrivals.reads_unlogged,
        outlived=ground.life.outlived,
        kept_out=copied.kept_out,
        is_there=proof.is_there,
        unproven=proof.unproven,
    )
    identity = Identity(own.id, epoch, ground.capability, ground.addresses.own)
    node = TreeNode(
        node_settings(settings, tree.key(), identity, proof.seals),
        ground.log,
        receiver,
        admission,
        Scope(tree.replicate, tree.keep_local),
    )
    stack.push_async_callback(node.stop)
    stack.callback(proof.close)
    proof.ride_on(node, own.id, epoch, ground.files.revoking)
    routed = tree_mode.route(node, tree, own.state_dir)
    if routed is not None:
        stack.push_async_callback(routed.stop)
    groups = tree_mode.share(node, tree, own.state_dir, routed, ground.members.known)
    watch = MemberWatch(node, ground.members, tree.member_timeout_s)
    node.add_part(watch)

    def check(entry: Entry, header: Header) -> None:
        if proof.only_receives(header.origin):
            receivers.check(entry)

    arrivals.tell(
        check,
        ground.members.receive,
        watch.hear,
        copied.receive,
        proof.receive,
    )
    return TreeParts(
        node=node, arrivals=arrivals, admission=admission, routed=routed, groups=groups
    )


def _admission(settings: GatewaySettings, ground: BaseParts) -> LinkAdmission:
    limits = settings.limits

    def counted(kind: str) -> None:
        ground.refusals.counts[kind] += 1

    return LinkAdmission(
        limits.failures_at_once,
        limits.failures_per_s,
        is_required=settings.tree.tls == "required",
        tls=ground.files.links,
        counted=counted,
    )


async def _broker(around: ProcessInputs, ground: BaseParts, tree: TreeParts) -> BrokerParts:
    settings, stack, readings, node = around.at_start, around.stack, ground.readings, tree.node
    own = settings.gateway.id, ground.life.epoch
    origins = OriginRules(ground.files.broker.policy, ground.members.known, ground.proof)
    times = OriginTimes(own, settings.gateway.state_dir)
    coap_topics = CoapBridge(settings.coap.topics.limits)
    client_log = ClientLog(asyncio.get_running_loop())
    stack.callback(client_log.close)
    recovered: list[RetainedPart] = []
    ground.page.overhear(node.origin)
    node.origin.overheard_by(readings)
    with faults_of_broker():
        broker = await open_broker(
            settings_of_broker(settings, ground.addresses.listened, ground.stores.broker),
            ground.files.broker,
            tree=node.origin,
            links=TcpLinks(node),
            memory=times.memory(node),
            recovered=lambda core: recovered.append(
                _share_recovered(around, ground, tree, core, origins, times)
            ),
            interest=tree.routed,
            events=client_log,
            private=coap_topics,
            origins=origins,
            groups=tree.groups if tree.groups.decides else EachGateway(),
            refusals=ground.refusals,
        )
    stack.push_async_callback(broker.shutdown)
    ground.messages.go_to(broker)
    return BrokerParts(broker=broker, coap_topics=coap_topics, retained=recovered[0])


def _share_recovered(
    around: ProcessInputs,
    ground: BaseParts,
    tree: TreeParts,
    core: DataPlane,
    origins: OriginRules,
    times: OriginTimes,
) -> RetainedPart:
    """Have what the broker has recovered shared with neighbours, before anybody is let in."""
    node, routed, readings = tree.node, tree.routed, ground.readings
    settle_s = around.at_start.tree.repair_interval_s
    retained = RetainedPart(node, core.shared_retention, settle_s, ground.proof.unproven_retained)
    node.add_part(retained)
    around.stack.callback(times.ride_on(node, retained).save)
    tree.groups.begin(
        core.known_routes.touched_by, core.remote_delivery.take_over, origins.may_hold
    )
    if routed is not None:
        wanted = [f for one in core.sessions.values() for f in one.subscriptions]
        wanted += readings.command_topics
        routed.begin(wanted, lambda: core.sessions.connected)
        readings.wish(routed)
        ground.page.wish(routed)

    def control(entry: Entry, header: Header) -> None:
        tree.groups.control(entry, header)
        if routed is not None:
            routed.control(entry, header)
            readings.met(header.origin)

    # Neighbours come to the broker's port: nothing that the first one brings may find nobody.
    tree.arrivals.tell(control)
    tree.arrivals.give(LocalReaders(core, readings, origins))
    tree.arrivals.give(ground.page)
    return retained


def _attachment(around: ProcessInputs, ground: BaseParts, node: TreeNode) -> Attachment:
    settings = around.at_start
    attachment = Attachment(
        node,
        settings.tree,
        settings.gateway.id,
        settings.tree.key(),
        ground.life.epoch,
        around.watched.tell,
    )
    attachment.turn_to(ground.members.known)
    around.stack.push_async_callback(attachment.stop)
    return attachment


def _drain(around: ProcessInputs, ground: BaseParts, tree: TreeParts, core: DataPlane) -> Drain:
    owed = dict[str, int] if tree.routed is None else tree.routed.core.accounts.owed
    drain = Drain(tree.node, core, around.end, owed, around.watched)
    own = around.settings.own
    drain.begins_with(lambda: _log.info("%s is draining", own().id))
    drain.begins_with(ground.readings.end)
    drain.begins_with(lambda: ground.members.change(draining=True))
    around.stack.push_async_callback(drain.stop)
    return drain


async def _coap(
    around: ProcessInputs,
    ground: BaseParts,
    tree: TreeParts,
    served: BrokerParts,
    drain: Drain,
    page: StatusPage,
) -> CoapParts:
    settings, stack, files = around.at_start, around.stack, ground.files
    own, addresses, epoch = settings.gateway, ground.addresses, ground.life.epoch
    access = CoapAccess(files.policy)
    oscore = OscoreDevices(own.state_dir)
    oscore.contexts = state.oscore_contexts(oscore, files.oscore)
    site = GatewaySite(
        coap_part.owner(settings, epoch, access, ground.proof, ground.stores, around.watched),
        MemberRoll(ground.members, tree.node),
        ground.readings.sampler,
        carrier=tree.node.direct,
        status=page.as_json,
        drain=drain.start,
        clients=ClientRoll(served.broker.core),
    )
    stack.push_async_callback(site.stop)
    await coap_part.recall(site)
    stack.callback(coap_part.bridge(served.coap_topics, site, access, served.broker))
    server = await coap_part.serve(
        site,
        settings.coap,
        addresses,
        dataclasses.replace(files, keystore=ground.devices.over(files.keystore)),
        oscore,
        ground.stores.coap,
        stack,
    )
    site.start(ground.readings, addresses.uri(server.ports), ground.members.offer)
    tree.arrivals.tell(lambda entry, header: site.receive(entry.topic, entry.payload))
    return CoapParts(site=site, oscore=oscore, server=server)


def _alerts(
    around: ProcessInputs,
    ground: BaseParts,
    tree: TreeParts,
    core: DataPlane,
    attachment: Attachment,
    edge: GatewayEdge,
    site: GatewaySite,
) -> AlertWatch | None:
    settings, node, readings = around.at_start, tree.node, ground.readings
    if not settings.alerts.enabled:
        return None
    elections = Elections(settings.gateway.id, lambda: node.tree.root_id)
    node.add_part(elections)
    fleet = LostGateways(ground.members.known)
    tree.arrivals.tell(fleet.receive)
    sources = AlertSources(
        own=around.settings.own,
        node=node,
        core=core,
        fleet=fleet,
        attachment=attachment,
        edge=edge,
        watched=around.watched,
        elections=elections,
        sensors=SensorWatch(readings),
        steady_s=steady_clock(),
    )
    watch = alerts_part.prepare(settings, sources, ground.messages.accept, site)
    alerts_part.obey(settings, readings, watch, ground.refusals.count)
    return watch


def _access(
    around: ProcessInputs,
    ground: BaseParts,
    node: TreeNode,
    broker: GatewayBroker,
    coap: CoapParts,
    console: ConsolePart,
) -> AccessInUse:
    faces = Faces(
        node=node,
        proof=ground.proof,
        broker=broker,
        coap=coap.server,
        oscore=coap.oscore,
        console=console,
        page=ground.page,
        expiry=ground.expiry,
    )
    access = AccessInUse(around.at_start, ground.files, faces, ground.devices, around.watched.tell)
    ground.expiry.changed = access.look_again
    around.stack.callback(access.close)
    return access


def _device_keys(
    around: ProcessInputs, ground: BaseParts, coap: CoapParts, access: AccessInUse
) -> DeviceKeysInUse:
    secure = {scheme: port for scheme, port in coap.server.ports.items() if scheme == "coaps"}
    uri = ground.addresses.uri(secure) if secure else ""
    return DeviceKeysInUse(around.at_start.gateway.state_dir, access, uri)


# -- and out -----------------------------------------------------------------------------------


async def _go_public(around: ProcessInputs, ground: BaseParts, parts: GatewayParts) -> None:
    """Find neighbours, tell the fleet and read the sensors: all of it needs parts that run."""
    settings, stack = around.at_start, around.stack
    await parts.attachment.start(ground.addresses.own, _link_port(settings, parts))
    parts.members.publish(parts.node, _record(settings, ground, parts))
    retention = parts.broker.core.retention
    parts.readings.start(retention.payloads, retention.kept_on)
    stack.push_async_callback(parts.readings.stop)
    _say_status(around, ground, parts)
    if parts.alerts is not None:
        alerts_part.serve(settings, parts.alerts, parts.console)
        parts.alerts.start()
        stack.push_async_callback(parts.alerts.stop)
    own = settings.gateway
    ports = parts.broker.ports | parts.coap.ports
    listeners = ground.addresses.at(ports) | parts.console.listeners
    listeners_file.tell(own.state_dir, own.id, listeners)
    stack.callback(listeners_file.remove, own.state_dir)
    # Not before: a start that fails has one line alone.
    parts.expiry.follow(parts.access.files.expiring)
    await parts.access.note("start")


def _link_port(settings: GatewaySettings, parts: GatewayParts) -> int:
    """Return where neighbours open links; 0 if they can't."""
    if settings.tree.tls == "off":
        return parts.broker.ports.get("mqtt", 0)
    return parts.broker.ports["mqtts"] if parts.admission.tls is not None else 0


def _record(settings: GatewaySettings, ground: BaseParts, parts: GatewayParts) -> MemberRecord:
    ports = parts.broker.ports | parts.coap.ports | {"link": _link_port(settings, parts)}
    life = parts.life.epoch, ground.capability
    record = state.record(settings.gateway, *life, ground.addresses.own, ports)
    return dataclasses.replace(record, offers=parts.site.directory.offers)


def _say_status(around: ProcessInputs, ground: BaseParts, parts: GatewayParts) -> None:
    own, core, members = around.at_start.gateway, parts.broker.core, parts.members.known
    sampler, page = parts.readings.sampler, parts.console.page
    told = OwnStatus(own, parts.node, core, members, sampler, page=page)
    saying = publishing.begin(
        told,
        own,
        parts.status.backups,
        lambda: around.settings.own().place,  # it may move
        ground.messages.accept,
    )
    parts.drain.begins_with(saying.leave)
    around.stack.push_async_callback(saying.stop)
