"""A client of raw bytes, and the broker as a test sees it.

Sockets block, with a limit on every wait, so a test reads as what is sent and what must come back.
That nothing came is never decided by waiting: a marker message that does come shows it.
"""

from __future__ import annotations

import itertools
import socket
import uuid
from collections import deque
from typing import Any

from raw_packets import V5, Filter, Kind, Packets, Property, Props, Received, Text, parse

TIMEOUT_S = 30.0
"""The longest time that an answer may take; a test that passes never waits for so long."""

FOR_EVER = (Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)
"""A session of 5.0 that does not end by itself."""

Address = tuple[str, int]


class ConnectionEndedError(AssertionError):
    """The broker closed the connection where a packet was expected."""


class Client:
    """One network connection.

    Args:
        address: the broker's.
        packets: builds packets of the protocol level that is spoken.
        refuses_silently: whether a CONNECT may be refused without a CONNACK, as 5.0 allows
            (section 4.13.1); this project's gateway always says why.

    """

    def __init__(
        self, address: Address, packets: Packets, *, refuses_silently: bool = False
    ) -> None:
        self.packets = packets
        self.refuses_silently = refuses_silently
        self.socket = socket.create_connection(address, TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connack: Received | None = None
        self._input = b""
        self._kept: deque[Received] = deque()
        self._packet_ids = itertools.cycle(range(1, 65536))

    # -- bytes -----------------------------------------------------------------------------------

    def send(self, *data: bytes) -> None:
        """Send, in one write."""
        try:
            self.socket.sendall(b"".join(data))
        except OSError as error:
            raise ConnectionEndedError(f"the connection is closed: {error}") from error

    def close(self) -> None:
        """Close without DISCONNECT."""
        self.socket.close()

    def receive(self) -> Received:
        """The next packet.

        Raises:
            ConnectionEndedError: the broker closed the connection.
            AssertionError: nothing came in time.

        """
        if self._kept:
            return self._kept.popleft()
        first_byte = self._take(1)[0]
        length = shift = 0
        while True:
            digit = self._take(1)[0]
            length |= (digit & 0x7F) << shift
            if digit < 0x80:
                break
            shift += 7
            assert shift < 28, "the broker's remaining length is longer than four bytes"
        return parse(first_byte, self._take(length), self.packets.level)

    def _take(self, size: int) -> bytes:
        while len(self._input) < size:
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                raise AssertionError(f"nothing came within {TIMEOUT_S} s") from None
            except OSError as error:
                raise ConnectionEndedError(str(error)) from error
            if not data:
                raise ConnectionEndedError("the broker closed the connection")
            self._input += data
        taken, self._input = self._input[:size], self._input[size:]
        return taken

    # -- what must come --------------------------------------------------------------------------

    def expect(self, kind: Kind, packet_id: int | None = None) -> Received:
        """The next packet, which must be of this kind and for this packet identifier."""
        received = self.receive()
        assert received.kind is kind, f"expected {kind.name}, got {received}"
        if packet_id is not None:
            assert received.packet_id == packet_id, f"expected {packet_id}, got {received}"
        return received

    def expect_publish(
        self, topic: str | None = None, payload: bytes | None = None, qos: int | None = None
    ) -> Received:
        """The next packet, which must be this message; it is not acknowledged."""
        received = self.expect(Kind.PUBLISH)
        assert topic is None or received.topic == topic, received
        assert payload is None or received.payload == payload, received
        assert qos is None or received.qos == qos, received
        return received

    def expect_close(self, *reasons: int) -> None:
        """The broker must close.

        In 5.0 it must say why first: a DISCONNECT with one of the reasons (section 4.13.1). In
        3.1.1 a server has no packet for that.

        Args:
            reasons: those that the standard gives for it; none in 3.1.1.

        """
        if self.packets.level != V5:
            self.expect_end()
            return
        assert reasons, "a test of 5.0 names the reasons"
        received = self.expect(Kind.DISCONNECT)
        assert received.reason in reasons, f"expected {_hex(reasons)}, got {received}"
        self.expect_end()

    def expect_end(self) -> None:
        """The broker must close without another packet."""
        try:
            received = self.receive()
        except ConnectionEndedError:
            return
        raise AssertionError(f"expected the end, got {received}")

    def expect_refusal(self, *reasons: int) -> None:
        """The CONNECT must fail: a CONNACK with one of the reasons, then the end."""
        try:
            received = self.expect(Kind.CONNACK)
        except ConnectionEndedError:
            assert self.refuses_silently, "closed without CONNACK"
            return
        assert received.reason in reasons, f"expected {_hex(reasons)}, got {received}"
        assert not received.session_present, "[MQTT-3.2.2-4, 5.0: -6] a refusal has no session"
        self.expect_end()

    def expect_not_taken(self, *reasons: int) -> None:
        """The CONNECT breaks a rule: 3.1.1 closes without CONNACK, 5.0 says why first.

        Args:
            reasons: those that 5.0 gives for it.

        """
        if self.packets.level == V5:
            self.expect_refusal(*reasons)
        else:
            self.expect_end()

    def until(self, payload: bytes) -> list[Received]:
        """The messages that come before the one with this payload; all are acknowledged."""
        before: list[Received] = []
        while (message := self.expect(Kind.PUBLISH)).payload != payload:
            self.acknowledge(message)
            before.append(message)
        self.acknowledge(message)
        return before

    def ping(self) -> None:
        """PINGREQ and PINGRESP, which shows that all before it was read."""
        self.send(self.packets.pingreq())
        self._await(Kind.PINGRESP)

    def _await(self, kind: Kind, packet_id: int | None = None) -> Received:
        """Like `expect`, but messages that come before are kept for later."""
        kept: list[Received] = []
        while (received := self.receive()).kind is Kind.PUBLISH:
            kept.append(received)
        assert received.kind is kind, f"expected {kind.name}, got {received}"
        assert packet_id in {None, received.packet_id}, f"expected {packet_id}, got {received}"
        self._kept.extend(kept)
        return received

    # -- whole exchanges -------------------------------------------------------------------------

    def connect(self, client_id: Text, **options: Any) -> Received:
        """CONNECT, which must be accepted."""
        self.send(self.packets.connect(client_id, **options))
        self.connack = self.expect(Kind.CONNACK)
        assert self.connack.reason == 0, self.connack
        return self.connack

    def subscribe(self, *filters: Filter, props: Props = ()) -> Received:
        """SUBSCRIBE and its SUBACK."""
        packet_id = next(self._packet_ids)
        self.send(self.packets.subscribe(packet_id, *filters, props=props))
        return self._await(Kind.SUBACK, packet_id)

    def unsubscribe(self, *filters: Text) -> Received:
        """UNSUBSCRIBE and its UNSUBACK."""
        packet_id = next(self._packet_ids)
        self.send(self.packets.unsubscribe(packet_id, *filters))
        return self._await(Kind.UNSUBACK, packet_id)

    def publish(
        self,
        topic: Text,
        payload: bytes = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        props: Props = (),
    ) -> Received | None:
        """PUBLISH and all that follows it; returns the PUBACK or PUBREC."""
        packet_id = next(self._packet_ids) if qos else None
        self.send(
            self.packets.publish(
                topic, payload, qos=qos, packet_id=packet_id, retain=retain, props=props
            )
        )
        if packet_id is None:
            return None
        answer = self._await(Kind.PUBACK if qos == 1 else Kind.PUBREC, packet_id)
        if qos == 2 and answer.reason < 0x80:
            self.send(self.packets.acknowledge(Kind.PUBREL, packet_id))
            self._await(Kind.PUBCOMP, packet_id)
        return answer

    def acknowledge(self, message: Received) -> None:
        """Answer a PUBLISH by its QoS, to the end of the exchange."""
        if message.qos == 1:
            self.send(self.packets.acknowledge(Kind.PUBACK, message.packet_id))
        elif message.qos == 2:
            self.send(self.packets.acknowledge(Kind.PUBREC, message.packet_id))
            self._await(Kind.PUBREL, message.packet_id)
            self.send(self.packets.acknowledge(Kind.PUBCOMP, message.packet_id))

    def disconnect(self, reason: int = 0, props: Props = ()) -> None:
        """DISCONNECT, and wait until the broker has closed too."""
        self.send(self.packets.disconnect(reason, props))
        self.expect_end()


class Broker:
    """The broker under test, seen by one test: fresh names and the clients it opened.

    Args:
        address: where it listens.
        level: the protocol level that the test speaks.
        refuses_silently: as for a `Client`.

    """

    def __init__(self, address: Address, level: int, *, refuses_silently: bool = False) -> None:
        self.address = address
        self._refuses_silently = refuses_silently
        self.packets = Packets(level)
        self._unique = uuid.uuid4().hex[:12]
        self._count = itertools.count()
        self._clients: list[Client] = []

    def topic(self, below: str = "t") -> str:
        """A topic, or filter, that no other test uses."""
        return f"{self._unique}/{below}"

    def client_id(self) -> str:
        """A client identifier that nobody else uses, of the letters that all brokers take."""
        return f"{self._unique}{next(self._count)}"

    def dial(self) -> Client:
        """A connection that has sent nothing."""
        client = Client(self.address, self.packets, refuses_silently=self._refuses_silently)
        self._clients.append(client)
        return client

    def connect(
        self, client_id: Text | None = None, *, lasting: bool = False, **options: Any
    ) -> Client:
        """A client that is connected; if it is lasting, its session outlives the connection.

        A lasting one of 3.1.1 takes up a session that is there, one of 5.0 only if it is not clean.
        """
        client = self.dial()
        if lasting and self.packets.level == V5:
            options["props"] = [*options.get("props", ()), FOR_EVER]
        elif lasting:
            options["clean"] = False
        client.connect(self.client_id() if client_id is None else client_id, **options)
        return client

    def subscriber(self, *filters: Filter, **options: Any) -> Client:
        """A connected client with granted subscriptions."""
        client = self.connect(**options)
        answer = client.subscribe(*filters)
        assert max(answer.reasons) < 0x80, answer
        return client

    def close(self) -> None:
        """Close all that the test opened."""
        for client in self._clients:
            client.close()


def _hex(reasons: tuple[int, ...]) -> str:
    return " or ".join(f"0x{reason:02x}" for reason in reasons)
