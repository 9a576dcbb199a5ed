"""The section ``[coap.limits]``: how much CoAP's peers may take."""

from __future__ import annotations

from dataclasses import replace

from coap_engine.held_bodies import OVERHEAD_BYTES
from coap_engine.limits import DEFAULT_LIMITS, EngineLimits
from dtls.endpoint_limits import EndpointLimits
from gateway.base.toml import checks
from gateway.base.toml.toml_file import hold
from gateway.coap.concurrent_requests import ANSWER_BYTES, ASKED_AT_ONCE
from light_dataclasses import dataclass

_SHARES = DEFAULT_LIMITS.shares
_MOST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CoapLimits:
    """The limits of peers; those with a key have a part beside that of strangers.

    A stranger's address sends ``address_datagrams_per_s`` and has ``address_observations``, all
    strangers together ``datagrams_per_s`` and ``observations``. A body has ``body_bytes`` at
    most, and there are ``sessions`` over DTLS. Who has given proof sends
    ``identity_datagrams_per_s``.
    """

    address_datagrams_per_s: float = checks.ranged(_SHARES.datagrams.host, 1, _MOST)
    datagrams_per_s: float = checks.ranged(_SHARES.datagrams.strangers, 1, _MOST)
    identity_datagrams_per_s: float = checks.ranged(_SHARES.datagrams.principal, 1, _MOST)
    address_observations: int = checks.ranged(_SHARES.observations.host, 0, 1_000_000)
    observations: int = checks.ranged(_SHARES.observations.strangers, 0, 1_000_000)
    body_bytes: int = checks.ranged(DEFAULT_LIMITS.bodies.body_bytes, 1_024, 16 << 20)
    sessions: int = checks.ranged(EndpointLimits().established, 1, 100_000)

    def __post_init__(self) -> None:
        hold(checks.marked(self))

    @property
    def engine(self) -> EngineLimits:
        """The engine's limits; room for bodies grows with the longest that is allowed."""
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
        least = held_bytes_least(self.body_bytes)
        bodies = _SHARES.held_bytes
        held_bytes = replace(
            bodies,
            host=max(bodies.host, least),
            strangers=max(bodies.strangers, least),
            principal=max(bodies.principal, least),
            everybody=max(bodies.everybody, least),
        )
        shares = replace(
            _SHARES, datagrams=datagrams, observations=observations, held_bytes=held_bytes
        )
        return replace(
            DEFAULT_LIMITS,
            shares=shares,
            bodies=replace(DEFAULT_LIMITS.bodies, body_bytes=self.body_bytes),
        )

    @property
    def dtls(self) -> EndpointLimits:
        """Return the limits of the DTLS endpoint."""
        return EndpointLimits(established=self.sessions)


def held_bytes_least(body_bytes: int) -> int:
    """Return how many bytes of bodies one peer has room for at least.

    Those are one body that is as long as any may be, and all that a command of ours asks for at
    the same time.

    Args:
        body_bytes: how long a body may be.

    """
    own = ASKED_AT_ONCE * (ANSWER_BYTES + 2 * OVERHEAD_BYTES)
    return max(body_bytes + 8 * OVERHEAD_BYTES, own)
