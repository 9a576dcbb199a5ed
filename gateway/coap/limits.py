"""The section ``[coap.limits]``: how much CoAP's peers may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from coap_engine.limits import DEFAULT_LIMITS, EngineLimits
from dtls.endpoint import EndpointLimits
from gateway import config_checks as checks
from gateway.config_file import Fault, hold

_SHARES = DEFAULT_LIMITS.shares
_MOST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CoapLimits:
    """How much peers may take; those with a key have a part beside what strangers have.

    A stranger's address sends ``address_datagrams_per_s`` and has ``address_observations``, all
    strangers together ``datagrams_per_s`` and ``observations``. A body has ``body_bytes`` at
    most, and there are ``sessions`` over DTLS. Who has given proof sends
    ``identity_datagrams_per_s``.
    """

    address_datagrams_per_s: float = _SHARES.datagrams.host
    datagrams_per_s: float = _SHARES.datagrams.strangers
    identity_datagrams_per_s: float = _SHARES.datagrams.principal
    address_observations: int = _SHARES.observations.host
    observations: int = _SHARES.observations.strangers
    body_bytes: int = DEFAULT_LIMITS.bodies.body_bytes
    sessions: int = EndpointLimits().established

    def __post_init__(self) -> None:
        hold(self._faults())

    @property
    def engine(self) -> EngineLimits:
        """As the engine has them."""
        datagrams = replace(
            _SHARES.datagrams,
            host=self.address_datagrams_per_s,
            strangers=self.datagrams_per_s,
            principal=self.identity_datagrams_per_s,
        )
        own = _SHARES.observations.everybody - _SHARES.observations.strangers
        observations = replace(
            _SHARES.observations,
            host=self.address_observations,
            strangers=self.observations,
            everybody=self.observations + own,
        )
        return replace(
            DEFAULT_LIMITS,
            shares=replace(_SHARES, datagrams=datagrams, observations=observations),
            bodies=replace(DEFAULT_LIMITS.bodies, body_bytes=self.body_bytes),
        )

    @property
    def dtls(self) -> EndpointLimits:
        """As the DTLS endpoint has them."""
        return EndpointLimits(established=self.sessions)

    def _faults(self) -> Iterator[Fault]:
        for name in ("address_datagrams_per_s", "datagrams_per_s", "identity_datagrams_per_s"):
            yield from checks.within(name, getattr(self, name), 1, _MOST)
        for name in ("address_observations", "observations"):
            yield from checks.within(name, getattr(self, name), 0, 1_000_000)
        yield from checks.within("body_bytes", self.body_bytes, 1_024, 16 << 20)
        yield from checks.within("sessions", self.sessions, 1, 100_000)
