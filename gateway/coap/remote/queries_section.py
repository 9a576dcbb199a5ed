"""The section ``[coap.queries]``: how much is asked of other gateways, and done for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from light_dataclasses import dataclass
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits

_BYTES = ("targets_bytes", "cached_bytes")
_NUMBER_MOST, _BYTES_MOST = 100_000, 1 << 30


@dataclass(frozen=True, slots=True)
class QueriesSection:
    """Limits of requests to and from other gateways; see `QueryLimits`."""

    asked: int = DEFAULT_LIMITS.asked
    asked_of_peer: int = DEFAULT_LIMITS.asked_of_peer
    subscriptions: int = DEFAULT_LIMITS.subscriptions
    executed: int = DEFAULT_LIMITS.executed
    executed_of_gateway: int = DEFAULT_LIMITS.executed_of_gateway
    told: int = DEFAULT_LIMITS.told
    told_of_gateway: int = DEFAULT_LIMITS.told_of_gateway
    targets: int = DEFAULT_LIMITS.targets
    targets_at_once: int = DEFAULT_LIMITS.targets_at_once
    targets_bytes: int = DEFAULT_LIMITS.targets_bytes
    cached: int = DEFAULT_LIMITS.cached
    cached_bytes: int = DEFAULT_LIMITS.cached_bytes

    def __post_init__(self) -> None:
        hold(self._faults())

    @property
    def limits(self) -> QueryLimits:
        """The limits that the protocol is given, by the names of the keys."""
        return QueryLimits(**dataclasses.asdict(self))

    def _faults(self) -> Iterator[Fault]:
        for one in dataclasses.fields(self):
            is_bytes = one.name in _BYTES
            least, most = (1_024, _BYTES_MOST) if is_bytes else (1, _NUMBER_MOST)
            yield from checks.within(one.name, getattr(self, one.name), least, most)
        for part, whole in (
            ("asked_of_peer", "asked"),
            ("executed_of_gateway", "executed"),
            ("told_of_gateway", "told"),
        ):
            if getattr(self, part) > getattr(self, whole):
                yield Fault(part, f"{getattr(self, part)} is more than {whole}")
