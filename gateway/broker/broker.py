"""The local MQTT broker: our own data plane under amqtt's shell.

amqtt brings configuration, plugins (authentication, topics, ``$SYS``) and the context they see;
listeners make our connections. Plugins that are called for each message are not served: they
would cost more than the message. Event plugins learn of clients and subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from amqtt.broker import Broker, RetainedApplicationMessage
from amqtt.contexts import Action, BrokerConfig, ListenerType
from amqtt.errors import BrokerError
from amqtt.events import BrokerEvents
from amqtt.session import Session as PluginSession

from gateway.broker.access import AccessControl, ClientAccess, Principal
from gateway.broker.access_file import read_access_file
from gateway.broker.connection import Connection
from gateway.broker.hooks import Client, Hooks, Verdict
from gateway.broker.limits import Limits
from gateway.broker.message_log import Done
from gateway.broker.passwords import Passwords
from gateway.broker.server import BrokerCore
from gateway.broker.sessions import Session
from gateway.broker.sys_topics import PREFIX, SysTopics
from tree_handler.batch import Entry

Links = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
"""Takes over a neighbour's connection, whose first bytes are given."""
Commit = Callable[[list[Entry], Done | None], None]
"""Takes a loop turn's messages into the log and the tree; see `TreeNode.publish_all`."""


MAX_VERIFYING = 2
"""Passwords that are verified at a time; each takes a core and some 64 MiB."""


class GatewayBroker(Broker):  # type: ignore[misc]  # amqtt is untyped here
    """The broker of one gateway.

    Args:
        host: address to listen on.
        port: TCP port, 0 for a free one.
        anonymous: whether clients need no user name.
        password_file: ``user:hash`` lines (argon2), where they do.
        commit: takes the clients' messages into the log and the tree.
        links: takes over a neighbour's connection.
        carries_unlogged: whether the tree wants QoS 0 messages now.
        limits: what a client may take.
        access: which topics a client may use; None for all that clients may use at all.
        sys_interval_s: how often ``$SYS`` is published; 0 for never.

    Raises:
        AccessFileError: the password file has a wrong line.
        OSError: it can't be read.

    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        anonymous: bool,
        password_file: Path | None,
        commit: Commit,
        links: Links,
        carries_unlogged: Callable[[], bool] = lambda: True,
        limits: Limits | None = None,
        access: AccessControl | None = None,
        sys_interval_s: float = 10.0,
    ) -> None:
        plugins: dict[str, dict[str, Any]] = {}
        if anonymous:
            plugins["amqtt.plugins.authentication.AnonymousAuthPlugin"] = {"allow_anonymous": True}
        listener = {"type": "tcp", "bind": f"{host}:{port}"}
        super().__init__(
            BrokerConfig.from_dict({"listeners": {"default": listener}, "plugins": plugins})
        )
        self._limits = limits
        self._anonymous = anonymous
        self._access = access
        self._passwords: Passwords | None = None
        if password_file is not None and not anonymous:
            self._passwords = Passwords.parse(read_access_file(password_file), str(password_file))
        self._verifying = asyncio.Semaphore(MAX_VERIFYING)
        self._hooks = self._make_hooks(commit, links, carries_unlogged)
        self._core: BrokerCore | None = None
        self._sys_interval_s = sys_interval_s
        self._sys_topics: SysTopics | None = None

    def _make_hooks(
        self, commit: Commit, links: Links, carries_unlogged: Callable[[], bool]
    ) -> Hooks:
        asks_plugins = bool(self.plugins_manager._topic_plugins)
        may_publish: Callable[[Client, str], Verdict] | None = None
        may_subscribe: Callable[[Client, str], Verdict] | None = None
        may_deliver: Callable[[Client, str], bool] | None = None
        if self._access is not None:
            may_publish, may_subscribe = self._may_publish, self._may_subscribe
            may_deliver = self._may_deliver
        elif asks_plugins:
            may_publish, may_subscribe = self._ask_publish, self._ask_subscribe
        return Hooks(
            authenticate=self._authenticate_client,
            commit=commit,
            carries_unlogged=carries_unlogged,
            links=links,
            may_publish=may_publish,
            may_subscribe=may_subscribe,
            may_deliver=may_deliver,
            events=self,
        )

    @property
    def core(self) -> BrokerCore:
        """The data plane, while the broker runs."""
        assert self._core is not None
        return self._core

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is in use or not this machine's.

        """
        self._core = BrokerCore(self._hooks, self._limits)
        level = self.logger.level
        self.logger.setLevel(logging.CRITICAL)  # a port in use is one line, not amqtt's traceback
        try:
            await super().start()
        except BrokerError as error:
            self._core.stop()
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise
        finally:
            self.logger.setLevel(level)
        if self._sys_interval_s:
            self._sys_topics = SysTopics(self._core, self._sys_interval_s)

    async def shutdown(self) -> None:
        """Close every client and stop listening."""
        for server in self._servers.values():
            server.instance.close()
            # Not waited for: since Python 3.12 that would wait for links too, which end later.
            server.instance = None
        if self._sys_topics is not None:
            self._sys_topics.stop()
        self.core.stop()
        await super().shutdown()

    async def _create_server_instance(
        self,
        listener_name: str,
        listener_type: ListenerType,
        address: str | None,
        port: int,
        ssl_context: ssl.SSLContext | None,
    ) -> Any:
        if listener_type != ListenerType.TCP:
            return await super()._create_server_instance(
                listener_name, listener_type, address, port, ssl_context
            )
        core = self.core
        return await asyncio.get_running_loop().create_server(
            lambda: Connection(core), address, port, reuse_address=True, ssl=ssl_context
        )

    @property
    def port(self) -> int:
        """The port that is listened on."""
        sockets = self._servers["default"].instance.sockets
        return int(sockets[0].getsockname()[1])

    @property
    def client_count(self) -> int:
        """Clients that are connected."""
        return self.core.client_count

    # -- messages ------------------------------------------------------------------------------

    def hand_out(self, entry: Entry) -> None:
        """Give a message that is in the log to local subscribers."""
        self.core.publish((entry,))

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

    def _authenticate_client(self, client: Client, password: bytes | None) -> Verdict:
        if self._passwords is not None:
            if client.username is None or password is None:
                return False
            return self._verify(self._passwords, client.username, password)
        if self._anonymous and len(self.plugins_manager._auth_plugins) == 1:
            return True
        session = _plugin_session(client)
        session.password = None if password is None else password.decode(errors="replace")
        return self._ask(session)

    async def _verify(self, passwords: Passwords, user: str, password: bytes) -> bool:
        async with self._verifying:
            return await asyncio.to_thread(passwords.verify, user, password)

    async def _ask(self, session: PluginSession) -> bool:
        return bool(await self._authenticate(session, self.listeners_config["default"]))

    def _of(self, client: Client) -> ClientAccess:
        assert self._access is not None
        # Without a password the name proves nothing.
        user = None if self._passwords is None else client.username
        return self._access.of(Principal(client.client_id, user))

    def _may_publish(self, client: Client, topic: str) -> bool:
        return self._of(client).may_publish(topic)

    def _may_subscribe(self, client: Client, topic_filter: str) -> bool:
        return self._of(client).may_subscribe(topic_filter)

    def _may_deliver(self, client: Client, topic: str) -> bool:
        return self._of(client).may_receive(topic)

    def _ask_publish(self, client: Client, topic: str) -> Awaitable[bool]:
        return self._filter(client, topic, Action.PUBLISH)

    def _ask_subscribe(self, client: Client, topic_filter: str) -> Awaitable[bool]:
        return self._filter(client, topic_filter, Action.SUBSCRIBE)

    async def _filter(self, client: Client, topic: str, action: Action) -> bool:
        return bool(await self._topic_filtering(_plugin_session(client), topic, action))

    # -- what plugins are told -----------------------------------------------------------------

    def connected(self, session: Session) -> None:
        """A client has been accepted."""
        self._tell(BrokerEvents.CLIENT_CONNECTED, session, client_session=True)

    def disconnected(self, session: Session) -> None:
        """A client has gone."""
        self._tell(BrokerEvents.CLIENT_DISCONNECTED, session, client_session=True)

    def subscribed(self, session: Session, topic_filter: str, qos: int) -> None:
        """A subscription was granted."""
        self._tell(BrokerEvents.CLIENT_SUBSCRIBED, session, topic=topic_filter, qos=qos)

    def unsubscribed(self, session: Session, topic_filter: str) -> None:
        """A subscription has ended at the client's wish."""
        self._tell(BrokerEvents.CLIENT_UNSUBSCRIBED, session, topic=topic_filter)

    def _tell(self, event: BrokerEvents, session: Session, **what: Any) -> None:
        if event not in self.plugins_manager._event_plugin_callbacks:
            return
        if what.pop("client_session", False):
            what["client_session"] = _plugin_session(session.client)
        self.core.start_task(
            self.plugins_manager.fire_event(event, client_id=session.client_id, **what)
        )

    # -- what plugins see ----------------------------------------------------------------------

    @property
    def sessions(self) -> dict[str, tuple[PluginSession, None]]:
        """Every session as plugins know it."""
        return {
            client_id: (_plugin_session(session.client), None)
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
            seen = _plugin_session(session.client)
            for topic_filter, subscription in session.subscriptions.items():
                found.setdefault(topic_filter, []).append((seen, subscription.qos))
        return found


def _plugin_session(client: Client) -> PluginSession:
    session = PluginSession()
    session.client_id = client.client_id
    session.username = client.username
    session.remote_address = client.address
    return session
