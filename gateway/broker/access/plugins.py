"""amqtt's plugins: how they are loaded, and what they are asked about clients and topics.

A plugin answers in its own time, a delivery can't wait. So a delivery is decided at once by a
plugin that answers without waiting, as those of amqtt do. Of one that waits the answer is awaited
beside, the topic is not delivered to the client until then, and the answer is remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from amqtt.contexts import Action
from amqtt.errors import PluginCoroError, PluginError, PluginLoadError
from amqtt.plugins.authentication import AnonymousAuthPlugin, PasswordFileError
from amqtt.plugins.base import BaseTopicPlugin
from amqtt.plugins.manager import PluginManager
from amqtt.session import Session as PluginSession

from gateway.broker.hooks import Client, Verdict

LOAD_ERRORS = (PluginError, PluginCoroError, PluginLoadError, PasswordFileError, TypeError)
"""What amqtt raises for a plugin that it can't load."""
REMEMBERED_MAX = 10_000

Plugins = Mapping[str, Mapping[str, Any]]
"""As amqtt's configuration has them: the class's dotted name -> its options."""

_log = logging.getLogger(__name__)


class PluginConfigError(ValueError):
    """A plugin can't be used: ``str(error)`` is one line."""

    @classmethod
    def of(cls, error: Exception) -> PluginConfigError:
        """What amqtt raised, with the cause that it often leaves out."""
        said = [str(one) for one in (error, error.__cause__) if one is not None and str(one)]
        return cls(": ".join(said).replace("\n", " ") or type(error).__name__)


def session_of(client: Client) -> PluginSession:
    """A client as plugins know it."""
    session = PluginSession()
    session.client_id = client.client_id
    session.username = client.username
    session.remote_address = client.address
    if client.certificate is not None:
        session.ssl_object = _Verified(client.certificate.der)
    return session


class _Verified:
    """What a plugin asks the TLS connection of a client."""

    def __init__(self, der: bytes) -> None:
        self._der = der

    def getpeercert(self, binary_form: bool = False) -> bytes:
        if not binary_form:
            raise NotImplementedError("the certificate is there in binary form")
        return self._der


def check(manager: PluginManager[Any]) -> None:
    """See that no plugin lets everybody in, for only the configuration itself may say so.

    Raises:
        PluginConfigError: one does.

    """
    if any(isinstance(plugin, AnonymousAuthPlugin) for plugin in manager._auth_plugins):
        raise PluginConfigError("AnonymousAuthPlugin: set access.anonymous instead")


class PluginQuestions:
    """Asks the plugins.

    Args:
        manager: has them.

    """

    def __init__(self, manager: PluginManager[Any]) -> None:
        self._manager = manager
        self._deliveries: dict[tuple[Client, str], bool | None] = {}
        """None: the answer is awaited."""

    @property
    def has_auth(self) -> bool:
        """Whether a plugin is to be asked about clients."""
        return bool(self._manager._auth_plugins)

    @property
    def has_topics(self) -> bool:
        """Whether a plugin is to be asked about topics."""
        return bool(self._manager._topic_plugins)

    def forget(self) -> None:
        """Ask anew about what was decided."""
        self._deliveries.clear()

    async def knows(self, client: Client, password: bytes | None) -> bool | None:
        """False if a plugin refuses a client, True if one knows it, else None."""
        session = session_of(client)
        session.password = None if password is None else password.decode(errors="replace")
        answers = (await self._manager.map_plugin_auth(session=session)).values()
        if any(answer is not None and not answer for answer in answers):
            return False
        return True if any(answers) and not session.is_anonymous else None

    def may_publish(self, client: Client, topic: str) -> Verdict:
        """Whether every plugin lets a client publish to a topic."""
        return self._may(client, topic, Action.PUBLISH)

    def may_subscribe(self, client: Client, topic_filter: str) -> Verdict:
        """Whether every plugin lets a client subscribe to a filter."""
        return self._may(client, topic_filter, Action.SUBSCRIBE)

    async def _may(self, client: Client, topic: str, action: Action) -> bool:
        answers = await self._manager.map_plugin_topic(
            session=session_of(client), topic=topic, action=action
        )
        return all(answers.values())

    def may_deliver(self, client: Client, topic: str) -> Verdict:
        """Whether every plugin lets a client have a topic's messages.

        Who asks while an answer is awaited is told no.
        """
        key = (client, topic)
        if key in self._deliveries:
            return bool(self._deliveries[key])
        if len(self._deliveries) >= REMEMBERED_MAX:
            self._deliveries.clear()
        answer = self._deliveries[key] = self._at_once(client, topic)
        return self._later(client, topic) if answer is None else answer

    def _at_once(self, client: Client, topic: str) -> bool | None:
        session = session_of(client)
        for plugin in self._manager._topic_plugins:
            question = _question(plugin, session, topic)
            try:
                question.send(None)
            except StopIteration as answered:
                if not answered.value:
                    return False
                continue
            except Exception:
                _log.debug("%s can't answer at once", type(plugin).__name__, exc_info=True)
            question.close()  # it waits: all of them are asked once more, beside
            return None
        return True

    async def _later(self, client: Client, topic: str) -> bool:
        try:
            allowed = await self._may(client, topic, Action.RECEIVE)
        except Exception:  # a plugin's own
            _log.exception("a plugin failed at a topic")
            allowed = False
        self._deliveries[client, topic] = allowed
        return allowed


def _question(
    plugin: BaseTopicPlugin, session: PluginSession, topic: str
) -> Coroutine[Any, Any, bool | None]:
    asked: Coroutine[Any, Any, bool | None] = plugin.topic_filtering(
        session=session, topic=topic, action=Action.RECEIVE
    )
    return asked
