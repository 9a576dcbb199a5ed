"""A gateway follows its fleet: new authorities and revocations, and its own certificate in time.

It asks the enrolment service that ``keys.service`` names. What is new is checked, written by one
rename each, and then read as at SIGHUP. A renewed certificate has the key of the one before, so
that certificate and key fit to each other at every moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import random
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from gateway.base import replaced_file
from gateway.base.replaced_file import OvertakenError
from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.enrolment.client import EnrolmentClient, ServiceError
from gateway.trust.enrolment.requests import EnrolmentAnswer
from light_dataclasses import dataclass

LEFT = 1 / 3
"""Of its life, when a certificate is renewed."""
RETRY_S = 60.0
_MODE = 0o644

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FollowedFiles:
    """A gateway's files.

    Attributes:
        certificate: its own.
        key: of that.
        authorities: whom it trusts.
        revoked: what those have revoked; None to look at no lists.

    """

    certificate: Path
    key: Path
    authorities: Path
    revoked: Path | None


@dataclass(frozen=True, slots=True)
class TrustNews:
    """The content that files are to have by what the service said.

    Attributes:
        files: the path, what it held when the service was asked, and the new content of each.
        refused: why the service renews the certificate that has ended; None where it did not.

    """

    files: tuple[tuple[Path, bytes, bytes], ...]
    refused: ServiceError | None = None


class TrustFollower:
    """Asks every now and then.

    Args:
        service: where, as ``host:port``.
        files: tells where the gateway's are; asked for each look, for it may have another key now.
        interval_s: how often.
        changed: called when files are new, also where the next one could not be written.

    """

    def __init__(
        self,
        service: str,
        files: Callable[[], FollowedFiles],
        interval_s: float,
        changed: Callable[[], None],
    ) -> None:
        self._service = service
        self._files = files
        self._interval_s = interval_s
        self._changed = changed
        self._was_refused = ""
        self._written: list[str] = []
        """Names of files that are new, and of which nobody has been told."""

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            pause_s = self._interval_s
            try:
                await asyncio.to_thread(self.look)
                self._was_refused = ""
            except (ServiceError, OSError, ValueError) as error:
                pause_s = min(RETRY_S, pause_s)
                if str(error) != self._was_refused:  # once, not every minute
                    _log.warning("certificates are not followed: %s", error)
                self._was_refused = str(error)
            except Exception as error:  # else nobody renews any more until the next start
                _log.error("certificates are not followed: %r", error, exc_info=error)
            if written := self._written:
                self._written = []
                _log.info("new from %s: %s", self._service, ", ".join(written))
                self._changed()
            # Not all gateways at the same moment.
            await asyncio.sleep(pause_s * random.uniform(0.9, 1.1))

    def look(self, *, renews: bool = False) -> list[str]:
        """Ask once, and write what is new; see `ask` and `write`."""
        return self.write(self.ask(renews=renews))

    def ask(self, *, renews: bool = False) -> TrustNews:
        """Ask once, and write nothing.

        Args:
            renews: the certificate is renewed in any case; else when it is due.

        Raises:
            ServiceError: the service does not answer.
            OSError: a file can't be read.
            ValueError: a file or what the service said can't be read.

        """
        files = self._files()
        before = files.certificate.read_bytes()
        own = x509.load_pem_x509_certificates(before)[0]
        shown = (files.certificate, files.key)
        trusted = files.authorities.read_bytes()
        revoked = b"" if files.revoked is None else files.revoked.read_bytes()
        authorities = trusted.decode()
        client = EnrolmentClient(self._service, authorities, shown)
        refusal: ServiceError | None = None
        if renews or is_due(own, forms.now()) or self._is_of_one_before(own, authorities):
            (key, *_) = private_keys.load(files.key.read_bytes())
            try:
                found = client.renew(forms.common_name(own.subject), key)
                _check_renewed(found, own)
            except ServiceError as error:
                if own.not_valid_after_utc > forms.now():
                    raise
                # It takes none that has ended. Whom to trust it tells who shows none, too.
                refusal, found = error, EnrolmentClient(self._service, authorities).trust()
        else:
            found = client.trust()
        _check(found)
        # Whom to trust first: with the new list of an authority that is not known the gateway
        # would not read its files, and its own certificate may be of that one.
        rows = (
            (files.authorities, trusted, found.authorities.encode()),
            (files.revoked, revoked, found.revoked.encode()),
            (files.certificate, before, found.certificate.encode()),
        )
        if refusal is not None:
            ended = f"{files.certificate} ended at {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
            what_to_do = "if the clock is right, it takes a new token (`hedgerow keys enrol`)"
            refusal = ServiceError(f"{refusal}; {ended}: {what_to_do}")
        news = [(path, old, new) for path, old, new in rows if path and new and new != old]
        return TrustNews(tuple(news), refusal)

    def write(self, news: TrustNews) -> list[str]:
        """Write what is new; a file that somebody has edited since the service was asked stays.

        An operator may have put another certificate there, maybe with another key.

        Returns:
            The names of the files that are new.

        Raises:
            ServiceError: nothing is, since the service renews no certificate that has ended.
            OSError: a file can't be written.

        """
        new: list[str] = []
        for path, old, data in news.files:
            with contextlib.suppress(OvertakenError):
                replaced_file.replace(
                    path, data, is_durable=True, keeps_owner=True, mode=_MODE, instead_of=old
                )
                new.append(path.name)
                self._written.append(path.name)
        if news.refused is not None and not new:
            raise news.refused
        return new

    def _is_of_one_before(self, own: x509.Certificate, authorities: str) -> bool:
        """Return whether an earlier authority issued it, and others know the first one by now.

        All gateways ask once in an interval: when two have passed since the authority was made,
        nobody refuses its certificates.
        """
        first = x509.load_pem_x509_certificates(authorities.encode())[0]
        heard = forms.made_at(first) + datetime.timedelta(seconds=2 * self._interval_s)
        return first.subject != own.issuer and heard < forms.now()


def is_due(own: x509.Certificate, now: datetime.datetime) -> bool:
    """Return whether a certificate is to be renewed: when a third of its life is left."""
    life = own.not_valid_after_utc - own.not_valid_before_utc
    return own.not_valid_after_utc - now < life * LEFT


def _check(found: EnrolmentAnswer) -> None:
    """Check that what a service said can be read.

    Raises:
        ValueError: it can't.

    """
    authorities = x509.load_pem_x509_certificates(found.authorities.encode())
    subjects = {one.subject for one in authorities}
    end = "-----END X509 CRL-----"
    for block in found.revoked.split(end)[:-1]:
        if x509.load_pem_x509_crl(f"{block}{end}\n".encode()).issuer not in subjects:
            raise ValueError("a list of an authority that is not trusted")


def _check_renewed(found: EnrolmentAnswer, own: x509.Certificate) -> None:
    """Check that a renewed certificate can stand in the place of the last one.

    Raises:
        ValueError: it can't.

    """
    (new, *_) = x509.load_pem_x509_certificates(found.certificate.encode())
    is_same = new.subject == own.subject and new.public_key() == own.public_key()
    if not is_same or forms.alternative_names_of(new) != forms.alternative_names_of(own):
        raise ValueError("the renewed certificate is another one's, or for another key")
    authorities = x509.load_pem_x509_certificates(found.authorities.encode())
    issuer = next((one for one in authorities if one.subject == new.issuer), None)
    if issuer is None:
        raise ValueError("the renewed certificate is of an authority that is not trusted")
    new.verify_directly_issued_by(issuer)
