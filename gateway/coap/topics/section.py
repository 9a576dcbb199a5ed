"""The section ``[coap.topics]``: how much MQTT clients have under way below ``$coap``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from gateway.coap.topics.shares import TopicLimits
from light_dataclasses import dataclass
from tree_handler.remote.resource import MAX_PAYLOAD_BYTES

_DEFAULT = TopicLimits()
_NUMBER_MOST, _BYTES_MOST = 100_000, 1 << 30


@dataclass(frozen=True, slots=True)
class TopicsSection:
    """Limits of clients, and of users with all their clients; see `TopicLimits`."""

    client_requests: int = _DEFAULT.client_requests
    user_requests: int = _DEFAULT.user_requests
    user_bytes: int = _DEFAULT.user_bytes
    client_observations: int = _DEFAULT.client_observations
    user_observations: int = _DEFAULT.user_observations

    def __post_init__(self) -> None:
        hold(self._faults())

    @property
    def limits(self) -> TopicLimits:
        """The limits that the bridge is given, by the names of the keys."""
        return TopicLimits(**dataclasses.asdict(self))

    def _faults(self) -> Iterator[Fault]:
        yield from checks.within("user_bytes", self.user_bytes, MAX_PAYLOAD_BYTES, _BYTES_MOST)
        for kind in ("requests", "observations"):
            part, whole = f"client_{kind}", f"user_{kind}"
            for name in (part, whole):
                yield from checks.within(name, getattr(self, name), 0, _NUMBER_MOST)
            if getattr(self, part) > getattr(self, whole):
                yield Fault(part, f"{getattr(self, part)} is more than {whole}")
