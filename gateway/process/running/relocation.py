"""A gateway that runs stands in another domain or group from now on."""

from __future__ import annotations

import logging

from gateway.broker.retained.retention import Retention
from gateway.coap.site import GatewaySite
from gateway.node.members.membership import Members
from gateway.process.configuration.config import GatewaySettings
from gateway.process.running import state
from gateway.process.running.readings import Readings

_log = logging.getLogger(__name__)


def relocate(
    settings: GatewaySettings,
    members: Members,
    readings: Readings,
    site: GatewaySite,
    retention: Retention,
) -> None:
    """Move the topics of its sensors, their links and registration, and its record.

    What is retained at the old topics is cleared. Whom the policy lets do what at the new place is
    the caller's to have read.

    Args:
        settings: with the new place.
        members: tells the fleet.
        readings: of its sensors.
        site: what it serves over CoAP.
        retention: knows what is retained.

    """
    own = settings.gateway
    readings.move(own.place.prefix(own.id), state.announcer(settings), retention.payloads)
    site.move(own.place)
    members.change(domain=own.domain, group=own.group)
    _log.warning("%s stands at %s from now on", own.id, own.place)
