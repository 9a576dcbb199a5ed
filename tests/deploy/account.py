"""An account of acknowledged messages, all of which a client that was away must get.

One client subscribes with a session that outlives its connection, and goes. Another publishes at
QoS 1 and counts what had a PUBACK. In the end the first comes back and is given what it missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

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

TOPIC = "campus/account"
PAUSE_S = 0.05
AGAIN_S = 0.2
SESSION_S = 86_400
STILL_S = 20.0
"""Nothing more comes once so long nothing came."""


@dataclass
class Account:
    """Of one gateway.

    Attributes:
        space: where its clients are.
        address: of the gateway.
        password: of the user ``load``.
        acknowledged: how many numbers had a PUBACK, from 0.
        begun_at: the number at which each connection of the publisher began.

    """

    space: Namespace
    address: str
    password: str
    acknowledged: int = 0
    begun_at: list[int] = field(default_factory=list)
    _is_subscribed: bool = False
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Publish meanwhile, once the gateway is there and the subscription stands."""
        self._is_over.clear()
        thread = threading.Thread(target=self._enter, args=(self._publish(),), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join(60)

    def lost(self, count: int) -> set[int]:
        """Return those of the first so many numbers that the client that was away does not get."""
        missing = set(range(count))
        if missing:
            thread = threading.Thread(target=self._enter, args=(self._take(missing),))
            thread.start()
            thread.join()
        return missing

    def more(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = self.acknowledged + count
        until(f"{count} more messages are acknowledged", lambda: self.acknowledged >= wanted)

    def _enter(self, work: Coroutine[Any, Any, None]) -> None:
        with self.space.entered():
            asyncio.run(work)

    async def _peer(self, name: str, *, clean: bool) -> Peer | None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(20):
                peer = Peer(*await asyncio.open_connection(self.address, 1883), Version.V5)
                reason = await peer.connect(
                    name,
                    clean_start=clean,
                    username="load",
                    password=self.password.encode(),
                    keep_alive_s=60,
                    properties={} if clean else {PropertyId.SESSION_EXPIRY_INTERVAL: SESSION_S},
                )
                if reason == ReasonCode.SUCCESS:
                    return peer
                peer.close()
        await asyncio.sleep(AGAIN_S)
        return None

    async def _publish(self) -> None:
        while not self._is_over.is_set():
            if not self._is_subscribed:
                await self._subscribe()
            elif (peer := await self._peer("account-out", clean=True)) is not None:
                with contextlib.suppress(OSError, TimeoutError):
                    await self._publish_to(peer)
                peer.close()

    async def _subscribe(self) -> None:
        peer = await self._peer("account-in", clean=False)
        if peer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                peer.send(Subscribe(1, [SubscriptionRequest(TOPIC, 1)], {}))
                self._is_subscribed = await peer.next() is not None
            peer.close()

    async def _publish_to(self, peer: Peer) -> None:
        self.begun_at.append(self.acknowledged)
        while not self._is_over.is_set():
            number = str(self.acknowledged).encode()
            peer.send(Publish(TOPIC, number, 1, False, False, 7, {}))
            answer = await peer.next()
            if not isinstance(answer, PubAck) or answer.reason >= 0x80:
                return
            self.acknowledged += 1
            await asyncio.sleep(PAUSE_S)

    async def _take(self, missing: set[int]) -> None:
        """Receive until none is missing, or nothing comes any more."""
        last_s = time.monotonic()
        while missing and time.monotonic() - last_s < STILL_S:
            peer = await self._peer("account-in", clean=False)
            if peer is None:
                continue
            with contextlib.suppress(OSError, TimeoutError):
                while missing:
                    async with asyncio.timeout(STILL_S):
                        packet = await peer.next()
                    if packet is None:
                        break
                    if isinstance(packet, Publish):
                        last_s = time.monotonic()
                        missing.discard(int(packet.payload))
                        peer.send(PubAck(packet.packet_id or 0, ReasonCode.SUCCESS, {}))
            peer.close()
