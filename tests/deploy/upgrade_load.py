"""A publisher and a subscriber on the operator's machine, and the account of what both saw.

QoS 1 both ways, sessions that outlive connections. What is published again after a lost connection
keeps its number: twice is no error here, acknowledged and never received is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from types import TracebackType

from commands import until
from mqtt_peer import Peer

from benchmarks.mesh.namespaces import Namespace
from gateway.mqtt import (
    PropertyId,
    PubAck,
    Publish,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
)

TOPIC = "campus/load"
PAUSE_S = 0.01
AGAIN_S = 0.2
SESSION_S = 3600


class Load:
    """Publishes through one gateway and receives at another while it is entered.

    Args:
        space: where both are.
        publisher: address that is published to.
        subscriber: address that is subscribed at.
        password: of the user ``load``.

    Attributes:
        acknowledged: the numbers that had a PUBACK.
        received: how often each number came.

    """

    def __init__(self, space: Namespace, publisher: str, subscriber: str, password: str) -> None:
        self.acknowledged: list[int] = []
        self.received: Counter[int] = Counter()
        self.longest_gap_s = 0.0
        self._space = space
        self._addresses = publisher, subscriber
        self._password = password.encode()
        self._is_ending = threading.Event()
        self._is_over = threading.Event()
        self._is_subscribed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        until("the load's subscription", self._is_subscribed.is_set)
        until("the load's first message", lambda: self.received)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._is_ending.set()
        try:
            if error is None:
                until("all that was acknowledged came", lambda: not self.lost)
        finally:
            self._is_over.set()
            self._thread.join(30)

    @property
    def lost(self) -> set[int]:
        """The numbers that were acknowledged and have not come."""
        return set(self.acknowledged) - set(self.received)

    def _run(self) -> None:
        with self._space.entered():
            asyncio.run(self._both())

    async def _both(self) -> None:
        tasks = [asyncio.create_task(self._publish()), asyncio.create_task(self._receive())]
        while not self._is_over.is_set():
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _peer(self, address: str, name: str, *, clean: bool) -> Peer | None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                peer = Peer(*await asyncio.open_connection(address, 1883), Version.V5)
                reason = await peer.connect(
                    name,
                    clean_start=clean,
                    username="load",
                    password=self._password,
                    keep_alive_s=30,
                    properties={} if clean else {PropertyId.SESSION_EXPIRY_INTERVAL: SESSION_S},
                )
                if reason == ReasonCode.SUCCESS:
                    return peer
                peer.close()
        await asyncio.sleep(AGAIN_S)
        return None

    async def _publish(self) -> None:
        number, peer, last_s = 0, None, time.monotonic()
        await asyncio.to_thread(self._is_subscribed.wait)
        while not self._is_ending.is_set():
            if peer is None:
                peer = await self._peer(self._addresses[0], "load-out", clean=True)
                continue
            answer = None
            with contextlib.suppress(OSError, TimeoutError):
                peer.send(Publish(TOPIC, str(number).encode(), 1, False, False, 7, {}))
                answer = await peer.next()
            if isinstance(answer, PubAck) and answer.reason < 0x80:
                self.acknowledged.append(number)
                self.longest_gap_s = max(self.longest_gap_s, time.monotonic() - last_s)
                last_s = time.monotonic()
                number += 1
                await asyncio.sleep(PAUSE_S)
            else:
                peer.close()
                peer = None
                await asyncio.sleep(AGAIN_S)

    async def _receive(self) -> None:
        while True:
            peer = await self._peer(self._addresses[1], "load-in", clean=False)
            if peer is None:
                continue
            peer.send(Subscribe(1, [SubscriptionRequest(TOPIC, 1)], {}))
            self._is_subscribed.set()
            with contextlib.suppress(OSError):
                while True:
                    try:
                        packet = await peer.next()
                    except TimeoutError:
                        continue
                    if packet is None:
                        break
                    if isinstance(packet, Publish):
                        self.received[int(packet.payload)] += 1
                        peer.send(PubAck(packet.packet_id or 0, ReasonCode.SUCCESS, {}))
            peer.close()
