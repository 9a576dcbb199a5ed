"""Keys of a fleet that count how often they are asked."""

from __future__ import annotations

from tree_handler.proof import Verdict
from tree_handler.simulation.model_keys import ModelRing


class CountingRing(ModelRing):
    """A ring that counts the signatures it looks at, and in which gw-x may not write."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        """Count a look, and answer as the ring does."""
        self.looks += 1
        return super().verify(gateway_id, message, signature, late_s, life)

    def only_receives(self, gateway_id: str) -> bool:
        """Return whether it is gw-x."""
        return gateway_id == "gw-x"
