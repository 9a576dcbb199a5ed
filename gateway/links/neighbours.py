"""Whom to dial, when, and when to give up: static neighbours and discovered ones.

An address is dialled until it holds a link, with exponential back-off and jitter, so that a
fleet that comes back from a power cut does not knock in step. A static neighbour is never given
up; a discovered one is, and its next announcement brings it back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tree_handler.errors import ProtocolError

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 5.0
GIVE_UP_S = 120.0
"""A discovered neighbour that does not answer for so long is forgotten."""
DIAL_BACK_S = 1.0
"""Of two that discover each other the lower id dials first; the other waits this long."""
MAX_DISCOVERED = 256
LINKED_CHECK_S = 1.0
"""How often to see whether a neighbour that dialled us is still there."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a neighbour's MQTT listener is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port``."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))


class Neighbours:
    """Keeps every known neighbour dialled.

    Args:
        own_id: this gateway's id.
        dial: connects, and returns when the link that came of it has ended.
        is_linked: whether there is a link to a gateway id.

    """

    def __init__(
        self,
        own_id: str,
        dial: Callable[[Address], Awaitable[str]],
        is_linked: Callable[[str], bool],
    ) -> None:
        self._own_id = own_id
        self._dial = dial
        self._is_linked = is_linked
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        self._jitter = random.Random()

    def add_static(self, address: Address) -> None:
        """Dial this neighbour for as long as the process runs."""
        self._start(address, peer_id=None)

    def add_discovered(self, address: Address, peer_id: str) -> None:
        """Dial a neighbour that announced itself."""
        if len(self._tasks) < MAX_DISCOVERED and not self._is_linked(peer_id):
            self._start(address, peer_id)

    async def stop(self) -> None:
        """End all dialling; links in use are the caller's."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, address: Address, peer_id: str | None) -> None:
        if address in self._tasks:
            return
        task = asyncio.create_task(self._keep(address, peer_id), name=f"dial {address}")
        self._tasks[address] = task
        task.add_done_callback(lambda _: self._tasks.pop(address, None))

    async def _keep(self, address: Address, peer_id: str | None) -> None:
        loop = asyncio.get_running_loop()
        forget = peer_id is not None
        if peer_id is not None and self._own_id > peer_id:
            await asyncio.sleep(DIAL_BACK_S)
        retry_s = FIRST_RETRY_S
        last_success = loop.time()
        while not (forget and loop.time() - last_success > GIVE_UP_S):
            if peer_id is None or not self._is_linked(peer_id):
                try:
                    peer_id = await self._dial(address)
                    retry_s = FIRST_RETRY_S
                    last_success = loop.time()
                except (OSError, ProtocolError) as error:
                    _log.debug("dialling %s: %s", address, error)
                    retry_s = min(retry_s * 2, LAST_RETRY_S)
            else:
                last_success = loop.time()
                retry_s = LINKED_CHECK_S
            await asyncio.sleep(retry_s * self._jitter.uniform(0.5, 1.5))
