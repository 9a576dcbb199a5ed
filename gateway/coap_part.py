"""The CoAP server of a gateway, as its configuration says."""

from __future__ import annotations

from dtls.errors import DtlsError
from gateway.access_files import AccessFiles
from gateway.addresses import Addresses
from gateway.coap.access import CoapAccess
from gateway.coap.oscore_devices import OscoreDevices
from gateway.coap.server import CoapListener, CoapRules, CoapServer
from gateway.coap.site import GatewaySite
from gateway.config import ConfigError
from gateway.listener_sections import CoapSection


async def serve(
    site: GatewaySite,
    section: CoapSection,
    addresses: Addresses,
    files: AccessFiles,
    access: CoapAccess,
    devices: OscoreDevices,
) -> CoapServer:
    """Listen, and answer what a site has.

    Args:
        site: what is served.
        section: of the configuration.
        addresses: where it is listened.
        files: keys and certificates.
        access: decides who may do what.
        devices: that protect their requests themselves.

    Raises:
        ConfigError: an address is in use or not this machine's, or DTLS can't be had.

    """
    listened, limits = addresses.listened, section.limits
    at = {scheme: CoapListener(listened[scheme], port) for scheme, port in section.ports.items()}
    server = CoapServer(
        site.site,
        coap=at.get("coap"),
        coaps=at.get("coaps"),
        keystore=files.keystore,
        access=access,
        rules=CoapRules(limits.engine, limits.dtls, devices.contexts, files.coap_tls, site.router),
        at_hand=site.at_hand,
    )
    try:
        await server.start()
    except DtlsError as error:
        raise ConfigError("coap.port", str(error)) from error
    return server
