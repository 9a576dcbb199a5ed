"""Keys that are renewed for years, and how news of them spreads, after `gateway.node.signing`.

A gateway's key is a number that grows. Others know the latest few of each gateway, as far as they
were told; whoever knows a key knows by its gateway's statement the last few that it had before, and
believes those for what may have been kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import lru_cache
from typing import Final

from light_dataclasses import dataclass
from tree_handler.proof import Verdict
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

MAX_KEYS: Final = 8
"""Of one gateway; with more the first is forgotten."""
MAX_FORMER: Final = 4
"""Keys in a gateway's statement: those before the latest."""

SimulatedKey = tuple[str, int]
"""The gateway of a key, and the number of the key."""


@dataclass(slots=True)
class KnownKeys:
    """The keys that one gateway has on its disk.

    Attributes:
        own: how often it has renewed its own.

    """

    own: int = 0
    _of: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def __iter__(self) -> Iterator[SimulatedKey]:
        return ((one, number) for one, numbers in self._of.items() for number in numbers)

    def add(self, key: SimulatedKey) -> bool:
        """Take a key; return whether it is new, and not before all that are kept."""
        gateway_id, number = key
        of = self._of[gateway_id]
        if number in of or (len(of) >= MAX_KEYS and number < min(of)):
            return False
        of.add(number)
        if len(of) > MAX_KEYS:
            of.remove(min(of))
        return True

    def renew(self, gateway_id: str) -> SimulatedKey:
        """Have another key from now on; it is what others are to be told."""
        self.own += 1
        key = (gateway_id, self.own)
        self.add(key)
        return key

    def that_count(self, gateway_id: str, *, for_what_was_kept: bool) -> Iterable[int]:
        """Return the keys of a gateway that are believed, the latest first."""
        of = self._of.get(gateway_id, set())
        if not for_what_was_kept:
            return sorted(of, reverse=True)
        last = max(of, default=-1)
        stated = range(max(0, last - MAX_FORMER), last)
        return sorted(of.union(stated), reverse=True)


@dataclass(frozen=True, slots=True)
class KnownKeysRing:
    """A `tree_handler.proof.KeyRing` of the keys that a gateway knows."""

    known: KnownKeys

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        """Check a signature by the keys of a gateway that count."""
        for number in self.known.that_count(gateway_id, for_what_was_kept=life > 0):
            if not signature.startswith(_name_of(gateway_id, number)):
                continue
            verdict = ModelRing(fleet=_fleet(number)).verify(gateway_id, message, signature)
            if verdict is not Verdict.UNKNOWN:
                return verdict
        return Verdict.UNKNOWN

    def knows_key(
        self, gateway_id: str, signature: bytes, late_s: float = 0.0, life: int = 0
    ) -> bool:
        """Return whether a signature names a key that counts."""
        numbers = self.known.that_count(gateway_id, for_what_was_kept=life > 0)
        return any(signature.startswith(_name_of(gateway_id, number)) for number in numbers)

    def only_receives(self, gateway_id: str) -> bool:
        """Return False: all are gateways."""
        return False


@dataclass(frozen=True, slots=True)
class RenewedSigner:
    """A `tree_handler.proof.Signer` with the key that a gateway has now."""

    gateway_id: str
    known: KnownKeys

    def sign(self, message: bytes) -> bytes:
        """Sign with the newest key."""
        return ModelSigner(self.gateway_id, _fleet(self.known.own)).sign(message)


@lru_cache(maxsize=10_000)
def _name_of(gateway_id: str, number: int) -> bytes:
    return ModelSigner(gateway_id, _fleet(number)).name


def _fleet(number: int) -> str:
    return f"model {number}"
