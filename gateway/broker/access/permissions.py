"""Which topics a client may use: the policy and the plugins must both allow it."""

from __future__ import annotations

from gateway.broker.access.authentication import Authentication
from gateway.broker.access.plugins import TopicPlugins
from gateway.broker.access.policy import AccessControl, ClientAccess, Principal
from gateway.broker.hooks import Client, Verdict


class Permissions:
    """What a policy and plugins permit: `hooks.TopicPermissions`.

    Args:
        policy: None where there is none, and then it permits all.
        authentication: knows which user name a client has proved.
        plugins: None where there are none.

    """

    def __init__(
        self,
        policy: AccessControl | None,
        authentication: Authentication,
        plugins: TopicPlugins | None,
    ) -> None:
        self._policy = policy
        self._authentication = authentication
        self._plugins = plugins

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to ask."""
        return self._policy is not None or self._plugins is not None

    def follow(self, policy: AccessControl | None) -> None:
        """Go by another policy, and ask plugins anew."""
        self._policy = policy
        if self._plugins is not None:
            self._plugins.forget()

    def of(self, client: Client, policy: AccessControl) -> ClientAccess:
        """What a policy says of a client."""
        roles = frozenset() if client.certificate is None else client.certificate.roles
        user = self._authentication.user(client)
        return policy.of(Principal(client.client_id, user, roles))

    def may_publish(self, client: Client, topic: str) -> Verdict:
        """Whether a client may publish to a topic."""
        if self._policy is not None and not self.of(client, self._policy).may_publish(topic):
            return False
        return self._plugins is None or self._plugins.may_publish(client, topic)

    def may_subscribe(self, client: Client, topic_filter: str) -> Verdict:
        """Whether a client may subscribe to a filter."""
        if self._policy is not None and not self.of(client, self._policy).may_subscribe(
            topic_filter
        ):
            return False
        return self._plugins is None or self._plugins.may_subscribe(client, topic_filter)

    def may_deliver(self, client: Client, topic: str) -> Verdict:
        """Whether a client may receive a topic that it has subscribed to."""
        if self._policy is not None and not self.of(client, self._policy).may_receive(topic):
            return False
        return self._plugins is None or self._plugins.may_deliver(client, topic)

    def is_concealed(self, client: Client, topic_filter: str) -> bool:
        """Whether a client isn't told why it may not subscribe to a filter."""
        policy = self._policy
        return policy is not None and self.of(client, policy).is_concealed(topic_filter)
