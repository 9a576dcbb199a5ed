"""The guard of a broker: files, which are read again, and plugins decide together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.access.authentication import Authentication
from gateway.broker.access.passwords import Passwords
from gateway.broker.access.plugins import PluginHost
from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Client, DeliveryVerdict
from gateway.broker.limits import Limits
from gateway.broker.sessions.session import Session
from gateway.mqtt import ReasonCode
from gateway.trust.policy.built_in import OPERATOR
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import CERTIFICATE, NO_ROLES, STRANGER, USER, Principal
from gateway.trust.policy.rights import Rights
from light_dataclasses import dataclass
from tree_handler.routing.topic_filters import proper

if TYPE_CHECKING:
    from gateway.trust.tls.context import Tls


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of access as files say them; they may be read again.

    Attributes:
        passwords: of the users; who names one needs its password. None without such a file.
        policy: which topics a client may use; None for all that clients may use at all.
        tls: of the listeners that are secure; None if none is.
        binds_client_ids: a client's identifier has to be its user's name, or to begin with that
            name and a colon.

    """

    passwords: Passwords | None = None
    policy: Policy | None = None
    tls: Tls | None = None
    binds_client_ids: bool = False

    def may_stay(self, client: Client, before: Access) -> bool:
        """Return whether a client that was let in by earlier files would be again."""
        if client.certificate is not None:
            der = client.certificate.der
            return not der or bool(
                self.tls and before.tls and self.tls.still_accepts(der, before.tls)
            )
        if before.passwords is None or self.passwords is None or client.username is None:
            return True
        return self.passwords.agrees(before.passwords, client.username)


class Guard:
    """Decides for the broker: `hooks.BrokerPermissions` and `hooks.Ranks`.

    It has its `hooks.Authenticator`.

    A topic must be allowed by the policy and by the plugins.

    Attributes:
        authentication: who comes in.
        has_rules: whether there is anything to ask about topics.

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
        refusals: CountedLines,
    ) -> None:
        self._access = access
        self._plugins = plugins.topics
        self.authentication = Authentication(
            access.passwords,
            binds_client_ids=access.binds_client_ids,
            anonymous=anonymous,
            plugins=plugins.auth,
            limits=limits,
            refusals=refusals,
        )
        self.has_rules = access.policy is not None or plugins.topics is not None

    @property
    def asks_plugins(self) -> bool:
        """Return whether plugins decide on topics besides, which know clients of MQTT alone."""
        return self._plugins is not None

    def follow(self, access: Access, core: DataPlane) -> None:
        """Go by files that were read again: forget every decision, and decide on all sessions anew.

        Who may no longer connect is disconnected and its will dropped; its session waits for it to
        come back with what is asked now. Wills and subscriptions that no rule allows any more end.
        """
        before, self._access = self._access, access
        if core.origins is not None:
            core.origins.follow(access.policy)
        self.authentication.follow(access.passwords, binds_client_ids=access.binds_client_ids)
        if self._plugins is not None:
            self._plugins.forget()
        core.forget_decisions()
        for session in list(core.sessions.values()):
            if not access.may_stay(session.client, before):
                if session.channel is not None:
                    core.refusals.count("client that may not stay", str(session.client))
                core.expel(session, ReasonCode.NOT_AUTHORIZED, "no longer allowed")
            elif (rules := self._rules_of(session.client)) is not None:
                _restrict(core, session, rules)

    def may_publish(self, client: Client, topic: str) -> DeliveryVerdict:
        """Return whether a client may publish to a topic."""
        rules = self._rules_of(client)
        if rules is not None and not rules.may_publish(topic):
            return False
        return self._plugins is None or self._plugins.may_publish(client, topic)

    def may_subscribe(self, client: Client, topic_filter: str) -> DeliveryVerdict:
        """Return whether a client may subscribe to a filter."""
        rules = self._rules_of(client)
        if rules is not None and not rules.may_subscribe(topic_filter):
            return False
        return self._plugins is None or self._plugins.may_subscribe(client, topic_filter)

    def may_deliver(self, client: Client, topic: str) -> DeliveryVerdict:
        """Return whether a client may receive a topic that it has subscribed to."""
        rules = self._rules_of(client)
        if rules is not None and not rules.may_receive(topic):
            return False
        return self._plugins is None or self._plugins.may_deliver(client, topic)

    def is_concealed(self, client: Client, topic_filter: str) -> bool:
        """Return whether a client isn't told why it may not subscribe to a filter."""
        rules = self._rules_of(client)
        return rules is not None and rules.is_concealed(topic_filter)

    def may_ask(self, client: Client, topic: str, *, publishes: bool) -> DeliveryVerdict:
        """Return whether plugins let a client use a private topic; rules are for who serves it."""
        if publishes:
            return self._plugins is None or self._plugins.may_publish(client, topic)
        return self._plugins is None or self._plugins.may_subscribe(client, topic)

    def proof(self, client: Client) -> tuple[str, str, frozenset[str]]:
        """Return what an admitted client has proved: kind and name of `Principal`, and roles."""
        if client.certificate is not None:
            return CERTIFICATE, client.certificate.name, client.certificate.roles
        if user := self.authentication.user(client):
            return USER, user, NO_ROLES
        return STRANGER, "", NO_ROLES

    def is_operator(self, client: Client) -> bool:
        """Return whether a client has an operator's rights; all have them without a policy."""
        policy = self._access.policy
        return policy is None or OPERATOR in policy.all_roles(self._known(client, policy).roles)

    def _rules_of(self, client: Client) -> Rights | None:
        policy = self._access.policy
        if policy is None:
            return None
        return policy.rights(self._known(client, policy), client.client_id)

    def _known(self, client: Client, policy: Policy) -> Principal:
        return policy.principal(*self.proof(client))


def _restrict(core: DataPlane, session: Session, access: Rights) -> None:
    if session.will is not None and not access.may_publish(session.will.topic):
        core.refusals.count("will to a forbidden topic", str(session.client))
        core.wills.void(session)
    for topic_filter in list(session.subscriptions):
        if not access.may_subscribe(proper(topic_filter)):
            core.refusals.count("subscription to a forbidden filter", str(session.client))
            core.subscriptions.remove(session, topic_filter)
