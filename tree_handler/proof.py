"""Proof that a gateway said something: its signature, and the keys of all to check it by.

The cores know these two interfaces alone. On a gateway `gateway.node.signing` is behind them: the
key of the gateway's certificate, and a ring of the certificates of all. Whoever signs puts in front
of it what it is (`context`), so that a signature under one thing never proves another.
"""

from __future__ import annotations

import enum
from typing import Final, Protocol


class Verdict(enum.Enum):
    """A verdict on a signature; true only for `PROVEN`."""

    PROVEN = "proven"
    FORGED = "forged"
    """The key is one of that gateway, and did not sign this."""
    UNKNOWN = "unknown"
    """The key is none of that gateway that is known here, or its certificate no longer counts."""
    UNSIGNED = "unsigned"
    """There is no signature."""
    NOT_ALLOWED = "not allowed"
    """The signature is right, and who made it may not say such a thing: a collector, which only
    receives."""

    def __bool__(self) -> bool:
        return self is Verdict.PROVEN


class Signer(Protocol):
    """Signs with the one key of this gateway."""

    def sign(self, message: bytes) -> bytes:
        """Return a signature of some tens of bytes, never over `MAX_SIGNATURE_BYTES`.

        Args:
            message: begins with a `context`; what is long is hashed by the caller.

        """


class KeyRing(Protocol):
    """The keys of all gateways, each as its certificate proved it."""

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        """Return whether a gateway signed a message; no bytes of a signature make it raise.

        Args:
            gateway_id: who is said to have signed.
            message: what was signed.
            signature: what `Signer.sign` made of it.
            late_s: for so long after its certificate's end a key still counts, in seconds: 0 for
                what is said now, more for what may have been kept by others.
            life: of which boot epoch of the gateway that is which may have been kept; 0 for none.
                For it a key counts that the gateway had before, as it states under its own.

        """

    def knows_key(
        self, gateway_id: str, signature: bytes, late_s: float = 0.0, life: int = 0
    ) -> bool:
        """Return whether the key that a signature names is one by which `verify` would decide.

        The signature itself is not looked at, so this costs little. The arguments are those of
        `verify`.
        """

    def only_receives(self, gateway_id: str) -> bool:
        """Return whether it is a collector, as its certificates say.

        What it signs counts for what it says of itself between gateways, and proves no messages of
        clients, no retained ones, no requests, and nothing that makes it a root before gateways.
        """


MAX_SIGNATURE_BYTES: Final = 255
"""So that one byte says how long a signature is."""


def context(what: str, tree: str) -> bytes:
    """Return what stands in front of all that is signed: what it is, and for which tree.

    Args:
        what: names the kind of message and its version, such as ``batch 1``.
        tree: the tree's name: a gateway's keys may serve it in several, one after the other.

    """
    return b"hedgerow %b\0%b\0" % (what.encode(), tree.encode())
