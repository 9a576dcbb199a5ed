"""Notes on an authority's changes for its audit trail."""

from __future__ import annotations

from collections.abc import Iterable

from cryptography import x509

from gateway.base.event_log import audit
from gateway.trust.certificates.authority_folder import AuthorityError
from gateway.trust.certificates.issued import IssuedCertificate


class NotNotedError(AuthorityError):
    """A right was taken away, and the audit trail can't tell of it."""


class ChangeNotes:
    """Notes what an authority has issued and taken back.

    Args:
        trail: takes it.
        who: makes the changes, where nobody else is named.

    """

    def __init__(self, trail: audit.AuditTrail, who: str) -> None:
        self._trail = trail
        self._who = who

    def note_taken(self, taken: Iterable[tuple[str, x509.Certificate | str]]) -> None:
        """Note changes that took a right away.

        Raises:
            NotNotedError: the trail does not tell of all.

        """
        lacking, why = list[str](), ""
        for what, of in taken:
            try:
                self.note(what, of)
            except OSError as error:
                why = error.strerror or str(error)
                lacking.append(f"{what}: {of if isinstance(of, str) else _named(of)}")
        if lacking:
            done = "; ".join(lacking)
            raise NotNotedError(f"{done}: done, but not noted: {self._trail.path}: {why}")

    def note(self, what: str, of: x509.Certificate | str, who: str | None = None) -> None:
        """Note a change, of a certificate or of a name.

        Raises:
            OSError: the trail can't be written.

        """
        if isinstance(of, str):
            self._trail.append(who or self._who, what, None, name=of)
            return
        one = IssuedCertificate(of)
        details: dict[str, audit.Detail] = {
            "name": one.name,
            "serial": one.serial,
            "roles": list(one.roles),
            "until": f"{one.until:%Y-%m-%d}",
        }
        self._trail.append(who or self._who, what, None, **details)


def _named(certificate: x509.Certificate) -> str:
    one = IssuedCertificate(certificate)
    return f"{one.name} {one.serial}"
