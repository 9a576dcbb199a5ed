"""Loads plugins; amqtt is imported only where any are configured."""

from __future__ import annotations

import asyncio

from gateway.broker.access.plugins import AuthPlugins, PluginHost, Plugins, TopicPlugins
from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Events


class _NoPlugins:
    def __init__(self) -> None:
        self.auth: AuthPlugins | None = None
        self.topics: TopicPlugins | None = None
        self.events: Events | None = None

    async def starting(self) -> None: ...

    async def started(self) -> None: ...

    async def stopping(self) -> None: ...

    async def stopped(self) -> None: ...


def load(plugins: Plugins, running: asyncio.Future[DataPlane]) -> PluginHost:
    """Load plugins.

    Args:
        plugins: which, with their options.
        running: the broker, as soon as it knows again what outlived the last process.

    Raises:
        PluginConfigError: one can't be used.

    """
    if not plugins:
        return _NoPlugins()
    from gateway.broker.access.amqtt_plugins import AmqttPlugins  # noqa: PLC0415  # see above

    return AmqttPlugins(plugins, running)
