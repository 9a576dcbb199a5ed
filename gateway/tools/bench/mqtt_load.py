"""Messages of QoS 1 from one client to another: as many as go, or so many a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

from gateway.mqtt import (
    ConnAck,
    Connect,
    Packet,
    PacketError,
    PacketType,
    PubAck,
    Publish,
    Scanner,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Version,
    body_at,
    decode,
    encode,
)
from gateway.tools.bench.errors import BenchError

TOPIC: Final = "bench"
WINDOW: Final = 32
"""Messages without an acknowledgement at one time."""
PAYLOAD: Final = bytes(64)
ANSWER_S: Final = 20.0
"""An answer that takes longer counts as none."""
IDS: Final = 60_000
_PACKETS: Final = 256
_ENDED: Final = "the broker that is measured has ended the connection, or speaks no MQTT"
_ID_AT: Final = 2 + 2 + len(TOPIC)
"""Behind a fixed header of two bytes, and the topic with its length (MQTT 5.0, section 3.3.2)."""


class _Client(asyncio.Protocol):
    """A connection, whose first answers are asked for one by one, and whose others are counted.

    Args:
        answer_s: an answer that takes longer counts as none.

    Attributes:
        messages: PUBLISHes that came.
        acknowledged: ids of PUBACKs that came, taken away by who reads them.

    """

    def __init__(self, answer_s: float) -> None:
        self.messages = 0
        self._answer_s = answer_s
        self.acknowledged: list[int] = []
        self._loop = asyncio.get_running_loop()
        self._scanner = Scanner(1 << 20)
        self._transport: asyncio.Transport | None = None
        self._answers: asyncio.Queue[Packet | None] = asyncio.Queue()
        """None is the end of the connection."""
        self._came = asyncio.Event()
        self._is_closed = False

    # -- as asyncio's protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the connection."""
        # uvloop's is none by its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take packets."""
        self._scanner.feed(data)
        try:
            while packets := self._scanner.take(_PACKETS):
                for packet in packets:
                    self._take(packet)
        except PacketError:  # it is asked no more, and told as one that has gone
            self.close()
        self._came.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell waiting tasks that the broker has closed the connection."""
        self._is_closed = True
        self._answers.put_nowait(None)
        self._came.set()

    def _take(self, packet: bytes) -> None:
        kind = packet[0] >> 4
        if kind == PacketType.PUBACK:
            at = body_at(packet)
            self.acknowledged.append(int.from_bytes(packet[at : at + 2], "big"))
            return
        read = decode(packet[0], packet[body_at(packet) :], Version.V5)
        if isinstance(read, Publish):
            self.messages += 1
            self.send(encode(PubAck(read.packet_id or 0), Version.V5))
        else:
            self._answers.put_nowait(read)

    # -- what is asked of it ---------------------------------------------------------------------

    def send(self, packets: bytes) -> None:
        """Send packets."""
        assert self._transport is not None
        self._transport.write(packets)

    async def ask(self, packet: Packet) -> Packet:
        """Send a packet, and return what is answered.

        Raises:
            BenchError: nothing is, or what is no MQTT.

        """
        self.send(encode(packet, Version.V5))
        try:
            async with asyncio.timeout(self._answer_s):
                answer = await self._answers.get()
        except TimeoutError as error:
            raise BenchError(
                f"no answer to {type(packet).__name__} in {self._answer_s:g} s"
            ) from error
        if answer is None:
            raise BenchError(_ENDED)
        return answer

    async def more(self, until_s: float) -> None:
        """Return when anything came, or at a time of the loop's.

        Raises:
            BenchError: the connection has ended.

        """
        self._came.clear()
        try:
            async with asyncio.timeout_at(until_s):
                await self._came.wait()
        except TimeoutError:
            return
        if self._is_closed:
            raise BenchError(_ENDED)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()


@asynccontextmanager
async def connected(port: int, answer_s: float = ANSWER_S) -> AsyncIterator[MqttLoad]:
    """Connect two clients, of which one hears what the other publishes, for a while.

    Args:
        port: of a broker on this machine.
        answer_s: an answer that takes longer counts as none.

    Raises:
        BenchError: the broker does not let them in.

    """
    async with (
        _client(port, "bench-publisher", answer_s) as publisher,
        _client(port, "bench-subscriber", answer_s) as subscriber,
    ):
        asked = Subscribe(1, [SubscriptionRequest(TOPIC, 1)], {})
        if not isinstance(await subscriber.ask(asked), SubAck):
            raise BenchError("the broker that is measured takes no subscription")
        yield MqttLoad(publisher, subscriber, answer_s)


@asynccontextmanager
async def _client(port: int, client_id: str, answer_s: float) -> AsyncIterator[_Client]:
    loop = asyncio.get_running_loop()
    try:
        _, client = await loop.create_connection(lambda: _Client(answer_s), "127.0.0.1", port)
    except OSError as error:
        raise BenchError(f"the broker that is measured takes no client: {error}") from error
    connect = Connect(
        Version.V5,
        client_id,
        clean_start=True,
        keep_alive_s=0,
        username=None,
        password=None,
        will=None,
        properties={},
        bridge=False,
    )
    try:
        if not isinstance(await client.ask(connect), ConnAck):
            raise BenchError("the broker that is measured answers CONNECT with something else")
        yield client
    finally:
        client.close()


class MqttLoad:
    """Two clients, of which one hears what the other publishes.

    Args:
        publisher: the other.
        subscriber: the one.
        answer_s: an acknowledgement that takes longer counts as none.

    """

    def __init__(self, publisher: _Client, subscriber: _Client, answer_s: float) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._answer_s = answer_s
        self._number = 0

    async def most_per_s(self, seconds: float) -> float:
        """Publish as fast as it is acknowledged; return how many arrive in a second.

        Raises:
            BenchError: nothing is answered any more.

        """
        publisher, subscriber = self._publisher, self._subscriber
        loop = asyncio.get_running_loop()
        began_s, before = loop.time(), subscriber.messages
        open_now, answered_s = 0, began_s
        while (now_s := loop.time()) < began_s + seconds:
            came = len(publisher.acknowledged)
            publisher.acknowledged.clear()
            if came:
                answered_s = now_s
            elif now_s > answered_s + self._answer_s:
                raise self._unacknowledged()
            open_now -= came
            publisher.send(b"".join([self._next() for _ in range(WINDOW - open_now)]))
            open_now = WINDOW
            await publisher.more(now_s + min(1.0, self._answer_s))
        took_s = loop.time() - began_s
        arrived = subscriber.messages - before
        await self._settle(open_now)
        return arrived / took_s

    async def puback_times_s(self, seconds: float, per_s: float) -> list[float]:
        """Publish so many a second, and return how long each acknowledgement took.

        Raises:
            BenchError: there is none.

        """
        publisher = self._publisher
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        sent_s: dict[int, float] = {}
        took_s: list[float] = []
        published, all_of_them = 0, max(int(seconds * per_s), 1)
        while len(took_s) < all_of_them:
            now_s = loop.time()
            if published < all_of_them and now_s >= began_s + published / per_s:
                packet = self._next()
                sent_s[self._number] = now_s
                publisher.send(packet)
                published += 1
                continue
            due_s = now_s + self._answer_s
            if published < all_of_them:
                due_s = min(due_s, began_s + published / per_s)
            await publisher.more(due_s)
            came_s = loop.time()
            took_s += [came_s - sent_s.pop(number) for number in publisher.acknowledged]
            publisher.acknowledged.clear()
            if sent_s and came_s > next(iter(sent_s.values())) + self._answer_s:
                raise self._unacknowledged()
        return took_s

    async def _settle(self, open_now: int) -> None:
        publisher = self._publisher
        ends_s = asyncio.get_running_loop().time() + self._answer_s
        while len(publisher.acknowledged) < open_now:
            await publisher.more(ends_s)
            if asyncio.get_running_loop().time() >= ends_s:
                raise self._unacknowledged()
        publisher.acknowledged.clear()

    def _unacknowledged(self) -> BenchError:
        return BenchError(f"no acknowledgement in {self._answer_s:g} s")

    def _next(self) -> bytes:
        self._number = self._number % IDS + 1
        return _HEAD + self._number.to_bytes(2, "big") + _TAIL


_PACKET: Final = encode(Publish(TOPIC, PAYLOAD, 1, False, False, 1, {}), Version.V5)
_HEAD: Final = _PACKET[:_ID_AT]
_TAIL: Final = _PACKET[_ID_AT + 2 :]
