"""The local MQTT broker: what it is made of, and in which order that starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.lasting_clock import LastingClock
from gateway.base.steady_clock import steady_clock
from gateway.broker.access.guard import Access, Guard
from gateway.broker.access.plugin_loading import load
from gateway.broker.access.plugins import PluginHost, Plugins
from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.history import History
from gateway.broker.durability.opening import open_store
from gateway.broker.hooks import Demand, Events, Hooks, Links, PrivateTopics, Tree
from gateway.broker.limits import Limits, counted_refusals
from gateway.broker.listeners.listener import Listener, Listeners
from gateway.broker.listeners.websocket_rules import WebSocketRules
from gateway.broker.outbound.message import Message
from gateway.broker.statistics.sys_topics import SysTopics
from gateway.mqtt import PacketError
from gateway.trust.policy.origins import OriginRules
from light_dataclasses import dataclass
from tree_handler.batch import Entry
from tree_handler.origin_clocks import OriginClocks
from tree_handler.sharing.rule import EachGateway, SharedGroups

UNFIT: Final = "message of the gateway's own that no client could publish"

_EACH: Final = EachGateway()

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings for the whole life of a broker.

    Attributes:
        listeners: what is listened on, one of each scheme.
        anonymous: whether clients need no user name.
        limits: what a client may take.
        websocket_rules: which websockets are granted.
        plugins: amqtt's, by the dotted name of their class.
        sys_interval_s: how often ``$SYS`` is published, in seconds; 0 for never.

    """

    listeners: tuple[Listener, ...]
    anonymous: bool = False
    limits: Limits = field(default_factory=Limits)
    websocket_rules: WebSocketRules = field(default_factory=WebSocketRules)
    plugins: Plugins = field(default_factory=dict)
    sys_interval_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Memory:
    """The places in which sessions and retained messages outlive the process.

    Attributes:
        history: the log.
        state_file: where checkpoints of it are kept.
        clock: counts on over restarts.
        origins: the clocks of those whose messages come, counted by that one.

    """

    history: History
    state_file: Path
    clock: LastingClock
    origins: OriginClocks


class GatewayBroker:
    """The broker of one gateway, which runs: made by `open_broker`.

    Attributes:
        core: the data plane.

    Args:
        core: the same.
        guard: who may do what.
        listeners: where clients come in.
        plugins: are told of the end.
        sys_interval_s: how often ``$SYS`` is published, in seconds; 0 for never.

    """

    def __init__(
        self,
        core: DataPlane,
        guard: Guard,
        listeners: Listeners,
        plugins: PluginHost,
        sys_interval_s: float,
    ) -> None:
        self.core = core
        self._guard = guard
        self._listeners = listeners
        self._plugins = plugins
        self._sys_topics = SysTopics(core, sys_interval_s) if sys_interval_s else None

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are listened on, by scheme."""
        return self._listeners.ports

    @property
    def port(self) -> int:
        """The port that is listened on for plain MQTT and links."""
        return self.ports["mqtt"]

    @property
    def client_count(self) -> int:
        """Clients that are connected."""
        return self.core.sessions.connected

    def accept(self, entry: Entry) -> None:
        """Publish for the gateway itself, as a client would."""
        try:
            self.core.commit_queue.publish_own(Message.of(entry, self.core.now()))
        except PacketError as error:  # whoever measures or tells goes on with all else
            self.core.refusals.count(UNFIT, f"{entry.topic}: {error}", level=logging.ERROR)

    @property
    def permissions(self) -> Guard:
        """Says who may do what, and what clients have proved."""
        return self._guard

    def revise(self, access: Access) -> None:
        """Go by files that were read again; clients that may no longer stay have to go."""
        self._listeners.follow(access.tls)
        self._guard.follow(access, self.core)

    async def shutdown(self) -> None:
        """Close every client and stop listening."""
        await self._plugins.stopping()
        if self._sys_topics is not None:
            self._sys_topics.stop()
        await _stop(self.core, self._listeners)
        await self._plugins.stopped()


async def open_broker(
    settings: BrokerSettings,
    access: Access,
    *,
    tree: Tree,
    links: Links,
    interest: Demand | None = None,
    events: Events | None = None,
    private: PrivateTopics | None = None,
    origins: OriginRules | None = None,
    groups: SharedGroups = _EACH,
    memory: Memory | None = None,
    recovered: Callable[[DataPlane], None] = lambda core: None,
    refusals: CountedLines | None = None,
    now: Callable[[], float] | None = None,
) -> GatewayBroker:
    """Recover what outlived the last process, and listen.

    Args:
        settings: what holds for the broker's whole life.
        access: what files say now of who may do what.
        tree: takes the clients' messages.
        links: serves neighbours.
        interest: is told what all clients together want; None where nobody asks.
        events: is told of clients besides plugins; None where nobody asks.
        private: serves topics that begin with ``$``; None where nobody does.
        origins: decides what is retained of what gateways publish; None for all.
        groups: decides which gateway's members of a shared subscription get a message.
        memory: None for a broker that forgets all at its end.
        recovered: called with the data plane that has recovered, before anything is listened on.
        refusals: counts what is refused or dropped; a new count if not given.
        now: what all that ends with time is measured by; a `steady_clock` if it is not given.

    Raises:
        PluginConfigError: a plugin can't be loaded.
        StoreError: checkpoints can't be read or written.
        ListenError: an address is in use or not this machine's.

    """
    running: asyncio.Future[DataPlane] = asyncio.get_running_loop().create_future()
    plugins = load(settings.plugins, running)
    refusals = refusals or counted_refusals(asyncio.get_running_loop().time)
    limits = settings.limits
    guard = Guard(access, plugins, anonymous=settings.anonymous, limits=limits, refusals=refusals)
    told = [each for each in (plugins.events, events, private) if each is not None]
    may = guard if guard.has_rules else None, told, interest, guard if access.policy else None
    hooks = Hooks(guard.authentication, tree, links, *may, private, origins, groups)
    durable = _durable(memory, now := now or steady_clock())
    core = DataPlane(hooks, limits, durable, refusals, now)
    listeners = Listeners(core.service, access.tls, settings.websocket_rules)
    failure: BaseException | None = None
    try:
        _begin(core, memory, durable, recovered, limits.retained_bytes)
        running.set_result(core)
        await _listen(plugins, listeners, settings.listeners)
    except BaseException as error:
        failure = error
    if failure is not None:  # not waited for in `except`: docs/decisions/0018
        await _stop(core, listeners)
        raise failure
    await plugins.started()
    return GatewayBroker(core, guard, listeners, plugins, settings.sys_interval_s)


def _durable(memory: Memory | None, now: Callable[[], float]) -> DurablePersistence | None:
    if memory is None:
        return None
    return DurablePersistence(memory.history, memory.clock, now, memory.origins)


def _begin(
    core: DataPlane,
    memory: Memory | None,
    durable: DurablePersistence | None,
    recovered: Callable[[DataPlane], None],
    retained_bytes: int,
) -> None:
    if memory is not None and durable is not None:
        file, is_first = memory.state_file, not memory.history.position
        store, saved = open_store(file, is_first=is_first, retained_bytes=retained_bytes)
        found = core.recover(durable, memory.history, store, saved)
        if found.left_out:
            _log.error(
                "%s: %d retained messages are left out, for this process has room for %d bytes of "
                "them; they stay there for a start with more memory, or another "
                "limits.retained_bytes",
                file,
                found.left_out,
                retained_bytes,
            )
        if found.sessions:
            what = "sessions recovered: %d, messages for them: %d"
            _log.info(what, found.sessions, found.waiting)
    core.start()
    recovered(core)


async def _listen(plugins: PluginHost, listeners: Listeners, wanted: Sequence[Listener]) -> None:
    await plugins.starting()
    for listener in wanted:
        await listeners.open(listener)


async def _stop(core: DataPlane, listeners: Listeners) -> None:
    listeners.close()
    core.stop()
    await core.keep()
