"""Log-in to a page in a browser with a user's password, and who is logged in."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final, Literal

from gateway.broker.access.passwords import Passwords
from gateway.broker.limits import Limits
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import CONSOLE as CONSOLE_USER
from gateway.trust.policy.principal import LOCAL, Principal
from gateway.trust.shares.failed_attempts import FailedAttempts
from gateway.trust.shares.password_checks import PasswordChecks
from gateway.web.web_sessions import WebSessions
from light_dataclasses import dataclass

WAITING_MAX: Final = 32
"""Passwords that wait to be checked."""
USER_CHARACTERS_MAX: Final = 256
PASSWORD_BYTES_MAX: Final = 1024

LogIn = Literal["wrong", "later", "forbidden"]
"""The reason why somebody is not logged in."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token that a logged-in browser keeps."""

    text: str


class WebLogIn:
    """Decides who comes in.

    Args:
        policy: says who is who.
        passwords: of the users; None where whoever is on this machine may look, by the role that
            the policy gives ``local``.
        may_enter: whether the page is for somebody, by that policy.
        limits: how often an address may fail; the usual ones if not given.

    Attributes:
        policy: as given, or as replaced.

    """

    def __init__(
        self,
        policy: Policy,
        passwords: Passwords | None,
        may_enter: Callable[[Policy, Principal], bool],
        limits: Limits | None = None,
    ) -> None:
        limits = limits or Limits()
        self.policy = policy
        self._passwords = passwords
        self._may_enter = may_enter
        self._failures = FailedAttempts(limits.failures_at_once, limits.failures_per_s)
        self._checks = PasswordChecks(at_once=1)
        self._sessions = WebSessions(lambda: secrets.token_urlsafe(32))

    def replace(self, policy: Policy, passwords: Passwords | None) -> None:
        """Go by other rules from now on; who has another password, or none, is logged out.

        Args:
            policy: as for a new one.
            passwords: likewise; None only where there were none.

        """
        self.policy = policy
        before, self._passwords = self._passwords, passwords
        self._sessions.end_of(lambda user: not _is_same(before, passwords, user))

    @property
    def asks(self) -> bool:
        """Return whether visitors have to log in."""
        return self._passwords is not None

    def visitor(self, token: str, now_s: float) -> Principal | None:
        """Return who shows a token; None for who has to log in.

        Args:
            token: of the cookie; empty for none.
            now_s: of a clock that only goes forward.

        """
        if self._passwords is None:
            return self.policy.principal(LOCAL)
        user = self._sessions.user(token, now_s)
        return None if user is None else self.policy.principal(CONSOLE_USER, user)

    def may_enter(self, visitor: Principal) -> bool:
        """Return whether the page is for somebody."""
        return self._may_enter(self.policy, visitor)

    async def log_in(self, user: str, password: bytes, address: str) -> Token | LogIn:
        """Check a password.

        Args:
            user: whose it is said to be.
            password: as it was typed.
            address: where it comes from; one that failed too often has to wait.

        """
        if refused := await self.why_unproved(user, password, address):
            return refused
        if not self.may_enter(self.policy.principal(CONSOLE_USER, user)):
            return "forbidden"
        return Token(self._sessions.begin(user, asyncio.get_running_loop().time()))

    async def why_unproved(
        self, user: str, password: bytes, address: str
    ) -> Literal["", "wrong", "later"]:
        """Return why a password proves nothing; empty if it is the user's.

        Args:
            user: as of `log_in`.
            password: likewise.
            address: likewise; a wrong password counts, wherever it was typed.

        """
        passwords = self._passwords
        if passwords is None or not 0 < len(user) <= USER_CHARACTERS_MAX:
            return "wrong"
        if self._checks.waiting >= WAITING_MAX:
            return "later"
        now = asyncio.get_running_loop().time
        is_right = len(password) <= PASSWORD_BYTES_MAX and await self._checks.run(
            address,
            user,
            lambda: passwords.verify(user, password),
            lambda: not self._failures.is_blocked(address, now()),
        )
        if is_right is None:
            return "later"
        if is_right and passwords is not self._passwords:  # read again meanwhile
            is_right = _is_same(passwords, self._passwords, user)
        if not is_right:
            self._failures.failed(address, now())
            return "wrong"
        return ""

    def failed(self, address: str) -> None:
        """Note a log-in that says no user and password at all."""
        self._failures.failed(address, asyncio.get_running_loop().time())

    def log_out(self, token: str) -> None:
        """Forget a token."""
        self._sessions.end(token)


def _is_same(before: Passwords | None, now: Passwords | None, user: str) -> bool:
    return before is not None and now is not None and before.agrees(now, user)
