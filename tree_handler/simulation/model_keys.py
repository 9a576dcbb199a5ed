"""Signatures of simulated gateways: cheap, and not to be forged without the key."""

from __future__ import annotations

import hashlib
import hmac

from tree_handler.proof import Verdict

NAME_BYTES = 4


class ModelSigner:
    """A `tree_handler.proof.Signer` whose key is a secret of one gateway's.

    Args:
        gateway_id: whose.
        fleet: tells one fleet from others.

    Attributes:
        name: what its signatures begin with.

    """

    def __init__(self, gateway_id: str, fleet: str = "model") -> None:
        self._secret = hashlib.sha256(f"{fleet}/{gateway_id}".encode()).digest()
        self.name = hashlib.sha256(self._secret).digest()[:NAME_BYTES]

    def sign(self, message: bytes) -> bytes:
        """Return the name of the key and a MAC."""
        return self.name + hmac.digest(self._secret, message, "sha256")


class ModelRing:
    """A `tree_handler.proof.KeyRing` of `ModelSigner`s.

    Args:
        known: whose keys are there; None for everybody's.
        fleet: as for `ModelSigner`.

    """

    def __init__(self, known: set[str] | None = None, fleet: str = "model") -> None:
        self._known = known
        self._fleet = fleet

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        """Check a MAC."""
        if not self.knows_key(gateway_id, signature):
            return Verdict.UNKNOWN
        expected = ModelSigner(gateway_id, self._fleet).sign(message)
        is_signed = hmac.compare_digest(signature, expected)
        return Verdict.PROVEN if is_signed else Verdict.FORGED

    def knows_key(
        self, gateway_id: str, signature: bytes, late_s: float = 0.0, life: int = 0
    ) -> bool:
        """Return whether a signature names this gateway's key."""
        is_known = self._known is None or gateway_id in self._known
        return is_known and signature.startswith(ModelSigner(gateway_id, self._fleet).name)

    def only_receives(self, gateway_id: str) -> bool:
        """Return False: all are gateways."""
        return False
