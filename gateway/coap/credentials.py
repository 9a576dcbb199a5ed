"""Credentials for DTLS sessions: a pre-shared key, and a certificate."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dtls.context import ServerContext
from dtls.errors import IdentityError
from dtls.identity import PeerIdentity, Proof
from dtls.keystore import Keystore
from gateway.trust.tls.peer_certificate import CertificateError

if TYPE_CHECKING:
    from gateway.trust.tls.context import Tls


class DtlsCredentials:
    """The keys and certificates of the CoAP port, as its files last said.

    Args:
        keystore: keys of the peers that may connect.
        tls: what the port presents, and whose certificates it takes; None for keys alone.

    """

    def __init__(self, keystore: Keystore, tls: Tls | None = None) -> None:
        self._keystore = keystore
        self._tls = tls

    def context(self) -> ServerContext:
        """For new sessions, which are resumed with this one alone."""
        tls = self._tls
        if tls is None:
            return ServerContext(self._keystore.key_of)
        from dtls.certificates import ServerCertificates  # noqa: PLC0415  # only where there is one
        from gateway.trust.tls.certificates import identify  # noqa: PLC0415  # as above

        def identity_of(der: bytes) -> PeerIdentity:
            try:
                found = identify(der)
            except CertificateError as error:
                raise IdentityError(str(error)) from error
            return PeerIdentity(Proof.CERTIFICATE, found.name, found.roles, der)

        shown = ServerCertificates(
            tls.own, tls.key, tls.authorities, identity_of, time.time, tls.revoked
        )
        return ServerContext(self._keystore.key_of, shown)

    def are(self, other: DtlsCredentials) -> bool:
        """Return whether they are the same as others, so that nothing has to begin anew."""
        if self._keystore.encode() != other._keystore.encode():
            return False
        if self._tls is None or other._tls is None:
            return self._tls is other._tls
        return self._tls.shows_and_takes() == other._tls.shows_and_takes()

    def still_accept(self, identity: PeerIdentity, before: DtlsCredentials) -> bool:
        """Return whether one who came in by what was there before would come in again."""
        if identity.proof is Proof.CERTIFICATE:
            if self._tls is None or before._tls is None:
                return False
            return self._tls.still_accepts(identity.der, before._tls)
        return self._keystore.has_same(identity.name.encode(), before._keystore)
