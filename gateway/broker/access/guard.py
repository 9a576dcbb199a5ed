"""Who may come in and use which topics: files, which are read again, and plugins together."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.broker.access.authentication import Authentication
from gateway.broker.access.passwords import Passwords
from gateway.broker.access.permissions import Permissions
from gateway.broker.access.plugins import PluginHost
from gateway.broker.access.policy import AccessControl
from gateway.broker.access.revision import recheck
from gateway.broker.hooks import Client
from gateway.broker.limits import Limits, Refusals
from gateway.broker.server import BrokerCore
from gateway.tls.context import Tls


@dataclass(frozen=True, slots=True)
class Access:
    """What files say of who may do what; they may be read again.

    Attributes:
        passwords: of the users; who names one needs its password. None without such a file.
        policy: which topics a client may use; None for all that clients may use at all.
        tls: of the listeners that are secure; None if none is.

    """

    passwords: Passwords | None = None
    policy: AccessControl | None = None
    tls: Tls | None = None


class Guard:
    """Who may come in and use which topics, by files and by plugins.

    Attributes:
        authentication: who comes in.

    Args:
        access: the files.
        plugins: are asked besides.
        anonymous: whether clients need no user name.
        limits: how often an address may fail.
        refusals: counts who does.

    """

    def __init__(
        self,
        access: Access,
        plugins: PluginHost,
        *,
        anonymous: bool,
        limits: Limits,
        refusals: Refusals,
    ) -> None:
        self._access = access
        self.authentication = Authentication(
            access.passwords,
            anonymous=anonymous,
            plugins=plugins.auth,
            limits=limits,
            refusals=refusals,
        )
        self._permissions = Permissions(access.policy, self.authentication, plugins.topics)

    @property
    def permissions(self) -> Permissions | None:
        """Which topics a client may use; None for all."""
        return self._permissions if self._permissions.is_needed else None

    def follow(self, access: Access, core: BrokerCore) -> None:
        """Go by other files, for clients that are there too."""
        before, self._access = self._access, access
        policy = access.policy
        self.authentication.follow(access.passwords)
        self._permissions.follow(policy)

        def may_stay(client: Client) -> bool:
            if client.certificate is not None:
                der = client.certificate.der
                return not der or bool(
                    access.tls and before.tls and access.tls.still_accepts(der, before.tls)
                )
            if before.passwords is None or access.passwords is None or client.username is None:
                return True
            return access.passwords.agrees(before.passwords, client.username)

        recheck(
            core,
            may_stay,
            None if policy is None else lambda one: self._permissions.of(one, policy),
        )
