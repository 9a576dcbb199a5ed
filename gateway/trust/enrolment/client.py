"""Client of an enrolment service: over TLS, and only one that its fleet vouches for.

The service's certificate has to be of a trusted authority and have the role ``enrolment``; its host
name is not looked at. A stolen gateway has no such certificate, so it is told no secrets.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from alerts.ways.deadline import DeadlineError, within
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.enrolment import requests
from gateway.trust.enrolment.requests import EnrolmentAnswer, EnrolmentRequestError
from gateway.trust.enrolment.tokens import EnrolmentToken, fingerprint_of
from gateway.trust.tls.certificates import identify
from gateway.trust.tls.peer_certificate import CertificateError

TIMEOUT_S = 15.0
EXCHANGE_S = 120.0
"""From the first word to the last byte of an answer, however slowly the service speaks."""


class ServiceError(Exception):
    """A service gave no answer that can be used: ``str(error)`` is one line."""


class EnrolmentClient:
    """Asks one service.

    Args:
        service: where it is, as ``host:port``.
        authorities: who may vouch for it, in PEM.
        own: a certificate and its key to show; None for none.

    """

    def __init__(
        self, service: str, authorities: str, own: tuple[Path, Path] | None = None
    ) -> None:
        self._service = service
        self._context = context = _context()
        context.load_verify_locations(cadata=authorities)
        context.verify_mode = ssl.CERT_REQUIRED
        if own is not None:
            context.load_cert_chain(*own, password="")

    def trust(self) -> EnrolmentAnswer:
        """Return whom the fleet trusts.

        Raises:
            ServiceError: there is no answer.

        """
        return _ask(self._service, self._context, "GET", requests.TRUST)

    def enrol(self, token: EnrolmentToken, key: PrivateKey) -> EnrolmentAnswer:
        """Get a certificate with a token.

        Raises:
            ServiceError: there is none.

        """
        body = {
            "name": token.name,
            "secret": token.secret.hex(),
            "request": requests.asked(key, token.name),
        }
        return _ask(self._service, self._context, "POST", requests.ENROL, body)

    def renew(self, name: str, key: PrivateKey) -> EnrolmentAnswer:
        """Get a new certificate with the one that is shown.

        Raises:
            ServiceError: there is none.

        """
        body = {"request": requests.asked(key, name)}
        return _ask(self._service, self._context, "POST", requests.RENEW, body)


def vouched_by(token: EnrolmentToken) -> str:
    """Return the authority whose fingerprint a token has, in PEM.

    It is asked of a service that has proved nothing yet, which is told no secret: whatever it
    says, only a certificate with that fingerprint is taken.

    Raises:
        ServiceError: the service does not have it.

    """
    context = _context()
    context.verify_mode = ssl.CERT_NONE
    found = _ask(token.service, context, "GET", requests.TRUST, is_vouched_for=False)
    for one in x509.load_pem_x509_certificates(found.authorities.encode()):
        if fingerprint_of(one) == token.fingerprint:
            return one.public_bytes(Encoding.PEM).decode()
    raise ServiceError(
        f"{token.service}: not the service of the token's authority: the fingerprint is another "
        "one. If nobody stands between, take a token of the authority that is served there"
    )


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # see above
    return context


def _ask(
    service: str,
    context: ssl.SSLContext,
    method: str,
    path: str,
    body: Mapping[str, str] | None = None,
    is_vouched_for: bool = True,
) -> EnrolmentAnswer:
    host, _, port = service.rpartition(":")
    connection = http.client.HTTPSConnection(
        host.strip("[]"), int(port), timeout=TIMEOUT_S, context=context
    )
    try:
        connection.connect()
        if is_vouched_for:
            _check_service(connection)
        data = None if body is None else json.dumps(body)
        opened = connection.sock  # the last answer on a connection takes it away
        with within(EXCHANGE_S, lambda: opened):
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read(requests.ANSWER_BYTES_MAX)
        if response.status != http.client.OK:
            raise ServiceError(f"{service}: {_reason(answer, response.reason)}")
        return EnrolmentAnswer.parse(answer)
    except ssl.SSLCertVerificationError as error:
        raise ServiceError(f"{service}: its certificate: {error.verify_message}") from error
    except DeadlineError as error:  # it does answer: nothing that a silent one needs is told
        raise ServiceError(f"{service}: its answer: {error}") from None
    except TimeoutError as error:
        raise ServiceError(f"{service}: no answer within {TIMEOUT_S:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise ServiceError(f"{service}: {why or type(error).__name__}") from error
    except EnrolmentRequestError as error:
        raise ServiceError(f"{service}: an answer that can't be read: {error}") from error
    finally:
        connection.close()


def _check_service(connection: http.client.HTTPSConnection) -> None:
    der = connection.sock.getpeercert(binary_form=True)
    try:
        peer = identify(der or b"")
    except CertificateError as error:
        raise ServiceError(f"{connection.host}: {error}") from error
    if forms.ENROLMENT not in peer.roles:
        raise ServiceError(
            f"{connection.host}: {peer.name!r} answers, whose certificate lacks the role "
            f"{forms.ENROLMENT}: nothing is told to it"
        )


def _reason(answer: bytes, status: str) -> str:
    try:
        return requests.text_of(requests.read_object(answer), "error")[:200]
    except EnrolmentRequestError:
        return status
