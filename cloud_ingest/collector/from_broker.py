"""The collector as a client of a plain MQTT broker: it makes the batches itself.

A message is acknowledged when the batch that holds it is synced in the spool. Where the disk takes
nothing, nothing is acknowledged or read, and the broker keeps what comes.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from functools import partial

from cloud_ingest.collector.broker_session import BrokerMessage, BrokerSession, BrokerSessionError
from cloud_ingest.collector.broker_settings import BrokerCollectorSettings
from cloud_ingest.collector.numbering import BatchNumbering
from cloud_ingest.collector.source_spool import SourceSpool
from gateway.base import wall_clock
from gateway.node.links.refusal import reason
from gateway.process.configuration.config import ConfigError
from gateway.process.state_folder.identity import next_boot_epoch

_log = logging.getLogger(__name__)

STORE_AGAIN_S = 1.0
"""A disk that refused is asked again after so long."""
CONNECT_LIMIT_S = 30.0
BACK_OFF_S = 1.0
BACK_OFF_MAX_S = 60.0
READ_BYTES = 1 << 16


class BrokerCollector:
    """One collector process that has a session at a broker.

    Raises:
        ConfigError: the configuration can't be gone by.
        LogError: the spool can't be opened.

    """

    def __init__(self, settings: BrokerCollectorSettings) -> None:
        own = settings.collector
        self._settings = settings
        settings.tls()
        if settings.login()[1] is not None and settings.broker.ca_file is None:
            _log.warning("broker.ca_file: missing, so the password goes over the network as it is")
        self._spool = SourceSpool(own, settings.log)
        self._epoch = next_boot_epoch(own.spool_dir)
        self._numbering = BatchNumbering(own.id, self._epoch)
        self._session = BrokerSession(settings.session())
        self._pending: list[BrokerMessage] = []
        self._again: asyncio.TimerHandle | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._stored = 0
        self._trouble = ""

    def reload(self) -> None:
        """Connect again, with certificates and password as their files are now."""
        self._lose("files are read again")

    async def run(self) -> None:
        """Collect until cancelled; keeps `status.json` in the spool's folder up to date."""
        await self._spool.fill(self._collect(), self._status)

    # -- the connection --------------------------------------------------------------------------

    async def _collect(self) -> None:
        try:
            await self._keep_connected()
        finally:
            if self._again is not None:
                self._again.cancel()

    async def _keep_connected(self) -> None:
        wait_s = BACK_OFF_S
        while True:
            began_s, stored = time.monotonic(), self._stored
            try:
                await self._one_connection()
            except (BrokerSessionError, ConfigError, OSError, TimeoutError) as error:
                self._trouble = reason(error)
            if self._stored > stored or time.monotonic() - began_s >= BACK_OFF_MAX_S:
                wait_s = BACK_OFF_S
            own = self._settings.broker
            _log.warning("broker %s:%d: %s", own.host, own.port, self._trouble)
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, BACK_OFF_MAX_S)

    async def _one_connection(self) -> None:
        own = self._settings.broker
        login = self._settings.login()
        async with asyncio.timeout(CONNECT_LIMIT_S):
            reader, writer = await asyncio.open_connection(
                own.host, own.port, ssl=self._settings.tls(), limit=READ_BYTES
            )
        try:
            writer.write(self._session.connect(*login))
            self._writer = writer
            async with asyncio.timeout(CONNECT_LIMIT_S):
                while not self._session.is_subscribed:
                    await self._read(reader, writer)
            self._trouble = ""
            _log.info("broker %s:%d: subscribed", own.host, own.port)
            self._warn_of_expiry()
            pinging = asyncio.create_task(self._pinging(writer), name="pings")
            try:
                await self._reading(reader, writer)
            finally:
                pinging.cancel()
        finally:
            self._writer = None
            writer.transport.abort()  # no DISCONNECT: its session and its messages stay

    async def _reading(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await self._has_room.wait()
            async with asyncio.timeout(self._session.keep_alive_s * 1.5 or None):
                await self._read(reader, writer)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(READ_BYTES)
        if not data:
            raise BrokerSessionError(self._trouble or "the connection was closed")
        answer, messages = self._session.feed(data)
        writer.write(answer)
        if messages:
            self._pending += messages
            self._store()
        self._look_for_room()

    async def _pinging(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep((self._session.keep_alive_s or 60) / 2)
            writer.write(self._session.ping())

    def _warn_of_expiry(self) -> None:
        asked = self._settings.broker.session_expiry_s
        if self._session.session_expiry_s < asked:
            kept = self._session.session_expiry_s
            _log.warning("the broker keeps the session for %d s and not for %d", kept, asked)

    def _lose(self, why: str) -> None:
        self._trouble = why
        if self._writer is not None:
            self._writer.transport.abort()

    # -- the spool -------------------------------------------------------------------------------

    def _store(self) -> None:
        if self._again is not None:
            return  # the disk refused; the order stays
        while self._pending:
            rows = [message.row for message in self._pending]
            frame, header = self._numbering.make(rows, wall_clock.now_us())
            if self._spool.commit.append(frame, header) is not None:
                self._again = asyncio.get_running_loop().call_later(STORE_AGAIN_S, self._try_again)
                return
            self._numbering.took(header)
            messages = self._pending[: header.count]
            del self._pending[: header.count]
            self._spool.commit.settle([partial(self._settled, messages)])

    def _try_again(self) -> None:
        self._again = None
        self._store()

    def _settled(self, messages: list[BrokerMessage], error: OSError | None) -> None:
        if error is None:
            self._stored += len(messages)
            answer = self._session.stored(messages)
            if self._writer is not None and answer:
                self._writer.write(answer)
        else:  # they may be in the spool or not: the broker has to send them again
            self._session.lost(messages)
            self._lose(f"the spool could not be synced: {error}")
        self._look_for_room()

    def _look_for_room(self) -> None:
        if self._session.is_full:
            self._has_room.clear()
        else:
            self._has_room.set()

    def _status(self) -> dict[str, object]:
        own = self._settings.broker
        return {
            "boot_epoch": self._epoch,
            "broker": f"{own.host}:{own.port}",
            "is_subscribed": self._writer is not None and self._session.is_subscribed,
            "trouble": self._trouble,
            "stored": self._stored,
            "waiting": self._session.held,
            "known_again": self._session.known_again,
        }
