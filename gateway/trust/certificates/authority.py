"""The authority of a fleet: it issues certificates, renews them and revokes them.

Several commands may use a folder at a time: each change is made under its lock, from what the files
say then. What is in the folder: `gateway.trust.certificates.authority_folder`.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from cryptography import x509

from gateway.base.event_log import audit
from gateway.trust.certificates import authority_folder as files
from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority_folder import AuthorityError, CertifyingKey
from gateway.trust.certificates.change_notes import ChangeNotes, NotNotedError
from gateway.trust.certificates.issued import IssuedCertificate, IssuedIndex
from gateway.trust.certificates.names import is_file_name
from gateway.trust.certificates.signature_keys import PublicKey
from gateway.trust.certificates.token_book import TokenBook
from light_dataclasses import dataclass

DAYS = 730
"""For so long the certificates of gateways are valid, and the list of what is revoked."""
GATEWAY = ("gateway",)

__all__ = [
    "DAYS",
    "Authority",
    "AuthorityError",
    "CertificateMissingError",
    "NotIssuedError",
    "NotNotedError",
]


class NotIssuedError(AuthorityError):
    """The request does not fit to what has been issued; nothing is changed."""


class CertificateMissingError(NotIssuedError):
    """A name has no certificate, or a revoked one; nothing is changed."""


@dataclass(slots=True)
class OpenedAuthority:
    """The content of an authority's files, while they are locked.

    Attributes:
        keys: of the authorities that are trusted, the one that issues first.
        index: what has been issued.
        notes: changes that give a right, for the audit trail.
        taken: those that take one away, likewise.

    """

    keys: list[CertifyingKey]
    index: IssuedIndex
    notes: list[tuple[str, x509.Certificate, str | None]] = field(default_factory=list)
    taken: list[tuple[str, x509.Certificate | str]] = field(default_factory=list)

    @property
    def issuing(self) -> CertifyingKey:
        """Return the key that issues certificates."""
        return self.keys[0]

    def note(self, what: str, certificate: x509.Certificate, who: str | None = None) -> None:
        """Have a change that gives a right in the audit trail before it is made."""
        self.notes.append((what, certificate, who))

    def note_taken(self, what: str, of: x509.Certificate | str) -> None:
        """Have a change that takes a right away, of a certificate or a name, in the audit trail
        once it is made."""
        self.taken.append((what, of))


class Authority:
    """A fleet's authority whose files are there.

    Args:
        folder: of its files, for its owner alone.
        password: of its private key; None if that is not encrypted.
        who: makes the changes, for the audit trail; None for the user of this process.

    Raises:
        AuthorityError: a file of it can't be used.
        OSError: a file can't be read or written.

    """

    def __init__(self, folder: Path, password: bytes | None = None, who: str | None = None) -> None:
        self.folder = folder
        self.trail = audit.AuditTrail(folder / audit.FILE_NAME)
        self.password = password
        self._notes = ChangeNotes(self.trail, who or audit.current_user())
        files.certifying(folder, password)
        folder.chmod(0o700)

    def issued(self) -> list[IssuedCertificate]:
        """Return all that has been issued, the oldest first.

        Raises:
            AuthorityError: the index can't be used.
            OSError: it can't be read.

        """
        return files.listed(self.folder)

    def trusted(self) -> list[x509.Certificate]:
        """Return the authorities that its fleet trusts, the one that issues first."""
        return files.trusted(self.folder)

    def vouching(self) -> x509.Certificate:
        """Return the authority that all trust: in a roll-over, the one before."""
        return files.certifying(self.folder, self.password)[-1].certificate

    def has(self, name: str) -> bool:
        """Return whether a name has a certificate that is valid."""
        with files.locked(self.folder):
            found = files.read_index(self.folder).current().get(name)
        return found is not None and found.is_valid(forms.now())

    def issue(
        self,
        name: str,
        addresses: Iterable[str] = (),
        *,
        roles: Sequence[str] = GATEWAY,
        days: int = DAYS,
        kind: str = private_keys.KINDS[0],
        is_oldest: bool = False,
    ) -> Path:
        """Make a key and a certificate; one that the name has is replaced, not revoked.

        Args:
            name: the certificate's common name: a gateway's id, or a user's.
            addresses: where its holder is reached, besides the names that every gateway has.
            roles: of its holder (docs/access.md).
            days: how long it is valid.
            kind: of the key, one of `private_keys.KINDS`.
            is_oldest: in a roll-over, of the authority before: all trust that one.

        Returns:
            The certificate's file.

        Raises:
            AuthorityError: a file of the authority can't be used.
            OSError: a file can't be written.

        """
        key = private_keys.make(kind)
        others = forms.alternative_names(name, roles, addresses)
        with self.opened() as opened:
            if is_oldest:
                opened.keys.reverse()
            certificate = self._certificate(opened, key.public_key(), name, others, days)
            files.lay_aside(self.folder, certificate, key)
            opened.index.add(certificate, forms.now())
            opened.note("certificate issued", certificate)
        return self.folder / f"{name}.pem"

    def certify(
        self,
        name: str,
        key: PublicKey,
        addresses: Iterable[str] = (),
        *,
        roles: Sequence[str] = GATEWAY,
        days: int = DAYS,
        serial: int | None = None,
        who: str | None = None,
        may: Callable[[], bool] = lambda: True,
    ) -> IssuedCertificate:
        """Make a certificate for a key that its holder keeps.

        Args:
            name: the common name.
            key: the holder's.
            addresses: where it is reached.
            roles: of the holder.
            days: how long it is valid.
            serial: its number; what has been issued under that is not made again. None to draw one.
            who: asked for it, for the audit trail.
            may: says, while the folder is locked, whether a new one may be made still.

        Returns:
            The one with this number, whatever has become of it.

        Raises:
            NotIssuedError: it may not be made any more.
            AuthorityError: a file of the authority can't be used.
            OSError: a file can't be written.

        """
        others = forms.alternative_names(name, roles, addresses)
        with self.opened() as opened:
            for one in opened.index.issued:
                if one.certificate.serial_number == serial:
                    return one
            if not may():
                raise NotIssuedError(f"{name!r}: what it was asked for by was taken back")
            certificate = self._certificate(opened, key, name, others, days, serial)
            issued = opened.index.add(certificate, forms.now())
            opened.note("certificate issued", certificate, who)
        return issued

    def renew(
        self,
        name: str,
        addresses: Iterable[str] | None = None,
        *,
        days: int = DAYS,
        key: PublicKey | None = None,
        who: str | None = None,
    ) -> IssuedCertificate:
        """Make a new certificate that says what a name's last one says.

        Args:
            name: whose.
            addresses: where it is reached from now on; None for where it has been.
            days: how long it is valid.
            key: of the holder; None to make a new one here.
            who: asked for it, for the audit trail.

        Raises:
            CertificateMissingError: the name has none, or it is revoked.
            AuthorityError: a file of the authority can't be used.
            OSError: a file can't be written.

        """
        with self.opened() as opened:
            last = self._last(opened, name)
            if last.revoked is not None:
                raise CertificateMissingError(
                    f"{name!r}: its certificate is revoked: issue a new one"
                )
            others = forms.alternative_names_of(last.certificate)
            if addresses is not None:
                others = forms.alternative_names(name, last.roles, addresses)
            own, public = None, key
            if public is None:
                own = private_keys.make(_kind_of(last.certificate))
                public = own.public_key()
            certificate = self._certificate(opened, public, name, others, days)
            if own is not None:
                files.lay_aside(self.folder, certificate, own)
            issued = opened.index.add(certificate, forms.now())
            opened.note("certificate renewed", certificate, who)
        return issued

    def revoke(
        self, names: Iterable[str] = (), days: int = DAYS, *, keep_last: bool = False
    ) -> list[IssuedCertificate]:
        """Renew the lists of what is revoked, with these certificates added.

        Open tokens of the names that they have are taken back with them.

        Args:
            names: whose, with all that they were ever issued; or serial numbers in hexadecimal.
            days: how long the lists are valid.
            keep_last: whether the last certificate of each name stays good.

        Returns:
            What was not revoked before.

        Raises:
            CertificateMissingError: a name has none.
            NotNotedError: all is revoked, and the audit trail does not tell of it, or tokens could
                not be taken back.
            AuthorityError: a file of the authority can't be used.
            OSError: a file can't be read or written.

        """
        failed: OSError | None = None
        with self.opened(days) as opened:
            chosen: set[str] = set()
            for name in names:
                of_name = [one.serial for one in opened.index.issued if one.name == name]
                if keep_last and of_name:
                    chosen.update(of_name[:-1])
                    continue
                of_name = of_name or [
                    one.serial for one in opened.index.issued if one.serial == name.lower()
                ]
                if not of_name:
                    raise CertificateMissingError(self._none(name))
                chosen.update(of_name)
            revoked = opened.index.revoke(chosen, forms.now())
            for one in revoked:
                opened.note_taken("certificate revoked", one.certificate)
            try:
                for name in self._withdrawn(opened.index, chosen):
                    opened.note_taken("token taken back", name)
            except OSError as error:  # what is revoked, is revoked all the same
                failed = error
        if failed is not None:
            why = f"{failed.filename or self.folder}: {failed.strerror or failed}"
            raise NotNotedError(f"all is revoked, but open tokens are not taken back: {why}")
        return revoked

    def _withdrawn(self, index: IssuedIndex, chosen: Collection[str]) -> list[str]:
        """Take back the open tokens of whose certificates are chosen; return whose there were."""
        names = {one.name for one in index.issued if one.serial in chosen}
        serials = {one.serial for one in index.issued}
        now_s = forms.now().timestamp()
        with contextlib.suppress(AuthorityError):  # of a book that can't be read no token is good
            return TokenBook(self.folder).withdraw(names, serials, now_s) if names else []
        return []

    def forget(self, name: str, kept: Collection[IssuedCertificate]) -> None:
        """Take back what a name was issued, and what has never left the folder.

        Args:
            name: whose.
            kept: what had been issued before. That stays: what is revoked of it, too.

        Raises:
            NotNotedError: it is taken back, and the audit trail does not tell of it.
            AuthorityError: a file of the authority can't be used.
            OSError: a file can't be written.

        """
        before = {one.serial for one in kept}
        with self.opened() as opened:
            issued = opened.index.issued
            gone = [one for one in issued if one.name == name and one.serial not in before]
            if gone:
                opened.index.issued = [one for one in issued if one not in gone]
                files.remove(self.folder, name)
            for one in gone:
                opened.note_taken("certificate taken back", one.certificate)

    @contextlib.contextmanager
    def opened(self, list_days: int | None = None) -> Iterator[OpenedAuthority]:
        """Open the files, and write what they are changed to.

        Args:
            list_days: how long the lists are valid that are made; None to make them only if those
                that are there are old, or of before a crash.

        Raises:
            NotNotedError: all is written but what the audit trail says of it.
            AuthorityError: a file can't be used.
            OSError: a file can't be read or written.

        """
        with files.locked(self.folder):
            keys = files.certifying(self.folder, self.password)
            opened = OpenedAuthority(keys, files.read_index(self.folder))
            files.settle(self.folder, opened.index)
            yield opened
            is_behind = files.lists_are_behind(self.folder, opened.index)
            if list_days is not None or is_behind:
                opened.index.list_number += 1
            try:
                # Before the change: nobody has a certificate of which no note tells.
                for what, certificate, who in opened.notes:
                    self._notes.note(what, certificate, who)
                files.write_index(self.folder, opened.index)
            except OSError:
                for what, certificate, who in opened.notes:
                    with contextlib.suppress(OSError):
                        self._notes.note(f"{what}: could not be written", certificate, who)
                raise
            files.settle(self.folder, opened.index)
            if list_days is not None or is_behind:
                days = list_days or DAYS
                files.write_revoked(self.folder, opened.index, opened.keys, days)
            self._notes.note_taken(opened.taken)

    def _certificate(
        self,
        opened: OpenedAuthority,
        key: PublicKey,
        name: str,
        others: x509.SubjectAlternativeName,
        days: int,
        serial: int | None = None,
    ) -> x509.Certificate:
        if not is_file_name(name):
            raise NotIssuedError(f"{name!r} can be no name of a certificate here")
        issuing = opened.issuing
        if issuing.certificate.not_valid_after_utc < forms.now():
            raise AuthorityError(f"{self.folder / files.CA}: the authority itself has expired")
        signed_by = issuing.certificate, issuing.key
        return forms.certificate(*signed_by, key, name, others, days, serial)

    def _last(self, opened: OpenedAuthority, name: str) -> IssuedCertificate:
        try:
            return opened.index.current()[name]
        except KeyError as error:
            raise CertificateMissingError(self._none(name)) from error

    def _none(self, name: str) -> str:
        return f"{name!r} has no certificate here: {self.folder / name}.pem"


def ends_within(one: IssuedCertificate, days: int) -> bool:
    """Return whether a certificate ends within so many days."""
    return one.until < forms.now() + datetime.timedelta(days=days)


def _kind_of(certificate: x509.Certificate) -> str:
    key = certificate.public_key()
    assert isinstance(key, PublicKey)  # nothing else is issued
    return private_keys.kind_of(key)
