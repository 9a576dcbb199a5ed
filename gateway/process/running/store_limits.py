"""The limits of a gateway's stores: those of its configuration, as far as its memory has room."""

from __future__ import annotations

import logging

from gateway.base import machine_memory
from gateway.base.machine_memory import MemoryBound
from gateway.process.configuration.config import GatewaySettings
from gateway.process.running.memory_budget import LEAST, StoreLimits, fitting

_log = logging.getLogger(__name__)


def of(settings: GatewaySettings) -> StoreLimits:
    """Fit the limits of a configuration into the memory that this process may have, and log it."""
    configured = StoreLimits(
        settings.limits, settings.coap.directory.limits, settings.coap.limits.engine
    )
    given = settings.memory.limit_bytes
    bound = MemoryBound(given, "memory.limit_bytes") if given else machine_memory.bound()
    if bound is None:
        return configured
    fitted, part = fitting(configured, bound.size_bytes)
    if part < 1:
        _log.log(
            logging.WARNING if part <= LEAST else logging.INFO,
            "memory: %d MiB (%s); limits that count bytes are at %.0f %% of the configuration's, "
            "the Resource Directory's at %d MiB",
            bound.size_bytes >> 20,
            bound.source,
            100 * part,
            fitted.directory.size >> 20,
        )
    return fitted
