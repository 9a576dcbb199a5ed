"""The authorities that may revoke, and limits of their lists: for gateways without TLS as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError

if TYPE_CHECKING:
    from cryptography import x509

    from gateway.trust.credentials.crl import Crl

MAX_BYTES: Final = 1 << 20
"""Of a list, in DER: some 25,000 certificates."""
MAX_AUTHORITIES: Final = 16
"""The most authorities whose lists travel; those of more do not."""


class UntrustedListError(ProtocolError):
    """A revocation list is none to go by; it says why."""


@dataclass(frozen=True, slots=True)
class Revoking:
    """The authorities that may revoke, and their revocation lists, as files have them.

    Attributes:
        authorities: whose lists count.
        lists: of the configuration.

    """

    authorities: tuple[x509.Certificate, ...] = ()
    lists: tuple[Crl, ...] = ()

    def joined(self, *others: Revoking) -> Revoking:
        """Return what this one and others say together."""
        authorities, lists = self.authorities, self.lists
        for one in others:
            authorities, lists = (*authorities, *one.authorities), (*lists, *one.lists)
        return Revoking(authorities, lists)
