"""The CoAP server of a gateway, as its configuration says, and its resources as MQTT topics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from coap_engine.limits import EngineLimits
from dtls.errors import DtlsError
from gateway.base.watched_tasks import WatchedTasks
from gateway.broker.broker import GatewayBroker
from gateway.coap.access import CoapAccess
from gateway.coap.oscore.devices import OscoreDevices
from gateway.coap.server import CoapListener, CoapRules, CoapServer
from gateway.coap.site import GatewaySite, SiteOwner
from gateway.coap.topics.asker import CoapFace, TopicAsker
from gateway.coap.topics.bridge import CoapBridge
from gateway.coap.topics.private_delivery import PrivateDelivery
from gateway.coap.topics.publications import Publications
from gateway.node.signing.fleet_proof import FleetProof
from gateway.process.access.files import AccessFiles
from gateway.process.configuration.addresses import Addresses
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.process.configuration.listener_sections import CoapSection
from gateway.process.running import state
from gateway.process.running.memory_budget import StoreLimits


def owner(
    settings: GatewaySettings,
    epoch: int,
    access: CoapAccess,
    proof: FleetProof,
    stores: StoreLimits,
    watched: WatchedTasks,
) -> SiteOwner:
    """Say whose resources are served, and within which limits.

    Args:
        settings: the gateway's.
        epoch: its boot epoch.
        access: decides who may do what with them.
        proof: has the seals of requests between gateways.
        stores: what they may hold.
        watched: begins anew what fails.

    """
    own = settings.gateway
    return SiteOwner(
        gateway_id=own.id,
        place=own.place,
        epoch=epoch,
        access=access,
        state_dir=own.state_dir,
        seals=proof.remote_seals,
        limits=settings.coap.queries.limits,
        directory_limits=stores.directory,
        watched=watched,
    )


async def recall(site: GatewaySite) -> None:
    """Take up what the Resource Directory's file has.

    Raises:
        ConfigError: it can't be read now.

    """
    with state.being_read():
        await site.directory.recall()


async def serve(
    site: GatewaySite,
    section: CoapSection,
    addresses: Addresses,
    files: AccessFiles,
    devices: OscoreDevices,
    limits: EngineLimits,
    stack: contextlib.AsyncExitStack,
) -> CoapServer:
    """Listen, and answer what a site has.

    Args:
        site: what is served.
        section: of the configuration.
        addresses: where it is listened.
        files: keys and certificates.
        devices: that protect their requests themselves.
        limits: of peers, as far as there is memory.
        stack: ends it.

    Raises:
        ConfigError: an address is in use or not this machine's, or DTLS can't be had.

    """
    listened = addresses.listened
    at = {scheme: CoapListener(listened[scheme], port) for scheme, port in section.ports.items()}
    server = CoapServer(
        site.site,
        coap=at.get("coap"),
        coaps=at.get("coaps"),
        keystore=files.keystore,
        access=site.access,
        rules=CoapRules(
            limits,
            section.limits.dtls,
            devices.contexts,
            files.coap_tls,
            site.router,
            site.turns,
        ),
        at_hand=site.at_hand,
    )
    try:
        await server.start()
    except DtlsError as error:
        raise ConfigError("coap.port", str(error)) from error
    stack.push_async_callback(server.stop)
    if section.multicast and server.plain is not None:
        from gateway.coap.multicast import DiscoveryAnswers, MulticastPort  # noqa: PLC0415  # only where it is answered

        answers = DiscoveryAnswers(site.access, site.well_known)
        group = MulticastPort(answers, listened["coap"], server.plain)
        group.open()
        stack.callback(group.close)
    return server


def bridge(
    topics: CoapBridge, site: GatewaySite, access: CoapAccess, broker: GatewayBroker
) -> Callable[[], None]:
    """Serve a site to the clients of a broker, which was opened with these topics.

    Args:
        topics: the bridge.
        site: what is served.
        access: decides who may do what.
        broker: whose clients ask.

    Returns:
        What ends it.

    """
    face = CoapFace(site.answers(), access, site.router, site.members)
    core = broker.core
    delivery = PrivateDelivery(core.sessions, core.delivery, core.may_deliver, core.now)
    topics.begin(TopicAsker(face, broker.permissions.proof), delivery)
    access.tell_of_changes(topics.revise)
    taken = topics.serves, topics.asked
    core.publishing.serve(
        Publications(*taken, broker.permissions, core.budget, core.refusals).receive
    )
    return topics.stop
