"""A client whose own protocol state outlives its connections, as the standard asks of one.

It is written so that exactly-once can be judged from outside: packet identifiers in use, what is
to be sent again (PUBLISH with DUP, PUBREL) and the QoS 2 identifiers that came and are not released
are kept over reconnects [MQTT-4.1.0-1], [MQTT-4.4.0-1]. A QoS 2 message counts as received once for
each released identifier: with method A at its PUBREL, with method B at its first PUBLISH (MQTT 5.0,
section 4.3.3). Its codec is the conformance tests', which shares nothing with the broker's.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ledger import Ledger, Message, Subscription
from raw_packets import V5, Kind, Packets, Property, Received, parse

RETRY_S = 0.02
"""Between attempts to reach a broker that is down."""
ANSWER_S = 30.0
"""An answer of a broker that runs comes by then, however busy the machine is."""
REQUEST_S = 180.0
"""So does one to what is asked again after each start of a broker."""
NEVER_S = 3600
"""Session expiry of a session that a test means to keep."""


@dataclass
class Outgoing:
    """A message that the broker has not acknowledged to the end."""

    message: Message
    released: bool = False


@dataclass
class Request:
    """A SUBSCRIBE or UNSUBSCRIBE, until it is answered; it is sent again after a reconnect."""

    topic_filter: str
    qos: int | None
    done: asyncio.Future[int]


class DurableClient(asyncio.Protocol):
    """One client identifier.

    Args:
        client_id: its identifier.
        level: of the protocol.
        ledger: is told what is acknowledged, received and granted.
        method: of receiving QoS 2, "A" or "B".
        window: messages on their way to the broker at most.
        watch: called with each packet from the broker before it is answered.

    """

    def __init__(
        self,
        client_id: str,
        level: int,
        ledger: Ledger,
        *,
        method: str = "A",
        window: int = 20,
        watch: Callable[[Kind], None] = lambda _: None,
    ) -> None:
        self.client_id = client_id
        self.packets = Packets(level)
        self.method = method
        self.connack: Received | None = None
        self.is_session_expected: bool | None = False
        """None where either is right: CONNECT was sent and its answer never came."""
        self._ledger = ledger
        self._window_max = self._window = window
        self._watch = watch
        # What outlives connections.
        self._outgoing: dict[int, Outgoing] = {}
        self._waiting: deque[Message] = deque()
        self._incoming: dict[int, Received] = {}
        self._requests: dict[int, Request] = {}
        self._packet_ids = itertools.cycle(range(1, 65536))
        # What does not.
        self._transport: asyncio.Transport | None = None
        self._input = bytearray()
        self._accepted: asyncio.Future[Received] | None = None
        self._lost = asyncio.Event()
        self._pongs: deque[asyncio.Future[None]] = deque()
        self._keeping: asyncio.Task[None] | None = None
        self._after_connack: tuple[bool | None, bool] = (None, True)

    @property
    def is_connected(self) -> bool:
        """Return whether the broker has accepted a connection that is still there."""
        return self._transport is not None and self.connack is not None

    @property
    def is_kept(self) -> bool:
        """Return whether it connects again by itself."""
        return self._keeping is not None

    @property
    def unsettled(self) -> int:
        """Messages whose exchange with the broker is not complete."""
        return len(self._outgoing) + len(self._waiting)

    # -- connections -----------------------------------------------------------------------------

    async def open(self, port: int, *, clean: bool = False, expiry_s: int = NEVER_S) -> Received:
        """Connect; what is owed is sent again.

        Raises:
            OSError: the broker is not there, or went before it had answered.

        """
        loop = asyncio.get_running_loop()
        self._input.clear()
        self._lost = asyncio.Event()
        self.connack = None
        self._accepted = loop.create_future()
        await loop.create_connection(lambda: self, "127.0.0.1", port)
        is_v5 = self.packets.level == V5
        keeps = expiry_s > 0 if is_v5 else not clean
        before = self.is_session_expected
        self._after_connack = (False if clean else before, keeps)
        # Until CONNACK comes, an old session may be there or have ended, and a new one begun.
        self.is_session_expected = before if before is keeps else None
        props = [(Property.SESSION_EXPIRY_INTERVAL, expiry_s)] if is_v5 and expiry_s else []
        self._send(self.packets.connect(self.client_id, clean=clean, keep_alive_s=0, props=props))
        async with asyncio.timeout(ANSWER_S):
            return await self._accepted

    def keep(self, port: int) -> None:
        """Stay connected from now on, over all that happens to the broker."""
        self._keeping = asyncio.create_task(self._keep(port), name=self.client_id)

    async def _keep(self, port: int) -> None:
        while True:
            if self._transport is not None and not self.is_connected:
                self.cut()
                await self._lost.wait()
            try:
                if not self.is_connected:
                    await self.open(port)
                await self._lost.wait()
            except OSError:
                await asyncio.sleep(RETRY_S)

    async def leave(self, *, expiry_s: int | None = None) -> None:
        """DISCONNECT, and wait until the broker has closed; the session's end is its expiry's.

        Raises:
            TimeoutError: the broker does not close.

        """
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        if self._transport is None:
            return
        if expiry_s is None:
            self._send(self.packets.disconnect())
        else:
            props = [(Property.SESSION_EXPIRY_INTERVAL, expiry_s)]
            self._send(self.packets.disconnect(props=props))
            self.is_session_expected = expiry_s > 0
        async with asyncio.timeout(ANSWER_S):
            await self._lost.wait()

    def cut(self) -> None:
        """Close the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    def stop(self) -> None:
        """Let go of everything."""
        if self._keeping is not None:
            self._keeping.cancel()
        self.cut()

    def _receive_connack(self, connack: Received) -> None:
        """Go on where the last connection ended, before anything else is sent."""
        assert self._accepted is not None
        assert connack.reason == 0, connack
        expected, keeps = self._after_connack
        if expected is not None and connack.session_present is not expected:
            self._ledger.wrong_sessions.append(
                f"{self.client_id}: session present is {connack.session_present}"
            )
        self.is_session_expected = keeps
        self.connack = connack
        server_maximum = connack.value(Property.RECEIVE_MAXIMUM, 65535)
        self._window = min(self._window_max, server_maximum)
        if not connack.session_present:
            # The broker knows nothing of it: what was not acknowledged is published anew.
            for out in reversed(self._outgoing.values()):
                if not out.released:
                    self._waiting.appendleft(out.message)
            self._outgoing.clear()
            self._incoming.clear()
        for packet_id, out in self._outgoing.items():
            if out.released:
                self._send(self.packets.acknowledge(Kind.PUBREL, packet_id))
            else:
                self._send(self._publish(packet_id, out.message, dup=True))
        for packet_id, request in self._requests.items():
            self._send(self._request(packet_id, request))
        if not self._accepted.done():
            self._accepted.set_result(connack)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        error = ConnectionError("the broker has gone")
        if self._accepted is not None and not self._accepted.done():
            self._accepted.set_exception(error)
        for pong in self._pongs:
            if not pong.done():
                pong.set_exception(error)
        self._pongs.clear()
        self._lost.set()
        self._ledger.changed.set()

    # -- what it does ----------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> Message:
        """Publish as soon as there is a connection and room in the window."""
        message = self._ledger.publish(self.client_id, topic, payload, qos, retain=retain)
        if qos:
            self._waiting.append(message)
            self._pump()
        else:
            self._ledger.sent(message)
            self._send(self.packets.publish(topic, message.payload, retain=retain))
        return message

    async def subscribe(self, topic_filter: str, qos: int) -> Subscription:
        """SUBSCRIBE, over reconnects if need be."""
        subscription = self._ledger.subscribing(self.client_id, topic_filter, qos)
        reason = await self._ask(topic_filter, qos)
        assert reason < 0x80, reason
        self._ledger.subscribed(subscription)
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """UNSUBSCRIBE, over reconnects if need be."""
        self._ledger.unsubscribing(subscription)
        await self._ask(subscription.topic_filter, None)
        self._ledger.unsubscribed(subscription)

    async def ping(self) -> None:
        """PINGREQ and its answer: what the broker sent before has come.

        Raises:
            ConnectionError: the broker went.
            TimeoutError: it does not answer.

        """
        if self._transport is None:
            raise ConnectionError("not connected")
        pong: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        self._send(self.packets.pingreq())
        async with asyncio.timeout(ANSWER_S):
            await pong

    async def _ask(self, topic_filter: str, qos: int | None) -> int:
        packet_id = self._free_id()
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        request = self._requests[packet_id] = Request(topic_filter, qos, done)
        if self.is_connected:
            self._send(self._request(packet_id, request))
        async with asyncio.timeout(REQUEST_S):
            return await done

    def _request(self, packet_id: int, request: Request) -> bytes:
        if request.qos is None:
            return self.packets.unsubscribe(packet_id, request.topic_filter)
        return self.packets.subscribe(packet_id, (request.topic_filter, request.qos))

    def _pump(self) -> None:
        while self._waiting and self.is_connected and len(self._outgoing) < self._window:
            message = self._waiting.popleft()
            packet_id = self._free_id()
            self._outgoing[packet_id] = Outgoing(message)
            self._ledger.sent(message)
            self._send(self._publish(packet_id, message, dup=False))

    def _publish(self, packet_id: int, message: Message, *, dup: bool) -> bytes:
        return self.packets.publish(
            message.topic,
            message.payload,
            qos=message.qos,
            packet_id=packet_id,
            retain=message.retain,
            dup=dup,
        )

    def _free_id(self) -> int:
        return next(
            i for i in self._packet_ids if i not in self._outgoing and i not in self._requests
        )

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # -- what comes ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._input += data
        while (received := self._next()) is not None:
            self._watch(received.kind)
            self._receive(received)
        self._pump()
        self._ledger.changed.set()

    def _next(self) -> Received | None:
        length, shift, at = 0, 0, 1
        while True:
            if at >= len(self._input):
                return None
            digit = self._input[at]
            at += 1
            length |= (digit & 0x7F) << shift
            if digit < 0x80:
                break
            shift += 7
        if len(self._input) < at + length:
            return None
        received = parse(self._input[0], bytes(self._input[at : at + length]), self.packets.level)
        del self._input[: at + length]
        return received

    def _receive(self, received: Received) -> None:
        packet_id = received.packet_id
        match received.kind:
            case Kind.CONNACK:
                self._receive_connack(received)
            case Kind.PUBLISH:
                self._receive_publish(received)
            case Kind.PUBREL:
                message = self._incoming.pop(packet_id, None)
                if message is not None and self.method == "A":
                    self._ledger.received(self.client_id, message)
                unknown = message is None and self.packets.level == V5
                self._send(
                    self.packets.acknowledge(Kind.PUBCOMP, packet_id, 0x92 if unknown else 0)
                )
            case Kind.PUBACK:
                out = self._outgoing.pop(packet_id, None)
                if out is not None:
                    self._answered(out, received.reason)
                    self._completed(out)
            case Kind.PUBREC:
                self._receive_pubrec(packet_id, received.reason)
            case Kind.PUBCOMP:
                out = self._outgoing.pop(packet_id, None)
                if out is not None:
                    self._completed(out)
            case Kind.SUBACK | Kind.UNSUBACK:
                request = self._requests.pop(packet_id, None)
                if request is not None and not request.done.done():
                    request.done.set_result(received.reasons[0] if received.reasons else 0)
            case Kind.PINGRESP:
                self._pongs.popleft().set_result(None)

    def _receive_publish(self, received: Received) -> None:
        if received.qos < 2:
            self._ledger.received(self.client_id, received)
            if received.qos:
                self._send(self.packets.acknowledge(Kind.PUBACK, received.packet_id))
            return
        known = self._incoming.get(received.packet_id)
        if known is None:
            self._incoming[received.packet_id] = received
            if self.method == "B":
                self._ledger.received(self.client_id, received)
        elif (known.topic, known.payload) != (received.topic, received.payload):
            self._ledger.reused_identifiers.append(
                f"{self.client_id}: {received.packet_id} stood for {known.payload!r} and, before "
                f"its PUBREL, for {received.payload!r}"
            )
        self._send(self.packets.acknowledge(Kind.PUBREC, received.packet_id))

    def _receive_pubrec(self, packet_id: int, reason: int) -> None:
        out = self._outgoing.get(packet_id)
        if out is not None and not out.released:
            self._answered(out, reason)
            if reason >= 0x80:
                del self._outgoing[packet_id]
                return
            out.released = True
        elif reason >= 0x80:
            return
        unknown = out is None and self.packets.level == V5
        self._send(self.packets.acknowledge(Kind.PUBREL, packet_id, 0x92 if unknown else 0))

    def _completed(self, out: Outgoing) -> None:
        if out.message.acknowledged_at is not None:
            self._ledger.completed(out.message)

    def _answered(self, out: Outgoing, reason: int) -> None:
        if reason >= 0x80:
            self._ledger.refused(out.message, reason)
        else:
            self._ledger.acknowledged(out.message)


def settled(*clients: DurableClient) -> bool:
    """Return whether the broker owes none of these publishers an acknowledgement."""
    return not any(client.unsettled for client in clients)
