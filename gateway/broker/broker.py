"""The local MQTT broker: our own data plane under amqtt's shell.

amqtt brings plugins (authentication, topics, events) and the context they see; all listeners make
our connections. Plugins that are called for each message are not served: they would cost more
than the message. Event plugins learn of clients and subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amqtt.broker import Broker, RetainedApplicationMessage
from amqtt.contexts import BrokerConfig, ListenerType
from amqtt.errors import BrokerError
from amqtt.events import BrokerEvents
from amqtt.session import Session as PluginSession

from gateway.broker.access.authentication import Authentication
from gateway.broker.access.passwords import Passwords
from gateway.broker.access.permissions import Permissions
from gateway.broker.access.plugins import (
    LOAD_ERRORS,
    PluginConfigError,
    PluginQuestions,
    Plugins,
    session_of,
)
from gateway.broker.access.plugins import check as check_plugins
from gateway.broker.access.policy import AccessControl
from gateway.broker.access.revision import recheck
from gateway.broker.durability.durable import History
from gateway.broker.durability.lasting_clock import KernelClocks
from gateway.broker.durability.store import open_store
from gateway.broker.hooks import Client, Hooks, Links, Tree
from gateway.broker.limits import Limits
from gateway.broker.listeners.listener import Listener, listen
from gateway.broker.listeners.websocket import WebSocketRules
from gateway.broker.outbound.message import Message
from gateway.broker.server import BrokerCore
from gateway.broker.statistics.sys_topics import PREFIX, SysTopics
from gateway.tls.context import Tls
from tree_handler.batch import Entry

_log = logging.getLogger(__name__)

PLAIN = "default"
"""amqtt's name for the listener that has to be there."""


class GatewayBroker(Broker):  # type: ignore[misc]  # amqtt is untyped here
    """The broker of one gateway.

    Args:
        host: address to listen on.
        port: TCP port, 0 for a free one.
        anonymous: whether clients need no user name.
        tree: takes the clients' messages.
        links: serves neighbours.
        limits: what a client may take.
        passwords: of the users; who names one needs its password.
        access: which topics a client may use; None for all that clients may use at all.
        listeners: what else is listened on.
        tls: for those of them that are secure.
        websocket_rules: which websockets are granted.
        plugins: amqtt's, by the dotted name of their class.
        history: the log that sessions and retained messages outlive the process in; None if they
            need not.
        state_file: where checkpoints of it are kept, given with ``history``.
        recovered: called with the data plane when it knows again what outlived the last process,
            before anything is listened on.
        sys_interval_s: how often ``$SYS`` is published; 0 for never.

    Raises:
        PluginConfigError: a plugin can't be loaded.

    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        anonymous: bool,
        tree: Tree,
        links: Links,
        limits: Limits | None = None,
        passwords: Passwords | None = None,
        access: AccessControl | None = None,
        listeners: Sequence[Listener] = (),
        tls: Tls | None = None,
        websocket_rules: WebSocketRules | None = None,
        plugins: Plugins | None = None,
        history: History | None = None,
        state_file: Path | None = None,
        recovered: Callable[[BrokerCore], None] | None = None,
        sys_interval_s: float = 10.0,
    ) -> None:
        self._listeners = {PLAIN: Listener("mqtt", host, port)} | {
            listener.scheme: listener for listener in listeners
        }
        try:
            super().__init__(BrokerConfig.from_dict(_configuration(self._listeners, plugins or {})))
        except LOAD_ERRORS as error:
            raise PluginConfigError.of(error) from error
        check_plugins(self.plugins_manager)
        self._limits = limits or Limits()
        self._tls = tls
        self._websocket_rules = websocket_rules or WebSocketRules()
        self._questions = PluginQuestions(self.plugins_manager)
        self._authentication = Authentication(
            passwords,
            anonymous=anonymous,
            ask_plugins=self._questions.knows if self._questions.has_auth else None,
            limits=self._limits,
            now=asyncio.get_running_loop().time,
            refused=self._refused,
        )
        plugins_on_topics = self._questions if self._questions.has_topics else None
        self._permissions = Permissions(access, self._authentication, plugins_on_topics)
        is_ruled = access is not None or plugins_on_topics is not None
        self._hooks = Hooks(
            self._authentication, tree, links, self._permissions if is_ruled else None, self
        )
        self._history = history
        self._state_file = state_file
        self._recovered = recovered
        self._core: BrokerCore | None = None
        self._sys_interval_s = sys_interval_s
        self._sys_topics: SysTopics | None = None

    @property
    def core(self) -> BrokerCore:
        """The data plane, while the broker runs."""
        assert self._core is not None
        return self._core

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what outlived the last process, and listen.

        Raises:
            StoreError: checkpoints can't be read or written.
            ListenError: an address is in use or not this machine's.

        """
        self._core = BrokerCore(self._hooks, self._limits)
        self._recover()
        if self._recovered is not None:
            self._recovered(self._core)
        level = self.logger.level
        self.logger.setLevel(logging.CRITICAL)  # a port in use is one line, not amqtt's traceback
        try:
            await super().start()
        except BrokerError as error:
            self._core.stop()
            for server in self._servers.values():
                server.instance.close()
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise
        finally:
            self.logger.setLevel(level)
        if self._sys_interval_s:
            self._sys_topics = SysTopics(self._core, self._sys_interval_s)

    def _recover(self) -> None:
        if self._history is None or self._state_file is None:
            return
        store, saved = open_store(self._state_file)
        found = self.core.recover(self._history, store, saved, KernelClocks())
        if found.sessions:
            _log.info(
                "sessions recovered: %d, messages for them: %d", found.sessions, found.waiting
            )

    async def shutdown(self) -> None:
        """Close every client and stop listening."""
        for server in self._servers.values():
            server.instance.close()
            # Not waited for: since Python 3.12 that would wait for links too, which end later.
            server.instance = None
        if self._sys_topics is not None:
            self._sys_topics.stop()
        self.core.stop()
        if self.core.durable is not None:
            await self.core.durable.stop()
        await super().shutdown()

    async def _create_server_instance(
        self,
        listener_name: str,
        listener_type: ListenerType,
        address: str | None,
        port: int,
        ssl_context: ssl.SSLContext | None,
    ) -> Any:
        # amqtt's own data plane serves none of them, whatever they speak.
        return await listen(
            self._listeners[listener_name], self.core, lambda: self._tls, self._websocket_rules
        )

    @property
    def port(self) -> int:
        """The port that is listened on for plain MQTT and links."""
        return self.ports["mqtt"]

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are listened on, by scheme."""
        return {
            self._listeners[name].scheme: int(server.instance.sockets[0].getsockname()[1])
            for name, server in self._servers.items()
        }

    @property
    def client_count(self) -> int:
        """Clients that are connected."""
        return self.core.client_count

    # -- messages ------------------------------------------------------------------------------

    def accept(self, entry: Entry) -> None:
        """Publish for the gateway itself, as a client would."""
        self.core.accept(Message.of(entry, self.core.now()))

    async def internal_message_broadcast(
        self, topic: str, data: bytes, qos: int | None = None
    ) -> None:
        """What a plugin publishes; it stays on this gateway."""
        if not topic.startswith(PREFIX):  # amqtt's own plugin would publish twice what we do
            self.core.publish((Entry(topic, bytes(data), qos or 0),))

    async def retain_message(
        self,
        source_session: PluginSession | None,
        topic_name: str | None,
        data: bytes | bytearray | None,
        qos: int | None = None,
    ) -> None:
        """What a plugin retains; it stays on this gateway."""
        if topic_name is not None and not topic_name.startswith(PREFIX):
            self.core.publish((Entry(topic_name, bytes(data or b""), qos or 0, True),))

    # -- who may what --------------------------------------------------------------------------

    def _refused(self, kind: str, who: str) -> None:
        self.core.refused(kind, who)

    def revise(
        self, *, tls: Tls | None, passwords: Passwords | None, access: AccessControl | None
    ) -> None:
        """Go by files that were read again; clients that may no longer stay have to go.

        Args:
            tls: for new connections; None if no listener is secure.
            passwords: None if there is no password file.
            access: None if there is no policy file.

        """
        known, verifier = self._authentication.passwords, self._tls
        self._tls = tls
        self._permissions.follow(access)
        self._authentication.passwords = passwords
        self._questions.forget()

        def may_stay(client: Client) -> bool:
            if client.certificate is not None:
                der = client.certificate.der
                return not der or bool(tls and verifier and tls.still_accepts(der, verifier))
            if known is None or passwords is None or client.username is None:
                return True
            return passwords.agrees(known, client.username)

        recheck(
            self.core,
            may_stay,
            None if access is None else lambda client: self._permissions.of(client, access),
        )

    # -- what plugins are told -----------------------------------------------------------------

    def connected(self, client: Client) -> None:
        """A client has been accepted."""
        self._tell(BrokerEvents.CLIENT_CONNECTED, client, client_session=session_of(client))

    def disconnected(self, client: Client) -> None:
        """A client has gone."""
        self._tell(BrokerEvents.CLIENT_DISCONNECTED, client, client_session=session_of(client))

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        """A subscription was granted."""
        self._tell(BrokerEvents.CLIENT_SUBSCRIBED, client, topic=topic_filter, qos=qos)

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        """A subscription has ended at the client's wish."""
        self._tell(BrokerEvents.CLIENT_UNSUBSCRIBED, client, topic=topic_filter)

    def _tell(self, event: BrokerEvents, client: Client, **what: Any) -> None:
        if event in self.plugins_manager._event_plugin_callbacks:
            fired = self.plugins_manager.fire_event(event, client_id=client.client_id, **what)
            self.core.start_task(fired)

    # -- what plugins see ----------------------------------------------------------------------

    @property
    def sessions(self) -> dict[str, tuple[PluginSession, None]]:
        """Every session as plugins know it."""
        return {
            client_id: (session_of(session.client), None)
            for client_id, session in self.core.sessions.items()
        }

    @property
    def retained_messages(self) -> dict[str, RetainedApplicationMessage]:
        """Every retained message as plugins know it."""
        return {
            topic: RetainedApplicationMessage(None, topic, message.payload, message.qos)
            for topic, message in self.core.retained.match("#", self.core.now())
        }

    @property
    def subscriptions(self) -> dict[str, list[tuple[PluginSession, int]]]:
        """Every subscription as plugins know it."""
        found: dict[str, list[tuple[PluginSession, int]]] = {}
        for session in self.core.sessions.values():
            seen = session_of(session.client)
            for topic_filter, subscription in session.subscriptions.items():
                found.setdefault(topic_filter, []).append((seen, subscription.qos))
        return found


def _configuration(listeners: Mapping[str, Listener], plugins: Plugins) -> dict[str, Any]:
    """What amqtt is told; TLS is not its matter."""
    return {
        "listeners": {
            name: {"type": "ws" if listener.is_websocket else "tcp", "bind": str(listener)}
            for name, listener in listeners.items()
        },
        "plugins": {name: dict(options) for name, options in plugins.items()},
    }
