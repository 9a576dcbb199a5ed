"""Tells each of those who listen to what happens to clients, whatever another one does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.base.event_log.failures import Failures
from gateway.broker.hooks import Client, Events

_WHAT: Final = "listener to what happens to clients"


class EachListener:
    """All that are told, as one: an `Events`.

    Args:
        listeners: those.
        failures: is told of one that fails.

    """

    def __init__(self, listeners: Sequence[Events], failures: Failures) -> None:
        self._listeners = listeners
        self._failures = failures

    def connected(self, client: Client) -> None:
        """Tell that a client has been accepted."""
        for one in self._listeners:
            try:
                one.connected(client)
            except Exception as error:  # a plugin may raise anything
                self._failures.failed(_WHAT, error, str(client))

    def disconnected(self, client: Client, why: str) -> None:
        """Tell that a client has gone."""
        for one in self._listeners:
            try:
                one.disconnected(client, why)
            except Exception as error:  # a plugin may raise anything
                self._failures.failed(_WHAT, error, str(client))

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        """Tell that a subscription was granted."""
        for one in self._listeners:
            try:
                one.subscribed(client, topic_filter, qos)
            except Exception as error:  # a plugin may raise anything
                self._failures.failed(_WHAT, error, str(client))

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        """Tell that a subscription has ended."""
        for one in self._listeners:
            try:
                one.unsubscribed(client, topic_filter)
            except Exception as error:  # a plugin may raise anything
                self._failures.failed(_WHAT, error, str(client))
