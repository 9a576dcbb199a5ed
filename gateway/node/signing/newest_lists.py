"""The newest revocation list of each authority, of files, of neighbours and of earlier starts.

A list proves itself by its authority's signature (RFC 5280, section 5). A newer one has a greater
CRL number, or the same and a later thisUpdate; an older one is never taken, whoever hands it over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.node.signing.revoking import MAX_AUTHORITIES, MAX_BYTES, Revoking, UntrustedListError
from gateway.trust.credentials import certificate_files
from gateway.trust.credentials import crl as crls
from gateway.trust.credentials.crl import Crl
from gateway.trust.credentials.crl_edition import NO_NUMBER, Edition

if TYPE_CHECKING:
    from gateway.trust.tls.context import TlsFiles


def read(*files: TlsFiles | None) -> Revoking:
    """Read whose lists count, and the lists that the files of listeners have.

    Raises:
        TlsFileError: one can't be read.

    """
    authorities, lists = list[x509.Certificate](), list[Crl]()
    for one in files:
        if one is not None and one.client_ca is not None:
            authorities += certificate_files.certificates("client_ca_file", one.client_ca)
        if one is not None and one.client_crl is not None:
            found = certificate_files.revocation_lists("client_crl_file", one.client_crl)
            lists += [crl for _, crl in found]
    return Revoking(tuple(authorities), tuple(lists))


class NewestLists:
    """The lists by which one gateway or collector goes.

    Args:
        revoking: whose lists count, and those of the files.
        kept: lists from elsewhere, of anybody.

    """

    def __init__(self, revoking: Revoking, kept: Sequence[Crl]) -> None:
        self._authorities = {
            crls.name_of(one): one for one in revoking.authorities[:MAX_AUTHORITIES]
        }
        trusted = list(self._authorities.values())
        self._newest = crls.newest((*revoking.lists, *kept), trusted)
        self._untrusted = [
            crl for crl in kept if not any(crls.has_signed(one, crl) for one in trusted)
        ][-MAX_AUTHORITIES:]

    @property
    def lists(self) -> tuple[Crl, ...]:
        """The lists to keep.

        Those of authorities that are not trusted stay too, `MAX_AUTHORITIES` of them: they may be
        trusted again.
        """
        return (*self._newest.values(), *self._untrusted)

    @property
    def editions(self) -> dict[bytes, Edition]:
        """Return the edition of each authority's list, by the authority's name."""
        return {name: crls.edition_of(crl) for name, crl in self._newest.items()}

    def encoded(self, name: bytes) -> bytes | None:
        """Return an authority's list in DER; None if there is none, or it is too large to
        travel."""
        if (crl := self._newest.get(name)) is None:
            return None
        der = crl.public_bytes(Encoding.DER)
        return der if len(der) <= MAX_BYTES else None

    def is_newer(self, name: bytes, edition: Edition) -> bool:
        """Return whether a list would be taken that is so new."""
        if name not in self._authorities:
            return False
        own = self._newest.get(name)
        return own is None or edition > crls.edition_of(own)

    def take(self, name: bytes, der: bytes, now: datetime) -> bool:
        """Take a list that somebody handed over.

        Args:
            name: of its authority.
            der: the list.
            now: the time.

        Returns:
            Whether it is newer than the one that was here.

        Raises:
            UntrustedListError: it is no list of that authority, or none to go by.

        """
        if len(der) > MAX_BYTES:
            raise UntrustedListError("revocation list too large, bytes", len(der))
        if (authority := self._authorities.get(name)) is None:
            raise UntrustedListError("revocation list of an authority that is not trusted", name)
        try:
            crl = x509.load_der_x509_crl(der)
            # Before its extensions are read, of which whoever made it up may have put in 90,000.
            is_signed = crls.has_signed(authority, crl)
            edition = crls.edition_of(crl) if is_signed else (NO_NUMBER, 0.0)
        except ValueError as error:
            raise UntrustedListError("revocation list", str(error)) from error
        if not is_signed:
            raise UntrustedListError("revocation list that its authority has not signed", name)
        if not self.is_newer(name, edition):
            return False
        if not crls.is_whole(crl):
            raise UntrustedListError("revocation list that is a part of one", edition)
        if crls.has_ended(crl, now) or crl.last_update_utc > now:
            raise UntrustedListError("revocation list that is not valid now", edition)
        self._newest[name] = crl
        return True

    def counted_anew(
        self, told: Sequence[Crl], kept: Sequence[Crl]
    ) -> Iterator[tuple[str, int, int]]:
        """Yield the lists whose authority has begun to count anew: they count for nothing.

        Args:
            told: of the files.
            kept: lists from elsewhere.

        Yields:
            the authority's name, the number of the list in the files, and that of an earlier one.

        """
        trusted = list(self._authorities.values())
        before: Mapping[bytes, Crl] = crls.newest(kept, trusted)
        for name, crl in crls.newest(told, trusted).items():
            if (own := before.get(name)) is None:
                continue
            (number, at_s), (known, known_at_s) = crls.edition_of(crl), crls.edition_of(own)
            if number < known and at_s > known_at_s:
                yield crl.issuer.rfc4514_string(), number, known
