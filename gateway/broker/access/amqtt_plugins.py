"""amqtt's plugins: loaded, asked and told by its own `PluginManager`, which finds ours around it.

A plugin answers in its own time, a delivery can't wait. So a delivery is decided at once by a
plugin that answers without waiting, as those of amqtt do. Of one that waits the answer is awaited,
the topic is not delivered to the client until then, and the answer is remembered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, Final

from amqtt.broker import RetainedApplicationMessage
from amqtt.contexts import Action, BaseContext
from amqtt.errors import PluginCoroError, PluginError, PluginLoadError
from amqtt.events import BrokerEvents
from amqtt.plugins.authentication import AnonymousAuthPlugin, PasswordFileError
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.plugins.manager import PluginManager
from amqtt.session import Session as PluginSession

from gateway.broker.access.plugins import PluginConfigError, PluginHost, Plugins
from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Client, DeliveryVerdict
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.statistics.sys_topics import PREFIX
from tree_handler.batch import Entry

REMEMBERED_MAX: Final = 10_000
EVENT_LIMIT_S: Final = 10.0
"""So long a start or a stop waits for plugins that are told of it."""
_NAMESPACE: Final = "amqtt.broker.plugins"
_LOAD_ERRORS = (PluginError, PluginCoroError, PluginLoadError, PasswordFileError, TypeError)
"""The errors of amqtt for a plugin that it can't load."""

_log = logging.getLogger(__name__)


class NoSessionError(LookupError):
    """A plugin names a client that has no session here: sessions are the broker's to make.

    Args:
        client_id: the client.

    """

    def __init__(self, client_id: str) -> None:
        super().__init__(f"{client_id!r} has no session")
        self.client_id = client_id


class AmqttPlugins(PluginHost):
    """The plugins of one broker.

    Args:
        plugins: which, with their options.
        running: the broker, as soon as plugins may look at it.

    Raises:
        PluginConfigError: one can't be loaded, or lets everybody in.

    """

    def __init__(self, plugins: Plugins, running: asyncio.Future[DataPlane]) -> None:
        super().__init__()
        context = PluginContext(running)
        context.config = {"plugins": {name: dict(options) for name, options in plugins.items()}}
        try:
            self._manager = PluginManager(_NAMESPACE, context)
        except _LOAD_ERRORS as error:
            raise PluginConfigError(_in_one_line(error)) from error
        loaded = self._manager.plugins
        if any(isinstance(plugin, AnonymousAuthPlugin) for plugin in loaded):
            raise PluginConfigError("AnonymousAuthPlugin: set access.anonymous instead")
        has_auth = any(isinstance(plugin, BaseAuthPlugin) for plugin in loaded)
        topics = [plugin for plugin in loaded if isinstance(plugin, BaseTopicPlugin)]
        self.auth = _Auth(self._manager) if has_auth else None
        self.topics = _Topics(self._manager, topics) if topics else None
        told = frozenset(
            event for event in BrokerEvents if any(hasattr(one, f"on_{event}") for one in loaded)
        )
        self._events = _Events(self._manager, told)
        self.events = self._events if told else None

    async def starting(self) -> None:
        """Tell the plugins that the broker is about to listen.

        Raises:
            PluginConfigError: one does not come back.

        """
        event = BrokerEvents.PRE_START
        if not await _comes_back(self._manager.fire_event(event, wait=True)):
            raise PluginConfigError(_not_back(event))

    async def started(self) -> None:
        """Tell the plugins that the broker listens."""
        await self._tell(BrokerEvents.POST_START)

    async def stopping(self) -> None:
        """Tell the plugins that the broker is about to close its connections."""
        await self._tell(BrokerEvents.PRE_SHUTDOWN)

    async def stopped(self) -> None:
        """Tell the plugins that the broker has stopped, and close them."""
        await _wait_for("events of clients", self._events.close())
        await self._tell(BrokerEvents.POST_SHUTDOWN)
        await _wait_for("close", self._manager.close())

    async def _tell(self, event: BrokerEvents) -> None:
        await _wait_for(event, self._manager.fire_event(event, wait=True))


async def _wait_for(what: str, work: Awaitable[object]) -> None:
    """Wait for what plugins do, or go on without them and say so."""
    if not await _comes_back(work):
        _log.warning("plugins: %s", _not_back(what))


async def _comes_back(work: Awaitable[object]) -> bool:
    """Wait for what plugins do, and return whether it was done in time."""
    try:
        async with asyncio.timeout(EVENT_LIMIT_S):
            await work
    except TimeoutError:
        return False
    return True


def _not_back(what: str) -> str:
    return f"one has not come back from {what} within {EVENT_LIMIT_S:g} s"


class _Auth:
    """Asks plugins who comes in."""

    def __init__(self, manager: PluginManager[Any]) -> None:
        self._manager = manager

    async def knows(self, client: Client, password: bytes | None) -> bool | None:
        session = _session_of(client)
        session.password = None if password is None else password.decode(errors="replace")
        answers = (await self._manager.map_plugin_auth(session=session)).values()
        if any(answer is not None and not answer for answer in answers):
            return False
        return True if any(answers) and not session.is_anonymous else None


class _Topics:
    """Asks plugins about topics."""

    def __init__(self, manager: PluginManager[Any], plugins: Sequence[BaseTopicPlugin]) -> None:
        self._manager = manager
        self._plugins = plugins
        self._deliveries: dict[tuple[Client, str], bool | None] = {}
        """None: the answer is awaited."""

    def forget(self) -> None:
        self._deliveries.clear()

    def may_publish(self, client: Client, topic: str) -> DeliveryVerdict:
        return self._may(client, topic, Action.PUBLISH)

    def may_subscribe(self, client: Client, topic_filter: str) -> DeliveryVerdict:
        return self._may(client, topic_filter, Action.SUBSCRIBE)

    def may_deliver(self, client: Client, topic: str) -> DeliveryVerdict:
        key = (client, topic)
        if key in self._deliveries:
            return bool(self._deliveries[key])
        if len(self._deliveries) >= REMEMBERED_MAX:
            self._deliveries.clear()
        answer = self._deliveries[key] = self._at_once(client, topic)
        return self._later(client, topic) if answer is None else answer

    def is_concealed(self, client: Client, topic_filter: str) -> bool:
        return False

    async def _may(self, client: Client, topic: str, action: Action) -> bool:
        answers = await self._manager.map_plugin_topic(
            session=_session_of(client), topic=topic, action=action
        )
        return all(answers.values())

    def _at_once(self, client: Client, topic: str) -> bool | None:
        asked = {"session": _session_of(client), "topic": topic, "action": Action.RECEIVE}
        for plugin in self._plugins:
            question = plugin.topic_filtering(**asked)
            try:
                question.send(None)
            except StopIteration as answered:
                if not answered.value:
                    return False
                continue
            except Exception:
                _log.debug("%s can't answer at once", type(plugin).__name__, exc_info=True)
            question.close()  # it waits: all of them are asked once more
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


class _Events:
    """Tells plugins of clients, those events that one of them asks for."""

    def __init__(self, manager: PluginManager[Any], wanted: frozenset[BrokerEvents]) -> None:
        self._manager = manager
        self._wanted = wanted
        self._tasks: set[asyncio.Task[None]] = set()

    def connected(self, client: Client) -> None:
        self._tell(BrokerEvents.CLIENT_CONNECTED, client, client_session=_session_of(client))

    def disconnected(self, client: Client, why: str) -> None:
        self._tell(BrokerEvents.CLIENT_DISCONNECTED, client, client_session=_session_of(client))

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        self._tell(BrokerEvents.CLIENT_SUBSCRIBED, client, topic=topic_filter, qos=qos)

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        self._tell(BrokerEvents.CLIENT_UNSUBSCRIBED, client, topic=topic_filter)

    async def close(self) -> None:
        """Tell nothing any more, and wait until plugins have dealt with all that they were told."""
        self._wanted = frozenset()
        await asyncio.gather(*self._tasks)
        await self._manager.wait_fired_events()

    def _tell(self, event: BrokerEvents, client: Client, **what: Any) -> None:
        if event in self._wanted:
            fired = self._manager.fire_event(event, client_id=client.client_id, **what)
            task = asyncio.ensure_future(fired)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


class PluginContext(BaseContext):  # type: ignore[misc]  # amqtt is untyped here
    """The context that amqtt's `BrokerContext` promises plugins, of our broker.

    Before the broker runs there is nothing to see, and what is published waits.

    Args:
        running: the broker, as soon as it runs.

    """

    def __init__(self, running: asyncio.Future[DataPlane]) -> None:
        super().__init__()
        self._running = running

    async def broadcast_message(self, topic: str, data: bytes, qos: int | None = None) -> None:
        """Publish to the clients of this gateway."""
        await self._publish(Entry(topic, bytes(data), qos or 0))

    async def retain_message(
        self, topic_name: str, data: bytes | bytearray, qos: int | None = None
    ) -> None:
        """Publish to the clients of this gateway, and retain."""
        await self._publish(Entry(topic_name, bytes(data), qos or 0, True))

    @property
    def sessions(self) -> Iterator[PluginSession]:
        """Every session."""
        for core in self._cores():
            yield from (_session_of(session.client) for session in core.sessions.values())

    def get_session(self, client_id: str) -> PluginSession | None:
        """Return a client's session."""
        return next((one for one in self.sessions if one.client_id == client_id), None)

    @property
    def retained_messages(self) -> dict[str, RetainedApplicationMessage]:
        """Every retained message, by topic."""
        return {
            topic: RetainedApplicationMessage(None, topic, message.payload, message.qos)
            for core in self._cores()
            for topic, message in core.retention.match("#")
        }

    @property
    def subscriptions(self) -> dict[str, list[tuple[PluginSession, int]]]:
        """Every subscription, by filter."""
        found: dict[str, list[tuple[PluginSession, int]]] = {}
        for core in self._cores():
            for session in core.sessions.values():
                seen = _session_of(session.client)
                for topic_filter, subscription in session.subscriptions.items():
                    found.setdefault(topic_filter, []).append((seen, subscription.qos))
        return found

    async def add_subscription(self, client_id: str, topic: str | None, qos: int | None) -> None:
        """Subscribe for a client that has a session.

        Raises:
            NoSessionError: it has none.
            FilterError: the filter is malformed or too deep.

        """
        core = await self._running
        session = core.sessions.get(client_id)
        if session is None:
            raise NoSessionError(client_id)
        if topic is not None and qos is not None:
            core.subscriptions.add(session, topic, Subscription(qos))

    def _cores(self) -> tuple[DataPlane, ...]:
        return (self._running.result(),) if self._running.done() else ()

    async def _publish(self, entry: Entry) -> None:
        core = await self._running
        if not entry.topic.startswith(PREFIX):  # amqtt's own plugin would publish twice what we do
            core.remote_delivery.publish((entry,))


def _session_of(client: Client) -> PluginSession:
    """Return a client as plugins know it."""
    session = PluginSession()
    session.client_id = client.client_id
    session.username = client.username
    session.remote_address = client.address
    if client.certificate is not None:
        session.ssl_object = _Verified(client.certificate.der)
    return session


class _Verified:
    """The TLS connection of a client, as far as a plugin asks it."""

    def __init__(self, der: bytes) -> None:
        self._der = der

    def getpeercert(self, binary_form: bool = False) -> bytes:
        if not binary_form:
            raise NotImplementedError("the certificate is there in binary form")
        return self._der


def _in_one_line(error: Exception) -> str:
    """Return what amqtt raised, with the cause that it often leaves out."""
    said = [str(one) for one in (error, error.__cause__) if one is not None and str(one)]
    return ": ".join(said).replace("\n", " ") or type(error).__name__
