"""A UDP relay on loopback that loses, doubles and reorders datagrams in both directions."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Faults:
    """The probability of each fault of a datagram, and the longest delay.

    Attributes:
        loss: it does not arrive.
        duplication: it arrives twice.
        delay_ms: it arrives at any time until then, so that later ones overtake it.

    """

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms: float = 0.0


class BadNetwork:
    """Relays between clients and one server; each client has a host of its own behind it.

    Args:
        port: of the server, on loopback.
        faults: what happens to datagrams.
        seed: the same faults again.
        network: the first two bytes of the addresses that the server sees.

    """

    def __init__(self, port: int, faults: Faults, seed: int, network: str = "127.9") -> None:
        self._server = ("127.0.0.1", port)
        self._faults = faults
        self._random = random.Random(seed)
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._behind: dict[Any, asyncio.DatagramTransport] = {}
        self._waiting: dict[Any, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = self.relayed = 0
        self.port = 0

    async def __aenter__(self) -> BadNetwork:
        self._front, _ = await self._loop.create_datagram_endpoint(
            lambda: _Side(self._from_client), local_addr=("127.0.0.1", 0)
        )
        self.port = self._front.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._front.close()
        for each in self._behind.values():
            each.close()
        await asyncio.sleep(0)

    def _from_client(self, datagram: bytes, client: Any) -> None:
        if client in self._waiting:
            self._waiting[client].append(datagram)
        elif client in self._behind:
            self._pass_on(lambda: self._behind[client].sendto(datagram))
        else:
            self._waiting[client] = [datagram]
            task = self._loop.create_task(self._open(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open(self, client: Any) -> None:
        number = len(self._behind) + len(self._waiting)
        host = f"{self._network}.{number >> 8}.{(number & 255) or 1}"
        self._behind[client], _ = await self._loop.create_datagram_endpoint(
            lambda: _Side(
                lambda datagram, _: self._pass_on(lambda: self._front.sendto(datagram, client))
            ),
            local_addr=(host, 0),
            remote_addr=self._server,
        )
        for datagram in self._waiting.pop(client):
            self._from_client(datagram, client)

    def _pass_on(self, send: Any) -> None:
        faults = self._faults
        copies = 2 if self._random.random() < faults.duplication else 1
        for _ in range(copies):
            if self._random.random() < faults.loss:
                self.lost += 1
                continue
            self.relayed += 1
            late_s = self._random.random() * faults.delay_ms / 1000
            self._loop.call_later(late_s, self._deliver, send)

    def _deliver(self, send: Any) -> None:
        if not self._front.is_closing():
            send()


class _Side(asyncio.DatagramProtocol):
    def __init__(self, take: Any) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._take(data, addr)

    def error_received(self, exc: Exception) -> None:
        """Ignore that a peer is gone."""
