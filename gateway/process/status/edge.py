"""Numbers of what is neither broker nor tree: sensors, CoAP and certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.coap.server import CoapCounts, CoapServer
from gateway.sensors.sampler import Sampler
from gateway.trust.certificates.expiry import ExpiryWatch
from light_dataclasses import dataclass
from resource_directory.registry import Registry


@dataclass(frozen=True, slots=True)
class GatewayEdge:
    """The parts that have something to tell.

    Attributes:
        sampler: reads the sensors.
        coap: serves CoAP.
        registry: who has registered at the Resource Directory, this gateway included.
        expiry: when certificates end.
        queries: gives what became of requests to and from other gateways.

    """

    sampler: Sampler
    coap: CoapServer
    registry: Registry
    expiry: ExpiryWatch
    queries: Callable[[], Mapping[str, int]]

    def sensors(self) -> dict[str, int]:
        """Return how many there are, and readings that were not taken since the start."""
        return {
            "count": len(self.sampler.sensors),
            "failed": self.sampler.failed,
            "skipped": self.sampler.skipped,
        }

    def peers(self) -> dict[str, int]:
        """Return who is there over CoAP."""
        return self.coap.peers() | {"registered": len(self.registry)}

    def coap_counts(self) -> CoapCounts:
        """Return what CoAP and DTLS counted."""
        return self.coap.counts()

    def query_counts(self) -> dict[str, int]:
        """Return requests to and from other gateways, by what became of them."""
        return dict(self.queries())

    def as_json(self) -> dict[str, Any]:
        """For ``/status``."""
        return {
            "sensors": self.sensors(),
            "coap": self.peers() | {"refused": sum(self.coap_counts().refusals.values())},
            "certificates": self.expiry.as_json(),
        }
