"""One gateway process: what starts in which order, and how it stops.

Order: key and state, then the log (nothing may be accepted before it is open), the broker, the
node's way into the tree, CoAP, and the sensors last, since they publish at once. Stopping
goes backwards. A part that can't start stops those before it and names what is wrong.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import logging
import os
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from cloud_ingest.record import Record
from dtls.errors import DtlsError
from dtls.keystore import Keystore
from gateway import access_files, build, config_change, event_loop, listeners_file, sd_notify, state
from gateway.broker.access.plugins import PluginConfigError
from gateway.broker.broker import GatewayBroker
from gateway.broker.durability.store import StoreError
from gateway.broker.listeners.listener import Listener, ListenError
from gateway.broker.listeners.websocket import WebSocketRules
from gateway.broker.server import BrokerCore
from gateway.broker.statistics.report import report
from gateway.coap.server import CoapServer
from gateway.coap.site import GatewaySite
from gateway.config import ConfigError, GatewaySettings, MqttSection
from gateway.console import health, metrics
from gateway.console.server import Console
from gateway.drain import Drain
from gateway.history import LogHistory
from gateway.identity import capability, count_on_from
from gateway.links import mode
from gateway.links.attachment import Attachment
from gateway.links.discovery import DiscoveryError
from gateway.links.handshake import Credentials
from gateway.links.link_admission import LinkAdmission
from gateway.links.node import TreeNode
from gateway.links.retained_part import RetainedPart
from gateway.links.routed_part import RoutedPart
from gateway.links.scope import Scope
from gateway.log.message_log import MessageLog
from gateway.membership import Members, MemberWatch
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from tree_handler.batch import Entry, Header, Row
from tree_handler.member import MemberRecord
from tree_handler.spanning import boot_epoch
from tree_handler.spanning.spanning_tree import Identity, Parameters

PORT_FIELDS = {
    "mqtt": "port",
    "mqtts": "tls_port",
    "ws": "websocket_port",
    "wss": "secure_websocket_port",
}
"""What the configuration calls the broker's ports."""

_log = logging.getLogger(__name__)


class GatewayProcess:
    """Everything that one gateway runs.

    Args:
        settings: a checked configuration.
        end: called when the process may end, since it is drained.
        read: reads the configuration again; None where there is no file.
        again: called when the gateway has to start anew, with a later boot epoch.

    """

    def __init__(
        self,
        settings: GatewaySettings,
        end: Callable[[], None] = lambda: None,
        read: Callable[[], GatewaySettings] | None = None,
        again: Callable[[], None] = lambda: None,
    ) -> None:
        self._again = again
        self._settings = settings
        self._read = read
        self._prefix = settings.gateway.place.prefix(settings.gateway.id)
        self._members = Members(settings.gateway.state_dir)
        self._stack = AsyncExitStack()
        self._started_s = time.time()
        self._end = end

    async def start(self) -> None:
        """Start all parts.

        Raises:
            ConfigError: a file, key or sensor is not usable, or an address is in use; it names
                the field.

        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all parts, the last started first."""
        sd_notify.notify("STOPPING=1")
        await self._stack.aclose()

    @property
    def mqtt_port(self) -> int:
        """The port that clients and neighbours connect to."""
        return self._broker.port

    @property
    def mqtt_ports(self) -> dict[str, int]:
        """All ports of the broker, by scheme: ``mqtt``, ``mqtts``, ``ws``, ``wss``."""
        return self._broker.ports

    async def _start(self) -> None:
        own = self._settings.gateway
        key = self._settings.tree.key()
        keystore = state.keystore(self._settings)
        sensors = state.sensors(self._settings)
        log = state.open_log(self._settings)
        self._stack.callback(log.close)
        self._epoch = state.count_start(own.state_dir)
        self._known_epoch = self._epoch
        self._members.recall(log)
        self._capability = self._settings.tree.capability or capability()
        self._node = self._make_node(key, log)
        self._stack.push_async_callback(self._node.stop)
        self._routed = self._make_routed(own.state_dir)
        self._node.add_part(MemberWatch(self._node, self._members, self._settings.tree))
        self._broker = await self._start_broker()
        self._attachment = Attachment(self._node, self._settings.tree, own.id, key, self._epoch)
        self._stack.push_async_callback(self._attachment.stop)
        self._console = await self._start_console()
        self._sampler = Sampler(self._publish_reading)
        owed = dict[str, int] if self._routed is None else self._routed.core.accounts.owed
        self._drain = Drain(self._node, self._broker.core, self._leave, self._end, owed)
        self._stack.push_async_callback(self._drain.stop)
        self._coap = await self._start_coap(keystore, sensors)
        try:
            await self._attachment.start(self._settings.address, self._link_port())
        except DiscoveryError as error:
            raise ConfigError("tree.discovery_interface", str(error)) from error
        self._members.publish(self._node, self._record())
        self._sampler.add_all(sensors)
        self._sampling = asyncio.create_task(self._sampler.run(), name="sensors")
        self._stack.push_async_callback(_cancelled, self._sampling)
        self._tell_listeners(own.state_dir)

    # -- parts -----------------------------------------------------------------------------------

    def _outlived(self, epoch: int) -> None:
        """Begin again behind a later life that a neighbour knows of: this disk is lost or restored.

        Others have messages under the numbers that this life would give to its own.
        """
        if epoch > self._known_epoch:
            self._known_epoch = epoch
            begin = boot_epoch.behind(epoch, secrets.randbits(64))
            count_on_from(self._settings.gateway.state_dir, begin - 1)
            _log.error("a neighbour knows boot %d of this gateway, which starts again", epoch)
            self._again()

    def _make_node(self, key: bytes, log: MessageLog) -> TreeNode:
        own, tree = self._settings.gateway, self._settings.tree
        self._admission = LinkAdmission(self._settings.limits, is_required=tree.tls == "required")
        return TreeNode(
            Credentials(own.id, tree.name, key, mode=tree.mode),
            Identity(own.id, self._epoch, self._capability, self._settings.address),
            Parameters(hello_s=tree.hello_s),
            log,
            deliver=self._deliver,
            control=self._control,
            reads_unlogged=lambda: len(self._broker.core.tree) > 0,
            sync=self._settings.log.durability == "sync",
            sync_interval_s=self._settings.log.sync_interval_ms / 1000,
            repair_interval_s=tree.repair_interval_s,
            admission=self._admission,
            scope=Scope(tree.replicate, tree.keep_local),
            floods_clients=tree.mode == "flood",
            outlived=self._outlived,
        )

    def _make_routed(self, state_dir: Path) -> RoutedPart | None:
        part = mode.route(self._node, self._settings.tree, state_dir)
        if part is not None:
            self._stack.push_async_callback(part.stop)
        return part

    def _link_port(self) -> int:
        """Where neighbours open links; 0 if they can't."""
        if self._settings.tree.tls == "off":
            return self._broker.port
        return self._broker.ports["mqtts"] if self._admission.tls is not None else 0

    async def _start_broker(self) -> GatewayBroker:
        mqtt, access = self._settings.mqtt, self._settings.access
        files = access_files.read(self._settings)
        self._admission.tls = files.links
        try:
            broker = GatewayBroker(
                mqtt.host,
                mqtt.port,
                anonymous=access.anonymous,
                passwords=files.passwords,
                commit=self._node.publish_all,
                links=self._node.accept,
                why_no_link=self._admission.why_no_link,
                carries_unlogged=lambda: self._node.carries_unlogged,
                limits=self._settings.limits,
                access=files.access,
                listeners=_listeners(mqtt),
                tls=files.tls,
                websocket_rules=WebSocketRules(mqtt.websocket_path, tuple(mqtt.websocket_origins)),
                plugins=mqtt.plugins,
                history=LogHistory(self._node, (self._settings.gateway.id, self._epoch)),
                state_file=self._settings.gateway.state_dir / "broker.sqlite3",
                recovered=self._broker_recovered,
                sys_interval_s=mqtt.sys_interval_s,
            )
        except PluginConfigError as error:
            raise ConfigError("mqtt.plugins", str(error)) from error
        try:
            await broker.start()
        except StoreError as error:
            raise ConfigError("gateway.state_dir", str(error)) from error
        except ListenError as error:
            where = f"mqtt.{PORT_FIELDS[error.listener.scheme]}"
            raise ConfigError(where, f"{error.listener}: {_reason(error)}") from error
        self._stack.push_async_callback(broker.shutdown)
        self._admission.refused = broker.core.refused
        return broker

    def _broker_recovered(self, core: BrokerCore) -> None:
        settle_s = self._settings.tree.repair_interval_s
        self._retained = RetainedPart(self._node, core.retention, settle_s)
        self._node.add_part(self._retained)
        if self._routed is not None:
            sessions = core.sessions.values()
            self._routed.begin(f for session in sessions for f in session.subscriptions)
            self._routed.clients = lambda: core.client_count
            core.interest = self._routed

    async def reload(self) -> None:
        """Read neighbours and what is about access again; if anything is wrong, all stays."""
        settings, at_start_alone = self._settings, list[str]()
        try:
            if self._read is not None:
                settings, at_start_alone = config_change.take_over(settings, self._read())
            files = access_files.read(settings)
            await self._attachment.change(settings.tree)
        except (ConfigError, DiscoveryError) as error:
            _log.error("nothing is read again: %s", error)
            return
        self._settings = settings
        self._node.rescope(Scope(settings.tree.replicate, settings.tree.keep_local))
        self._broker.revise(tls=files.tls, passwords=files.passwords, access=files.access)
        for gateway_id in self._admission.renew(files.links):
            self._node.drop(gateway_id, "its certificate is no longer accepted")
        for field in at_start_alone:
            _log.warning("%s has changed: that takes a restart", field)
        _log.info("neighbours, certificates, passwords and policy are read again")

    async def _start_console(self) -> Console | None:
        own = self._settings.console
        if not own.enabled:
            return None
        core, node, routed = self._broker.core, self._node, self._routed
        console = Console(
            {
                "/metrics": lambda: metrics.page(core, node, routed),
                "/healthz": lambda: health.page(node.log),
            }
        )
        try:
            await console.start(own.host, own.port)
        except OSError as error:
            raise ConfigError("console.port", f"{own.host}:{own.port}: {_reason(error)}") from error
        self._stack.push_async_callback(console.stop)
        return console

    async def _start_coap(self, keystore: Keystore | None, sensors: list[Sensor]) -> CoapServer:
        coap, own = self._settings.coap, self._settings.gateway
        self._site = GatewaySite(
            own.id,
            own.place,
            self._epoch,
            self._members.known,
            self._sampler,
            publish=self._publish_query,
            status=self.status,
            drain=self._drain.start,
            anonymous=self._settings.access.anonymous,
        )
        self._stack.push_async_callback(self._site.stop)
        server = CoapServer(
            self._site.site,
            host=coap.host,
            coap_port=coap.port,
            coaps_port=None if keystore is None else coap.dtls_port,
            keystore=keystore or Keystore(),
            anonymous=self._settings.access.anonymous,
        )
        try:
            await server.start()
        except DtlsError as error:
            raise ConfigError("coap.port", str(error)) from error
        self._stack.push_async_callback(server.stop)
        own_address = ipaddress.ip_address(self._settings.address)
        host = f"[{own_address}]" if own_address.version == 6 else str(own_address)
        self._site.start(sensors, f"coap://{host}:{server.coap_port}")
        return server

    def _record(self) -> MemberRecord:
        own = self._settings.gateway
        return MemberRecord(
            own.id,
            self._epoch,
            0,
            own.domain,
            own.group,
            self._settings.address,
            self._broker.port,
            self._coap.coap_port or 0,
            self._coap.coaps_port or 0,
            self._capability,
        )

    def _tell_listeners(self, state_dir: Path) -> None:
        mqtt, coap = self._settings.mqtt.host, self._settings.coap.host
        http = None
        if self._console is not None:
            http = f"{self._settings.console.host}:{self._console.port}"
        listeners = {
            **{scheme: f"{mqtt}:{port}" for scheme, port in self._broker.ports.items()},
            "coap": f"{coap}:{self._coap.coap_port}",
            "coaps": f"{coap}:{self._coap.coaps_port}" if self._coap.coaps_port else None,
            "console": http,
        }
        own_id = self._settings.gateway.id
        try:
            listeners_file.write(state_dir, {"id": own_id, "pid": os.getpid(), **listeners})
        except OSError as error:
            why = f"{error.filename or state_dir}: {_reason(error)}"
            raise ConfigError("gateway.state_dir", why) from error
        self._stack.callback(listeners_file.remove, state_dir)
        told = ", ".join(f"{scheme} {where}" for scheme, where in listeners.items())
        _log.info("%s is up: %s", own_id, told)

    # -- the way of a message --------------------------------------------------------------------

    def _publish_reading(self, sensor: Sensor, record: Record) -> None:
        self._broker.accept(Entry(f"{self._prefix}/{sensor.name}", record.encode(), qos=1))

    def _publish_query(self, topic: str, payload: bytes) -> None:
        self._node.publish(Entry(topic, payload), control=True)

    def _deliver(self, rows: list[Row], header: Header) -> None:
        last = header.last if header.logged else 0
        self._broker.core.publish_batch(rows, header.stream, last)

    def _control(self, entry: Entry, header: Header) -> None:
        self._members.receive(entry, header)
        self._site.receive(entry.topic, entry.payload)
        if self._routed is not None:
            self._routed.control(entry, header)

    def _leave(self) -> None:
        """What a drain begins with: no readings any more, and nobody's head."""
        self._sampling.cancel()
        record = dataclasses.replace(self._record(), draining=True)
        self._members.publish(self._node, record)
        _log.info("%s is draining", self._settings.gateway.id)

    # -- status ----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What this gateway is and does, ready for JSON."""
        own = self._settings.gateway
        return {
            "id": own.id,
            "domain": own.domain,
            "group": own.group,
            "boot_epoch": self._epoch,
            "capability": self._capability,
            "pid": os.getpid(),
            "event_loop": event_loop.running(),
            "build": build.running(),
            "up_s": round(time.time() - self._started_s, 1),
            "mqtt_clients": self._broker.client_count,
            "broker": report(self._broker.core),
            "retained": self._retained.status(),
            "members": [record.id for record in self._members.known],
            "places": {record.id: str(record.place) for record in self._members.known},
            "dialling": self._attachment.neighbours.status()
            | {"duplicate_links": self._node.duplicates},
            "hierarchy": self._hierarchy(),
            "routed": None if self._routed is None else self._routed.status(),
            "drain": None if (drain := self._drain.state) is None else drain.as_json(),
            **self._node.status(),
        }

    def _hierarchy(self) -> dict[str, Any]:
        """Where this gateway stands among domains and groups (A1, A2)."""
        own_id, hierarchy = self._settings.gateway.id, self._members.known.hierarchy()
        return {
            "root": hierarchy.root,
            "parent": hierarchy.parents[own_id],
            "substitutes": hierarchy.substitutes(own_id),
            "children": hierarchy.children[own_id],
        }


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _listeners(mqtt: MqttSection) -> list[Listener]:
    ports = ((scheme, getattr(mqtt, name)) for scheme, name in PORT_FIELDS.items())
    return [
        Listener(scheme, mqtt.host, port)
        for scheme, port in ports
        if scheme != "mqtt" and port is not None
    ]


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
