"""Plugins as the broker sees them, whoever's they are; amqtt's are in `amqtt_plugins`.

amqtt is imported only where plugins are configured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from mypy_extensions import mypyc_attr

from gateway.broker.hooks import Client, Events, TopicPermissions

Plugins = Mapping[str, Mapping[str, Any]]
"""As amqtt's configuration has them: the class's dotted name -> its options."""


class PluginConfigError(ValueError):
    """A plugin can't be used: ``str(error)`` is one line."""


class AuthPlugins(Protocol):
    """Are asked who comes in."""

    def knows(self, client: Client, password: bytes | None) -> Awaitable[bool | None]:
        """False if one refuses a client, True if one knows it, else None."""


class TopicPlugins(TopicPermissions, Protocol):
    """Are asked about topics; all of them must allow."""

    def forget(self) -> None:
        """Ask anew about what was decided."""


@mypyc_attr(allow_interpreted_subclasses=True)  # the one for amqtt's is never compiled
class PluginHost:
    """Plugins and their life; here there are none.

    Attributes:
        auth: None if none is to be asked who comes in.
        topics: None if none is to be asked about topics.
        events: None if none is to be told of clients.

    """

    def __init__(self) -> None:
        self.auth: AuthPlugins | None = None
        self.topics: TopicPlugins | None = None
        self.events: Events | None = None

    async def starting(self) -> None:
        """Tell them that the broker is about to listen."""

    async def started(self) -> None:
        """Tell them that it listens."""

    async def stopping(self) -> None:
        """Tell them that it is about to close its connections."""

    async def stopped(self) -> None:
        """Tell them that it has, and close them."""
