"""Visitors of the console, and which pages each may see.

Who is on this machine needs no proof. Others name a user of the password file and its password
(Basic, RFC 7617), which TLS hides on the way unless only this machine reaches the console; or they
show a certificate there. Who is shown a page without proof has to ask for this machine, and by no
name that could be another site's: else a page of that site would read here what its visitor may.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections.abc import Awaitable, Collection
from http import HTTPStatus
from typing import Final

from gateway.broker.access.passwords import Passwords
from gateway.broker.limits import Limits
from gateway.process.console.pages import HttpRequest
from gateway.trust.policy.action import CONSOLE, Action
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import CERTIFICATE, LOCAL, NAMELESS, STRANGER, Principal
from gateway.trust.policy.principal import CONSOLE as CONSOLE_USER
from gateway.trust.shares.failed_attempts import FailedAttempts
from gateway.trust.shares.password_checks import PasswordChecks
from gateway.trust.tls.peer_certificate import PeerCertificate
from gateway.web.host_field import names_this_machine

LIVENESS: Final = "/healthz"
"""Anybody is told that the gateway can do its work, and no more."""
PROVED_MAX: Final = 64
"""Passwords that are not computed with again each time a program looks at a page."""

DenialStatus = HTTPStatus | None
"""The status for a visitor that may not see a page; None if it may."""


class PageAccess:
    """Decides who sees which page.

    Args:
        policy: says so.
        passwords: of the users; None for none.
        limits: how often an address may fail.
        names: that this machine is asked by, beside its addresses.

    """

    def __init__(
        self,
        policy: Policy,
        passwords: Passwords | None,
        limits: Limits,
        names: Collection[str] = (),
    ) -> None:
        self._policy = policy
        self._names = frozenset(names)
        self._passwords = passwords
        self._failures = FailedAttempts(limits.failures_at_once, limits.failures_per_s)
        self._checks = PasswordChecks(at_once=1)
        self._key = secrets.token_bytes(32)
        self._proved: dict[bytes, None] = {}

    def follow(self, policy: Policy, passwords: Passwords | None) -> None:
        """Go by another policy and other passwords."""
        self._policy = policy
        self._passwords = passwords
        self._proved.clear()

    def refusal(
        self, request: HttpRequest, host: str, certificate: PeerCertificate | None = None
    ) -> DenialStatus | Awaitable[DenialStatus]:
        """Return what a visitor is answered with that may not see a page.

        Args:
            request: what it asks for; a password in it counts before a certificate.
            host: its address.
            certificate: what it has shown, verified.

        """
        if request.path == LIVENESS:
            return None
        if not request.authorization and certificate is not None:
            shown = self._policy.principal(CERTIFICATE, certificate.name, certificate.roles)
            return self._decided(shown, request)
        if not request.authorization:
            return self._of_nameless(request, host)
        named = _credentials(request.authorization)
        if named is None or self._passwords is None:
            return HTTPStatus.UNAUTHORIZED
        if self._mark(*named) in self._proved:
            return self._decided(self._policy.principal(CONSOLE_USER, named[0]), request)
        return self._verified(self._passwords, request, host, *named)

    def _of_nameless(self, request: HttpRequest, host: str) -> DenialStatus:
        kind = LOCAL if host.removeprefix("::ffff:") in ("127.0.0.1", "::1") else STRANGER
        refusal = self._decided(self._policy.principal(kind), request)
        if refusal is None and not names_this_machine(request.host, self._names):
            return HTTPStatus.MISDIRECTED_REQUEST
        return refusal  # a browser that is to name its user has to be answered 401

    async def _verified(
        self, passwords: Passwords, request: HttpRequest, host: str, user: str, password: bytes
    ) -> DenialStatus:
        now = asyncio.get_running_loop().time
        is_right = await self._checks.run(
            host,
            user,
            lambda: passwords.verify(user, password),
            lambda: not self._failures.is_blocked(host, now()),
        )
        if is_right is None:
            return HTTPStatus.TOO_MANY_REQUESTS
        if not is_right:
            self._failures.failed(host, now())
            return HTTPStatus.UNAUTHORIZED
        if passwords is self._passwords:
            if len(self._proved) >= PROVED_MAX:
                self._proved.clear()
            self._proved[self._mark(user, password)] = None
        return self._decided(self._policy.principal(CONSOLE_USER, user), request)

    def _decided(self, principal: Principal, request: HttpRequest) -> DenialStatus:
        action = Action(CONSOLE, request.path, self._policy.here)
        if self._policy.may(principal, action):
            return None
        is_unknown = principal.kind in NAMELESS
        return HTTPStatus.UNAUTHORIZED if is_unknown else HTTPStatus.FORBIDDEN

    def _mark(self, user: str, password: bytes) -> bytes:
        return hmac.digest(self._key, user.encode() + b"\0" + password, "sha256")


def _credentials(authorization: str) -> tuple[str, bytes] | None:
    """User and password of a header (RFC 7617, section 2); None if it is none of Basic."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon and user else None
    except (binascii.Error, UnicodeDecodeError):
        return None
