"""Attackers that make a gateway work with few bytes: each class is one attack, for `attacking`."""

from __future__ import annotations

import contextlib
import socket
import time

from attacking import Attacker
from coap_messages import CONFIRMABLE, URI_QUERY, message, path
from mqtt_attackers import GREEDY, GREEDY_PASSWORD, Address
from raw_client import Client, ConnectionEndedError
from raw_packets import V5, Kind, Packets

from benchmarks.fleet_devices import Asker
from coap_engine.blocks import Block
from coap_engine.option_numbers import BLOCK1, OBSERVE
from dtls.context import ClientContext

EMPTY = (0x26, ("", ""))
MANY = [EMPTY] * 25_000
PACKETS = Packets(V5)
ANYBODY = PACKETS.connect("anybody", props=MANY)
PUBLISH = PACKETS.publish("greedy/t", b"", props=MANY)
SUBSCRIBE = PACKETS.subscribe(1, ("greedy/t", 0), props=MANY)
FETCH, ETCH_CBOR = 5, b"\x01\x42"
POST, CONTENT_FORMAT, LINK_FORMAT = 2, 12, 40
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


class Paced(Attacker):
    """Does something so often in a second. Args: the address, and how often."""

    def __init__(self, address: Address, per_s: float) -> None:
        super().__init__()
        self.address = address
        self._pause_s = 1 / per_s
        self._due_s = time.monotonic()

    def step(self) -> bool:
        self._due_s = max(self._due_s + self._pause_s, time.monotonic() - 1)
        time.sleep(max(0.0, self._due_s - time.monotonic()))
        self.once()
        return True

    def once(self) -> None:
        """Do it."""
        raise NotImplementedError

    def greedy(self) -> Client:
        """A client that has been let in."""
        client = Client(self.address, Packets(V5))
        client.connect("greedy", username=GREEDY, password=GREEDY_PASSWORD)
        return client


class StrangersProperties(Paced):
    """CONNECTs with 25,000 empty user properties, which say nothing of who sends them."""

    def once(self) -> None:
        client = Client(self.address, Packets(V5))
        client.send(ANYBODY)
        self.seen[f"answered {client.expect(Kind.CONNACK).reason:#x}"] += 1
        client.close()


class ClientsProperties(Paced):
    """PUBLISHes and SUBSCRIBEs with as many, each of which ends the connection."""

    def once(self) -> None:
        client = self.greedy()
        client.send(PUBLISH if self.seen["ended"] % 2 else SUBSCRIBE)
        try:
            while client.receive().kind != Kind.DISCONNECT:
                pass
        except ConnectionEndedError:
            pass
        self.seen["ended"] += 1
        client.close()


class FilterSender(Paced):
    """SUBSCRIBEs and UNSUBSCRIBEs of as many filters and levels as a packet may have."""

    def __init__(self, address: Address, per_s: float) -> None:
        super().__init__(address, per_s)
        self._client = self.greedy()
        deep = [f"greedy/{number}" + "/" * 12 for number in range(1_000)]
        packets = self._client.packets
        self._both = (
            packets.subscribe(1, *((one, 0) for one in deep)),
            packets.unsubscribe(2, *deep),
        )

    def once(self) -> None:
        for packet, answer in zip(self._both, (Kind.SUBACK, Kind.UNSUBACK), strict=True):
            self._client.send(packet)
            self._client.expect(answer)
        self.seen["both"] += 1


class EmptyFrames(Attacker):
    """A websocket whose frames are pings without a byte, as fast as they are taken.

    Args:
        address: of the listener.
        user: with which password; None for nobody, who is cut off and comes again.

    """

    def __init__(self, address: Address, user: tuple[str, bytes] | None = None) -> None:
        super().__init__()
        self._address = address
        self._user = user
        self._begin()

    def _begin(self) -> None:
        self._socket = socket.create_connection(self._address, 5)
        self._socket.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert b" 101 " in self._socket.recv(1_024)
        if self._user is not None:
            connect = Packets(V5).connect("greedy", username=self._user[0], password=self._user[1])
            self._socket.sendall(b"\x82%c\0\0\0\0" % (0x80 | len(connect)) + connect)
            assert self._socket.recv(1_024)
        self.seen["opened"] += 1

    def step(self) -> bool:
        try:
            self._socket.sendall(b"\x89\x80\0\0\0\0" * 1_000)
            self.seen["frames"] += 1_000
            if not self._socket.recv(1 << 16):
                self._begin()
        except OSError:  # cut off
            self._begin()
        return True


class HalfRequests(Paced):
    """Requests for a page that never end, each in a connection of its own."""

    def __init__(self, address: Address, per_s: float) -> None:
        super().__init__(address, per_s)
        self._open: list[socket.socket] = []

    def once(self) -> None:
        one = socket.create_connection(self.address, 5)
        one.sendall(HEAD)
        self._open.append(one)
        if len(self._open) > 400:
            self._open.pop(0).close()
        self.seen["opened"] += 1


class Sockets(Paced):
    """More connections than a dashboard has room for, from many addresses, that say what is given
    and nothing more; the oldest go.

    Args:
        address: of the dashboard.
        per_s: so many are opened in a second.
        said: of a request.

    """

    MANY = 520

    def __init__(self, address: Address, per_s: float, said: bytes = b"") -> None:
        super().__init__(address, per_s)
        self._said = said
        self._open: list[socket.socket] = []

    def once(self) -> None:
        host = f"127.4.0.{1 + self.seen['opened'] % 250}"
        with contextlib.suppress(OSError):  # closed at once for want of room
            one = socket.create_connection(self.address, 5, source_address=(host, 0))
            one.sendall(self._said)
            self._open.append(one)
        self.seen["opened"] += 1
        if len(self._open) > self.MANY:
            self._open.pop(0).close()


class Registrations(Paced):
    """One device registers one endpoint after the other, each with all links that fit a datagram.

    Args:
        port: of CoAP over DTLS.
        per_s: so many in a second.
        identity: of the device.
        key: its key.

    """

    LINKS = b",".join(b"</%x>;rt=t" % number for number in range(70))

    def __init__(self, port: int, per_s: float, identity: str, key: bytes) -> None:
        super().__init__(("127.0.0.1", port), per_s)
        self._asker = Asker(port, ClientContext(identity, key))
        self._asker.shake_hands()

    def once(self) -> None:
        endpoint = f"ep=d{self.seen['asked']}".encode()
        where = [*path("rd"), (CONTENT_FORMAT, bytes((LINK_FORMAT,))), (URI_QUERY, endpoint)]
        answer = self._asker.ask(POST, where, self.LINKS)
        self.seen["asked"] += 1
        self.seen[f"answered {answer.code:#x}"] += 1


class ObservedRegistrations(Paced):
    """One device observes as many look-ups as it may, by prefixes that most links have and one that
    none has, and replaces a registration of 1,000 links meanwhile.

    Args:
        port: of CoAP over DTLS.
        per_s: so many in a second.
        identity: of the device.
        key: its key.

    """

    OBSERVED = 1_000
    BLOCK = 1_024

    def __init__(self, port: int, per_s: float, identity: str, key: bytes) -> None:
        super().__init__(("127.0.0.1", port), per_s)
        self._asker = Asker(port, ClientContext(identity, key))
        self._asker.shake_hands()
        for number in range(self.OBSERVED):
            sought = (b"rt=t*", b"rt=te*", b"if=core*", b"rt=z%d*" % number)
            options = [(OBSERVE, b""), *path("rd-lookup/res")]
            answer = self._asker.ask(1, [*options, *((URI_QUERY, one) for one in sought)])
            self.seen["observed"] += any(option == OBSERVE for option, _ in answer.options)

    def once(self) -> None:
        number = self.seen["asked"]
        links = b",".join(b'</%d/%d>;rt=temp;if="core.s"' % (number, one) for one in range(1_000))
        where = [*path("rd"), (CONTENT_FORMAT, bytes((LINK_FORMAT,))), (URI_QUERY, b"ep=observed")]
        last = (len(links) - 1) // self.BLOCK
        for block in range(last + 1):
            part = links[block * self.BLOCK : (block + 1) * self.BLOCK]
            option = (BLOCK1, Block(block, block < last, 6).encode())
            answer = self._asker.ask(POST, [*where, option], part)
        self.seen["asked"] += 1
        self.seen[f"answered {answer.code:#x}"] += 1


class StrangersRegistrations(Paced):
    """The same of a stranger over plain CoAP, who may not."""

    def __init__(self, address: Address, per_s: float) -> None:
        super().__init__(address, per_s)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.3.0.2", 0))
        self._socket.connect(address)
        self._socket.settimeout(5.0)

    def once(self) -> None:
        number = self.seen["asked"] & 0xFFFF
        where = [*path("rd"), (CONTENT_FORMAT, bytes((LINK_FORMAT,))), (URI_QUERY, b"ep=d")]
        asked = message(CONFIRMABLE, POST, number, b"", *where)
        self._socket.send(asked + b"\xff" + Registrations.LINKS)
        self.seen["asked"] += 1
        self.seen[f"answered {self._socket.recv(2_048)[1]:#x}"] += 1


class SharedValues(Paced):
    """FETCHes of a stranger with a few bytes of CBOR that would be 2^60 lists."""

    def __init__(self, address: Address, per_s: float, data: bytes) -> None:
        super().__init__(address, per_s)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.3.0.1", 0))
        self._socket.connect(address)
        self._socket.settimeout(5.0)
        self._data = data

    def once(self) -> None:
        number = self.seen["asked"] & 0xFFFF
        options = [*path("sensors"), (12, ETCH_CBOR)]
        asked = message(CONFIRMABLE, FETCH, number, b"", *options)
        self._socket.send(asked + b"\xff" + self._data)
        self.seen["asked"] += 1
        self.seen[f"answered {self._socket.recv(2_048)[1]:#x}"] += 1
