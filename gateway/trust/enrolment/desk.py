"""Desk of an enrolment service: it deals with a request, without sockets."""

from __future__ import annotations

import binascii
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from cryptography import x509

from gateway.trust.certificates import authority_folder as files
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import Authority, NotIssuedError
from gateway.trust.certificates.issued import IssuedCertificate
from gateway.trust.certificates.signature_keys import PublicKey
from gateway.trust.certificates.token_book import TokenBook, TokenError, TokenGrant
from gateway.trust.enrolment import requests
from gateway.trust.enrolment.requests import EnrolmentAnswer, EnrolmentRequestError
from gateway.trust.shares.failed_attempts import FailedAttempts
from light_dataclasses import dataclass

FAILURES_AT_ONCE = 10
FAILURES_PER_S = 0.1

_log = logging.getLogger(__name__)


class RefusedRequestError(Exception):
    """A request is refused.

    Args:
        status: how.
        why: one line for who asked.

    """

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Asker:
    """A client of the enrolment service.

    Attributes:
        address: where from.
        certificate: what TLS has verified, in DER; None where none was shown.

    """

    address: str
    certificate: bytes | None = None


class EnrolmentDesk:
    """Answers requests with the files of an authority.

    Args:
        authority: which issues.
        wall_clock: seconds since 1970, for when tokens end.
        clock: in seconds, and never goes back, for how long an address that guesses has to wait.

    """

    def __init__(
        self,
        authority: Authority,
        wall_clock: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._book = TokenBook(authority.folder)
        self._wall_clock = wall_clock
        self._clock = clock
        self._failures = FailedAttempts(FAILURES_AT_ONCE, FAILURES_PER_S)

    def answer(self, method: str, path: str, body: bytes, asker: Asker) -> EnrolmentAnswer:
        """Return the answer to a request.

        Raises:
            RefusedRequestError: there is none.
            AuthorityError: the authority's files can't be used.
            OSError: one can't be read or written.

        """
        ways: dict[tuple[str, str], Callable[[], EnrolmentAnswer]] = {
            ("GET", requests.TRUST): self._trust,
            ("POST", requests.ENROL): lambda: self._enrol(body, asker),
            ("POST", requests.RENEW): lambda: self._renew(body, asker),
        }
        way = ways.get((method, path))
        if way is None:
            raise RefusedRequestError(HTTPStatus.NOT_FOUND, "there is no such request")
        if self._failures.is_blocked(asker.address, self._clock()):
            raise RefusedRequestError(HTTPStatus.TOO_MANY_REQUESTS, "too many failures: wait")
        try:
            return way()
        except EnrolmentRequestError as error:
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, str(error)) from error
        except RefusedRequestError as error:
            self._failures.failed(asker.address, self._clock())
            _log.warning("%s from %s is refused: %s", path, asker.address, error)
            raise

    def _trust(
        self, own: IssuedCertificate | None = None, welcome: Mapping[str, Any] | None = None
    ) -> EnrolmentAnswer:
        folder = self._authority.folder
        with files.locked(folder):
            authorities, revoked = folder / files.CA, folder / files.REVOKED
            certificate = "" if own is None else own.pem.decode()
            return EnrolmentAnswer(
                authorities.read_text(), revoked.read_text(), certificate, welcome
            )

    def _enrol(self, body: bytes, asker: Asker) -> EnrolmentAnswer:
        found = requests.read_object(body)
        name, request = requests.text_of(found, "name"), requests.text_of(found, "request")
        key = requests.key_of(request)
        try:
            secret = bytes.fromhex(requests.text_of(found, "secret"))
        except (ValueError, binascii.Error) as error:
            raise EnrolmentRequestError("secret: not hexadecimal") from error
        fingerprint = requests.key_fingerprint(key)
        try:
            grant = self._book.spend(name, secret, fingerprint, self._wall_clock())
        except TokenError as error:
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, str(error)) from error
        if grant.serial:
            issued = self._certified(grant, key, f"token of {name} from {asker.address}")
        else:
            issued = self._given_before(name, key)
        if not issued.is_valid(forms.now()):
            why = "its certificate is not valid any more: it takes a new token"
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, why)
        _log.info("%s is enrolled from %s", name, asker.address)
        return self._trust(issued, grant.welcome)

    def _certified(self, grant: TokenGrant, key: PublicKey, who: str) -> IssuedCertificate:
        try:
            return self._authority.certify(
                grant.name,
                key,
                grant.addresses,
                roles=grant.roles,
                days=grant.days,
                serial=int(grant.serial, 16),
                who=who,
                # A revocation may have come since it was spent, and took it back.
                may=lambda: self._book.stands(grant, self._wall_clock()),
            )
        except NotIssuedError as error:
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, str(error)) from error

    def _given_before(self, name: str, key: PublicKey) -> IssuedCertificate:
        """Return the newest certificate that a name has for a key."""
        for one in reversed(self._authority.issued()):
            if one.name == name and one.certificate.public_key() == key:
                return one
        raise RefusedRequestError(HTTPStatus.FORBIDDEN, "the token has been used: take a new one")

    def _renew(self, body: bytes, asker: Asker) -> EnrolmentAnswer:
        key = requests.key_of(requests.text_of(requests.read_object(body), "request"))
        if asker.certificate is None:
            raise RefusedRequestError(HTTPStatus.UNAUTHORIZED, "no certificate was shown")
        shown = x509.load_der_x509_certificate(asker.certificate)
        # The index knows best: a list that OpenSSL was given may be older.
        mine = [one for one in self._authority.issued() if one.certificate == shown]
        if not mine or not mine[0].is_valid(forms.now()):
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "the certificate is not valid here")
        days = (shown.not_valid_after_utc - shown.not_valid_before_utc).days - 1
        who = f"certificate of {mine[0].name} from {asker.address}"
        try:
            issued = self._authority.renew(mine[0].name, days=max(days, 1), key=key, who=who)
        except NotIssuedError as error:
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, str(error)) from error
        _log.info("%s has renewed its certificate from %s", mine[0].name, asker.address)
        return self._trust(issued)
