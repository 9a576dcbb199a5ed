"""The files of an authority, and how they stay whole: one rename makes each change.

| file | what |
|---|---|
| ``ca.pem`` | the authority's certificate; behind it others that are trusted, as in a roll-over |
| ``ca.key.pem`` | its private key and, in a roll-over, that of the one before |
| ``issued.json`` | the index: every certificate that was issued, and which are revoked |
| ``NAME.pem``, ``NAME.key.pem`` | the newest certificate of each name and, if made here, its key |
| ``revoked.pem`` | the revocation lists of those whose keys are here |
| ``audit.jsonl`` | who did what |

A change is made when the index is renamed. What else belongs to it is made from the index by
`settle`, also after a crash: a fresh key waits under its certificate's number until then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.base import replaced_file
from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.issued import IssuedCertificate, IssuedIndex, IssuedIndexError
from gateway.trust.certificates.signature_keys import PrivateKey, PublicKey
from light_dataclasses import dataclass

CA, CA_KEY, REVOKED, INDEX = "ca.pem", "ca.key.pem", "revoked.pem", "issued.json"
_LOCK = ".lock"
SECRET, OPEN = 0o600, 0o644


class AuthorityError(ValueError):
    """A file of the authority can't be used; the message names it or its folder."""


@dataclass(frozen=True, slots=True)
class CertifyingKey:
    """An authority's certificate, and its key."""

    certificate: x509.Certificate
    key: PrivateKey


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let no other command change the folder meanwhile.

    Raises:
        OSError: there is no such folder, or it is another's.

    """
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, SECRET)
    except OSError as error:  # of a file that nobody has named
        raise OSError(error.errno, error.strerror, str(folder)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def trusted(folder: Path) -> list[x509.Certificate]:
    """Return the authorities that are trusted, the one that issues first.

    Raises:
        AuthorityError: there is none, or it can't be read.
        OSError: the file can't be read.

    """
    file = folder / CA
    try:
        found = x509.load_pem_x509_certificates(file.read_bytes())
    except ValueError as error:
        raise AuthorityError(f"{file}: no certificate in PEM") from error
    return found


def certifying(folder: Path, password: bytes | None) -> list[CertifyingKey]:
    """Return the trusted authorities whose keys are here, the one that issues first.

    Raises:
        AuthorityError: a file can't be used, or the key of the first is not here.
        OSError: a file can't be read.

    """
    file = folder / CA_KEY
    try:
        keys = private_keys.load(file.read_bytes(), password)
    except private_keys.PrivateKeyError as error:
        raise AuthorityError(f"{file}: {error}") from error
    authorities = trusted(folder)
    found = [CertifyingKey(one, key) for one in authorities for key in keys if is_of(key, one)]
    if not found or found[0].certificate != authorities[0]:
        raise AuthorityError(f"{file}: not the key of the first certificate in {folder / CA}")
    return found


def write_authorities(
    folder: Path,
    certificates: Sequence[x509.Certificate],
    keys: Sequence[PrivateKey],
    password: bytes | None,
) -> None:
    """Write who is trusted, and their keys.

    A crash between the two files leaves a key too many, which nobody misses.

    Raises:
        OSError: a file can't be written.

    """
    public = [key.public_key() for key in keys]
    before = [
        key
        for key in _keys_there(folder, password)
        if not any(private_keys.same_key(key.public_key(), one) for one in public)
    ]
    _write_keys(folder, [*keys, *before], password)
    pem = b"".join(one.public_bytes(Encoding.PEM) for one in certificates)
    replaced_file.replace(folder / CA, pem, is_durable=True, mode=OPEN)
    _write_keys(folder, keys, password)


def _write_keys(folder: Path, keys: Sequence[PrivateKey], password: bytes | None) -> None:
    pem = b"".join(private_keys.as_pem(key, password) for key in keys)
    replaced_file.replace(folder / CA_KEY, pem, is_durable=True, mode=SECRET)


def _keys_there(folder: Path, password: bytes | None) -> list[PrivateKey]:
    file = folder / CA_KEY
    return private_keys.load(file.read_bytes(), password) if file.exists() else []


def read_index(folder: Path) -> IssuedIndex:
    """Return the index; one of a folder that has none yet is made from its certificates.

    Raises:
        AuthorityError: a file can't be used.
        OSError: a file can't be read.

    """
    file = folder / INDEX
    if not file.exists():
        return _adopted(folder)
    try:
        return IssuedIndex.parse(file.read_bytes())
    except IssuedIndexError as error:
        raise AuthorityError(f"{file}: {error}") from error


def listed(folder: Path) -> list[IssuedCertificate]:
    """Return all that has been issued, the oldest first.

    Raises:
        AuthorityError: a file can't be used.
        OSError: there is no such folder, or a file can't be read.

    """
    with locked(folder):
        return read_index(folder).issued


def write_index(folder: Path, index: IssuedIndex) -> None:
    """Make a change.

    Raises:
        OSError: the file can't be written.

    """
    replaced_file.replace(folder / INDEX, index.as_bytes(), is_durable=True, mode=SECRET)


def lay_aside(folder: Path, certificate: x509.Certificate, key: PrivateKey) -> None:
    """Keep a fresh key until its certificate is in the index.

    Raises:
        OSError: it can't be written.

    """
    staged = _staged(folder, IssuedCertificate(certificate))
    replaced_file.replace(staged, private_keys.as_pem(key), is_durable=True, mode=SECRET)


def settle(folder: Path, index: IssuedIndex) -> None:
    """Make the files of each name those of the index.

    Raises:
        OSError: a file can't be read or written.

    """
    for name, one in index.current().items():
        file, key_file = folder / f"{name}.pem", folder / f"{name}.key.pem"
        staged = _staged(folder, one)
        is_fresh = not file.exists() or file.read_bytes() != one.pem
        if staged.exists():
            staged.replace(key_file)
        elif is_fresh and not _fits(key_file, one.certificate):
            key_file.unlink(missing_ok=True)  # its holder has made a key of its own
        if is_fresh:
            replaced_file.replace(file, one.pem, is_durable=True, mode=OPEN)
    for left in folder.glob("*.key.pem.*"):
        left.unlink(missing_ok=True)  # of a certificate that never came into the index


def remove(folder: Path, name: str) -> None:
    """Remove the files of a name.

    Raises:
        OSError: one can't be removed.

    """
    for end in (".pem", ".key.pem"):
        (folder / f"{name}{end}").unlink(missing_ok=True)


def write_revoked(
    folder: Path, index: IssuedIndex, certifying_keys: Sequence[CertifyingKey], days: int
) -> None:
    """Write the lists anew; that of an authority whose key is not here stays as it is.

    Raises:
        AuthorityError: a list that stays can't be read.
        OSError: a file can't be read or written.

    """
    now, lists = forms.now(), []
    ours = {one.certificate.subject: one for one in certifying_keys}
    for authority in trusted(folder):
        if (mine := ours.get(authority.subject)) is None:
            lists += [one for one in _lists(folder) if one.issuer == authority.subject]
            continue
        serials = index.revoked_by(forms.common_name(authority.subject), now)
        number = index.list_number
        lists.append(forms.revocations(mine.certificate, mine.key, serials, number, days))
    pem = b"".join(one.public_bytes(Encoding.PEM) for one in lists)
    replaced_file.replace(folder / REVOKED, pem, is_durable=True, mode=OPEN)


def lists_are_behind(folder: Path, index: IssuedIndex) -> bool:
    """Return whether the lists are older than the index, or have less than half of their time left.

    Raises:
        AuthorityError: a list can't be read.
        OSError: the file can't be read.

    """
    lists = {one.issuer: one for one in _lists(folder)}
    return not lists or any(
        _number(one) < index.list_number or _is_old(one) for one in lists.values()
    )


def _number(one: x509.CertificateRevocationList) -> int:
    try:
        return one.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        return 0  # of before there was an index


def _is_old(one: x509.CertificateRevocationList) -> bool:
    until = one.next_update_utc
    return until is not None and until - forms.now() < (until - one.last_update_utc) / 2


def _lists(folder: Path) -> list[x509.CertificateRevocationList]:
    file = folder / REVOKED
    if not file.exists():
        return []
    end = b"-----END X509 CRL-----"
    blocks = [block + end for block in file.read_bytes().split(end)[:-1]]
    try:
        return [x509.load_pem_x509_crl(block) for block in blocks]
    except ValueError as error:
        raise AuthorityError(f"{file}: a list that can't be read") from error


def _adopted(folder: Path) -> IssuedIndex:
    lists = _lists(folder)
    # Lists that counted anew would be older than these, and nobody would take them.
    index = IssuedIndex(list_number=max(map(_number, lists), default=0))
    revoked = {
        (one.issuer, each.serial_number): each.revocation_date_utc for one in lists for each in one
    }
    for file in sorted(folder.glob("*.pem")):
        if file.name in (CA, REVOKED) or file.name.endswith(".key.pem"):
            continue
        try:
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
        except ValueError as error:
            raise AuthorityError(f"{file}: no certificate in PEM") from error
        when = revoked.pop((certificate.issuer, certificate.serial_number), None)
        index.issued.append(IssuedCertificate(certificate, when))
    for issuer, serial in revoked:
        index.revoked_elsewhere.setdefault(forms.common_name(issuer), []).append(serial)
    return index


def _staged(folder: Path, one: IssuedCertificate) -> Path:
    return folder / f"{one.name}.key.pem.{one.serial}"


def _fits(key_file: Path, certificate: x509.Certificate) -> bool:
    """Return whether a key is that of a certificate: one that can't be read now is no other one.

    Raises:
        OSError: it can't be read.

    """
    try:
        (key, *_) = private_keys.load(key_file.read_bytes())
    except (FileNotFoundError, private_keys.PrivateKeyError):
        return False
    return is_of(key, certificate)


def is_of(key: PrivateKey, certificate: x509.Certificate) -> bool:
    """Return whether a key is that of a certificate."""
    public = certificate.public_key()
    return isinstance(public, PublicKey) and private_keys.same_key(key.public_key(), public)
