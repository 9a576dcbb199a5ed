"""Loads plugins; amqtt is imported only where any are configured."""

from __future__ import annotations

import asyncio

from gateway.broker.access.plugins import PluginHost, Plugins
from gateway.broker.data_plane import DataPlane


def load(plugins: Plugins, running: asyncio.Future[DataPlane]) -> PluginHost:
    """Load plugins.

    Args:
        plugins: which, with their options.
        running: the broker, as soon as it knows again what outlived the last process.

    Raises:
        PluginConfigError: one can't be used.

    """
    if not plugins:
        return PluginHost()
    from gateway.broker.access.amqtt_plugins import AmqttPlugins  # noqa: PLC0415  # see above

    return AmqttPlugins(plugins, running)
