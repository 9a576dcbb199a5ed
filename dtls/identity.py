"""Identity of a peer, and what it may do."""

from __future__ import annotations

import enum
from dataclasses import field

from light_dataclasses import dataclass


class Proof(enum.Enum):
    """A kind of proof by which a peer showed its identity."""

    NONE = "anonymous"
    LOCAL = "local"
    """It is on the gateway's own machine: no other can have its address."""
    PSK = "psk"
    CERTIFICATE = "cert"
    OSCORE = "oscore"


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """A peer as the security layer knows it.

    Attributes:
        proof: how it showed who it is.
        name: the PSK identity or the certificate's name; empty for an anonymous peer.
        roles: what its certificate says that it is besides.
        der: the certificate; empty for other proofs.

    """

    proof: Proof
    name: str = ""
    roles: frozenset[str] = frozenset()
    der: bytes = field(default=b"", repr=False, compare=False)

    @property
    def may_write(self) -> bool:
        """Return whether the peer may change anything (row A8: only authenticated peers write)."""
        return self.proof not in (Proof.NONE, Proof.LOCAL)

    def __str__(self) -> str:
        return f"{self.proof.value}:{self.name}" if self.name else self.proof.value


LOCAL = PeerIdentity(Proof.LOCAL)
"""A peer of plain CoAP on this machine."""
ANONYMOUS = PeerIdentity(Proof.NONE)
"""A peer that showed nothing: plain CoAP, or a handshake that is not complete."""
