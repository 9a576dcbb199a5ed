"""Revocation lists: whose each is, which of two is the newer, and by which a gateway goes.

A gateway has lists from its configuration and from its neighbours. All are signed by an authority
(RFC 5280, section 5), so it does not matter whence they came: the newer one of each counts.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import ssl
from collections.abc import Iterable, Sequence
from typing import cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.trust.credentials.crl_edition import NAME_BYTES, NO_NUMBER, NUMBER_MAX, Edition

Crl = x509.CertificateRevocationList


def name_of(authority: x509.Certificate) -> bytes:
    """Return what names an authority, whichever certificate it has: its subject and its key."""
    key = authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(authority.subject.public_bytes() + key).digest()[:NAME_BYTES]


def edition_of(crl: Crl) -> Edition:
    """Return what tells the newer of two lists of an authority."""
    try:
        number = crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        number = NO_NUMBER
    return min(number, NUMBER_MAX), crl.last_update_utc.timestamp()


def is_whole(crl: Crl) -> bool:
    """Return whether a list has all that its authority has revoked.

    A list that has a part alone says so by a critical extension (sections 5.2.4 and 5.2.5), and
    one with a critical extension that nobody here knows must not be gone by (5.2).
    """
    try:
        return not any(extension.critical for extension in crl.extensions)
    except (ValueError, x509.DuplicateExtension):
        return False


def has_signed(authority: x509.Certificate, crl: Crl) -> bool:
    """Return whether a list is this authority's."""
    key = cast(CertificateIssuerPublicKeyTypes, authority.public_key())
    try:
        return crl.issuer == authority.subject and crl.is_signature_valid(key)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # a key that signs nothing
        return False


def has_ended(crl: Crl, now: datetime.datetime) -> bool:
    """Return whether a list had to be renewed before now; one without a next update never has."""
    return crl.next_update_utc is not None and crl.next_update_utc < now


def newest(lists: Iterable[Crl], authorities: Sequence[x509.Certificate]) -> dict[bytes, Crl]:
    """Return the newest whole list of each authority, by its name."""
    found: dict[bytes, Crl] = {}
    for crl in lists:
        name = _whose(crl, authorities)
        if name is None or not is_whole(crl):
            continue
        if name not in found or edition_of(crl) > edition_of(found[name]):
            found[name] = crl
    return found


def united(
    configured: Sequence[Crl] | None,
    spread: Iterable[Crl],
    authorities: Sequence[x509.Certificate],
    now: datetime.datetime,
) -> list[Crl]:
    """Return the lists to go by.

    Args:
        configured: of the configuration's file; None where it names none. Then lists count only
            where each authority has one that has not ended: OpenSSL refuses every certificate of
            an authority without a list, and nobody here has said that there are lists.
        spread: handed over by neighbours, or found elsewhere; of anybody.
        authorities: that are trusted.
        now: the time.

    """
    others = newest(spread, authorities)
    if configured is None:
        current = [crl for crl in others.values() if not has_ended(crl, now)]
        names = {name_of(authority) for authority in authorities}
        return current if len(current) == len(names) else []
    kept: list[Crl] = []
    for crl in configured:
        name = _whose(crl, authorities)
        other = others.get(name or b"")
        if other is None or name is None or not is_whole(crl):
            kept.append(crl)
        elif edition_of(crl) >= edition_of(other):
            kept.append(crl)
            del others[name]
    return [*kept, *others.values()]


def in_pem(lists: Iterable[Crl]) -> bytes:
    """Return lists as a file in PEM."""
    return b"".join(crl.public_bytes(Encoding.PEM) for crl in lists)


def load(context: ssl.SSLContext, lists: Sequence[Crl]) -> None:
    """Have a context look at lists, of the certificate at a chain's end alone; at none if empty.

    Raises:
        OSError: no more files can be opened, or OpenSSL does not take the lists.

    """
    if not lists:
        return
    # `ssl` takes lists from files alone. This one is in memory, for a disk may be full.
    with os.fdopen(os.memfd_create("lists", os.MFD_CLOEXEC), "wb") as file:
        file.write(in_pem(lists))
        file.flush()
        context.load_verify_locations(f"/proc/self/fd/{file.fileno()}")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _whose(crl: Crl, authorities: Sequence[x509.Certificate]) -> bytes | None:
    for authority in authorities:
        if has_signed(authority, crl):
            return name_of(authority)
    return None
