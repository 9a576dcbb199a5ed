"""Founding of a fleet's authority, and of another one in its place (a roll-over).

In a roll-over two authorities are trusted. First all gateways are given both, then each is given a
certificate of the new one, and in the end the old one is trusted no longer: at no time does one
gateway refuse another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509

from gateway.trust.certificates import authority_folder as files
from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import DAYS, Authority, NotIssuedError
from gateway.trust.certificates.authority_folder import CertifyingKey

CA_DAYS = 20 * 365


def found(
    folder: Path,
    password: bytes | None = None,
    *,
    kind: str = private_keys.KINDS[0],
    days: int = CA_DAYS,
) -> Authority:
    """Make a new authority.

    Args:
        folder: of its files; made if it is not there.
        password: to encrypt its key with.
        kind: of its key, one of `private_keys.KINDS`.
        days: how long it is trusted.

    Raises:
        NotIssuedError: the folder has an authority.
        OSError: a file can't be written.

    """
    key = private_keys.make(kind)
    return take_over(folder, CertifyingKey(forms.authority(key, days), key), password)


def take_over(
    folder: Path,
    pair: CertifyingKey,
    password: bytes | None = None,
    above: Sequence[x509.Certificate] = (),
) -> Authority:
    """Use an authority whose key was made elsewhere.

    Args:
        folder: of its files; made if it is not there.
        pair: its certificate and key.
        password: to encrypt its key with.
        above: authorities that vouch for it, if it is no root.

    Raises:
        NotIssuedError: the folder has an authority.
        OSError: a file can't be written.

    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with files.locked(folder):
        if (folder / files.CA).exists():
            raise NotIssuedError(f"{folder / files.CA} is there already, and stays as it is")
        files.write_authorities(folder, [pair.certificate, *above], [pair.key], password)
    authority = Authority(folder, password)
    with authority.opened(DAYS) as opened:
        opened.note("authority made", pair.certificate)
    return authority


def begin_roll_over(authority: Authority, days: int = CA_DAYS) -> x509.Certificate:
    """Make a new authority that issues from now on; the one before stays trusted.

    Raises:
        NotIssuedError: a roll-over is under way.
        AuthorityError: a file can't be used.
        OSError: a file can't be written.

    """
    folder = authority.folder
    with authority.opened(DAYS) as opened:
        if len(opened.keys) > 1:
            raise NotIssuedError("a roll-over is under way: finish it first (--finish)")
        before = opened.issuing
        key = private_keys.make(private_keys.kind_of(before.key))
        fresh = CertifyingKey(forms.authority(key, days), key)
        stand = [fresh.certificate, *files.trusted(folder)]
        files.write_authorities(folder, stand, [fresh.key, before.key], authority.password)
        opened.keys.insert(0, fresh)
        opened.note("roll-over begun", fresh.certificate)
    return fresh.certificate


def end_roll_over(authority: Authority, *, is_forced: bool = False) -> x509.Certificate:
    """Trust the new authority alone.

    Args:
        authority: of which there are two.
        is_forced: also where certificates of the one before are in use.

    Raises:
        NotIssuedError: there is no roll-over, or the newest certificate of somebody is one of the
            authority before.
        NotNotedError: it is ended, and the audit trail does not tell of it.
        AuthorityError: a file can't be used.
        OSError: a file can't be written.

    """
    with authority.opened(DAYS) as opened:
        issuing, stand = opened.issuing, files.trusted(authority.folder)
        above = [one for one in stand[1:] if one.subject == issuing.certificate.issuer]
        kept = [issuing.certificate, *above]
        if len(stand) == len(kept):
            raise NotIssuedError("no roll-over is under way")
        own = forms.common_name(issuing.certificate.subject)
        left = sorted(
            one.name
            for one in opened.index.current().values()
            if one.issuer != own and one.is_valid(forms.now()) and not one.is_service
        )
        if left and not is_forced:
            why = "still with a certificate of the authority before"
            raise NotIssuedError(f"{why}, to be renewed first: {', '.join(left)}")
        files.write_authorities(authority.folder, kept, [issuing.key], authority.password)
        del opened.keys[1:]
        opened.note_taken("roll-over ended", issuing.certificate)
    return issuing.certificate
