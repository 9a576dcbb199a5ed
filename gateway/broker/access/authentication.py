"""CONNECT: whether a client is who it says it is.

A certificate that the TLS handshake has verified is enough by itself. A client that names a user
proves it by the password file, where there is one; one that names none is let in if anonymous
clients are. Plugins are asked besides: each may refuse, and where there is neither password file
nor leave for anonymous clients one of them must know the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.access.passwords import Passwords
from gateway.broker.hooks import MADE_UP, Client, DeliveryVerdict
from gateway.broker.limits import Limits
from gateway.trust.shares.failed_attempts import FailedAttempts
from gateway.trust.shares.password_checks import PasswordChecks

if TYPE_CHECKING:
    from gateway.broker.access.plugins import AuthPlugins


class Authentication:
    """Decides who comes in: `hooks.Authenticator`.

    Args:
        passwords: of the users; None where there is no password file.
        binds_client_ids: whether a client's identifier has to be one of its user's.
        anonymous: whether clients come in without proof.
        plugins: are asked besides; None where there are none.
        limits: how often an address may fail.
        refusals: counts those that are refused for failing too often.

    """

    def __init__(
        self,
        passwords: Passwords | None,
        *,
        binds_client_ids: bool,
        anonymous: bool,
        plugins: AuthPlugins | None,
        limits: Limits,
        refusals: CountedLines,
    ) -> None:
        self._passwords = passwords
        self._binds_client_ids = binds_client_ids
        self._anonymous = anonymous
        self._plugins = plugins
        self._now = asyncio.get_running_loop().time
        self._refusals = refusals
        self._checks = PasswordChecks()
        self._failures = FailedAttempts(limits.failures_at_once, limits.failures_per_s)

    def follow(self, passwords: Passwords | None, *, binds_client_ids: bool) -> None:
        """Go by other passwords; see the class."""
        self._passwords = passwords
        self._binds_client_ids = binds_client_ids

    def user(self, client: Client) -> str | None:
        """Return the user name that an admitted client has proved; None if it proved none."""
        if client.certificate is None and self._anonymous and self._passwords is None:
            return None
        return client.username

    def decide(self, client: Client, password: bytes | None) -> DeliveryVerdict:
        """Return whether a client with this password may come in."""
        if self._binds_client_ids and not _is_own(client.client_id, self.user(client)):
            self._refusals.count("client identifier that is not its user's", client.introduced())
            return False
        if client.certificate is not None:
            return self._asked(client, password, is_known=True)
        if self._is_blocked(client):
            return False
        if self._passwords is None or client.username is None:
            return self._asked(client, password, is_known=self._anonymous)
        return self._verified(self._passwords, client.username, client, password or b"")

    async def _verified(
        self, passwords: Passwords, user: str, client: Client, password: bytes
    ) -> bool:
        is_known = await self._checks.run(
            client.address,
            user,
            lambda: passwords.verify(user, password),
            # Of many at once the first ones' failures hold back the rest.
            lambda: not self._is_blocked(client),
        )
        if not is_known:
            return False if is_known is None else self._failed(client)
        verdict = self._asked(client, password, is_known=True)
        return verdict if isinstance(verdict, bool) else await verdict

    def _asked(self, client: Client, password: bytes | None, *, is_known: bool) -> DeliveryVerdict:
        if self._plugins is None:
            return is_known
        return self._ask(self._plugins.knows(client, password), client, is_known=is_known)

    async def _ask(
        self, question: Awaitable[bool | None], client: Client, *, is_known: bool
    ) -> bool:
        answer = await question
        if answer or (answer is None and is_known):
            return True
        return self._failed(client)

    def _failed(self, client: Client) -> bool:
        if client.certificate is None and client.username is not None:
            self._failures.failed(client.address, self._now())
        return False

    def _is_blocked(self, client: Client) -> bool:
        if client.username is None:  # it guesses nothing
            return False
        if not self._failures.is_blocked(client.address, self._now()):
            return False
        kind = "authentication over the limit of an address"
        self._refusals.count(kind, str(client))
        return True


def _is_own(client_id: str, user: str | None) -> bool:
    """Return whether an identifier is a user's; no name of a user has a colon.

    What the broker has made up itself nobody else has.
    """
    if user is None or client_id.startswith(MADE_UP):
        return True
    return client_id == user or client_id.startswith(f"{user}:")
