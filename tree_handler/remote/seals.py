"""Signatures of remote requests and their answers: each by the gateway that says it (row A8).

Whoever lets a request in says on whose behalf it is, and vouches for that with its signature. What
that is worth the gateway decides that executes it.
"""

from __future__ import annotations

from typing import Final

from tree_handler.errors import ProtocolError
from tree_handler.proof import KeyRing, Signer, Verdict, context
from tree_handler.remote.message import sealed

QUERY: Final = "query 2"
ANSWER: Final = "answer 2"
CANCEL: Final = "cancel 1"
"""The context of a signature; see `tree_handler.proof.context`."""


class UnprovenError(ProtocolError):
    """A message is not of the gateway that it says it is of, as far as that can be known."""


class RemoteSeals:
    """Signs what this gateway says, and checks what others say.

    Args:
        signer: this gateway's.
        ring: the keys of all.
        tree: the tree's name.

    """

    def __init__(self, signer: Signer, ring: KeyRing, tree: str) -> None:
        self._signer = signer
        self._ring = ring
        self._contexts = {kind: context(kind, tree) for kind in (QUERY, ANSWER, CANCEL)}

    def seal(self, kind: str, body: bytes) -> bytes:
        """Return a message beside its signature."""
        return sealed(body, self._signer.sign(self._contexts[kind] + body))

    def check(self, kind: str, gateway_id: str, body: bytes, signature: bytes) -> None:
        """Check that a gateway said something.

        Raises:
            UnprovenError: it did not, or that can't be known.

        """
        if not signature:
            raise UnprovenError(f"{kind} without a signature, of", gateway_id)
        verdict = self._ring.verify(gateway_id, self._contexts[kind] + body, signature)
        if verdict and self._ring.only_receives(gateway_id):
            verdict = Verdict.NOT_ALLOWED
        if verdict is not Verdict.PROVEN:
            raise UnprovenError(f"{kind} with a signature that is {verdict.value}, of", gateway_id)
