"""The local MQTT broker: amqtt's, with the message log and the tree under it.

amqtt brings listeners, authentication plugins and its data plane. What differs: a QoS 1 or 2
message is in the log before its acknowledgement leaves (`handler`), a connection that opens
with the bridge bit becomes a link to a neighbour (`peek`), and what other gateways published
is handed to local subscribers in the order in which it comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from amqtt.adapters import ReaderAdapter, StreamWriterAdapter, WriterAdapter
from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig
from amqtt.errors import BrokerError
from amqtt.session import Session

from gateway.broker.handler import Accept, LoggedProtocolHandler
from gateway.broker.peek import PeekedReader, peek
from tree_handler.batch import Entry

CONNECT_TIMEOUT_S = 10.0
"""A connection that has not begun its CONNECT by then is closed."""
MAX_SILENT = 256
"""Connections that have not said anything yet; more are closed at once."""

Links = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
"""Takes over a neighbour's connection, whose first bytes are given."""

_log = logging.getLogger(__name__)


class GatewayBroker(Broker):  # type: ignore[misc]  # amqtt is untyped here
    """The broker of one gateway.

    Args:
        host: address to listen on.
        port: TCP port, 0 for a free one.
        anonymous: whether clients need no user name.
        password_file: ``user:hash`` lines (argon2), where they do.
        accept: takes a client's message into the log and the tree.
        links: takes over a neighbour's connection.

    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        anonymous: bool,
        password_file: Path | None,
        accept: Accept,
        links: Links,
    ) -> None:
        plugins: dict[str, dict[str, Any]] = {}
        if anonymous:
            plugins["amqtt.plugins.authentication.AnonymousAuthPlugin"] = {"allow_anonymous": True}
        elif password_file is not None:
            plugins["amqtt.plugins.authentication.FileAuthPlugin"] = {
                "password_file": str(password_file)
            }
        listener = {"type": "tcp", "bind": f"{host}:{port}", "max_connections": 1_000}
        super().__init__(
            BrokerConfig.from_dict({"listeners": {"default": listener}, "plugins": plugins})
        )
        self._accept = accept
        self._links = links
        self._silent = 0
        self._inbox: asyncio.Queue[Entry] = asyncio.Queue()
        self._inbox_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is in use or not this machine's.

        """
        level = self.logger.level
        self.logger.setLevel(logging.CRITICAL)  # a port in use is one line, not amqtt's traceback
        try:
            await super().start()
        except BrokerError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise
        finally:
            self.logger.setLevel(level)
        self._inbox_task = asyncio.create_task(self._hand_out(), name="hand out")

    async def shutdown(self) -> None:
        """Close every client and stop listening."""
        if self._inbox_task is not None:
            self._inbox_task.cancel()
            await asyncio.gather(self._inbox_task, return_exceptions=True)
        await super().shutdown()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        sockets = self._servers["default"].instance.sockets
        return int(sockets[0].getsockname()[1])

    @property
    def client_count(self) -> int:
        """Clients that are connected."""
        return sum(
            session.transitions.state == "connected" for session, _ in self._sessions.values()
        )

    def hand_out(self, entry: Entry) -> None:
        """Give a message that is in the log to local subscribers."""
        self._inbox.put_nowait(entry)

    async def _hand_out(self) -> None:
        while True:
            entry = await self._inbox.get()
            await self.internal_message_broadcast(entry.topic, entry.payload)
            if entry.retain:
                await self.retain_message(None, entry.topic, entry.payload, entry.qos)

    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        """Serve a connection, as a client's or as a neighbour's."""
        if self._silent >= MAX_SILENT:
            writer.transport.abort()
            return
        self._silent += 1
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                start = await peek(reader)
        except (OSError, TimeoutError) as error:
            _log.debug("connection closed before CONNECT: %s", error)
            writer.close()
            return
        finally:
            self._silent -= 1
        if start.is_link:
            await self._links(reader, writer, start.data)
        else:
            await self._client_connected(
                listener_name, PeekedReader(reader, start.data), StreamWriterAdapter(writer)
            )

    async def _initialize_client_session(
        self,
        reader: ReaderAdapter,
        writer: WriterAdapter,
        remote_address: str,
        remote_port: int,
    ) -> tuple[LoggedProtocolHandler, Session]:
        _, session = await super()._initialize_client_session(
            reader, writer, remote_address, remote_port
        )
        handler = LoggedProtocolHandler(self.plugins_manager)
        handler.accept = self._accept
        handler.may_publish = self._topic_filtering
        return handler, session
