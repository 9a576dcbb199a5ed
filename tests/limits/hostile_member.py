"""A member of the fleet that means harm, in a process of its own, for `attacking`.

It is a client of its own and no gateway: it holds the tree's key, and says what it likes, how often
it likes. Each of its links is to the same victim, under an id of its own.
"""

from __future__ import annotations

import itertools
import secrets
import select
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

from attacking import Attacker

from gateway.node.links import handshake, wire
from gateway.node.links.handshake import Credentials, Dialler
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals
from tree_handler.members.absence import AbsenceNotice
from tree_handler.replication.repair import Request
from tree_handler.routing.locator import ReachUpdate
from tree_handler.spanning.bpdu import Bpdu, BpduFlags, Kind
from tree_handler.spanning.election import Root

KEY = bytes.fromhex("ab" * 32)
READ_BYTES = 1 << 18
WAIT_S = 30.0
BURST = 50
BEHIND = 5_000
"""Gateways that it says to reach."""
ADDRESS = "127.0.0.1"


class HostileLink:
    """One link to the victim.

    Args:
        address: where the victim takes links.
        name: the id under which it comes.
        kernel_bytes: what the kernel takes for it unread; 0 for as much as it likes.

    """

    def __init__(self, address: tuple[str, int], name: str, kernel_bytes: int = 0) -> None:
        self.name = name
        self._numbers = itertools.count(1)
        self._reader = wire.LinkReader(wire.MAX_PACKET_BYTES)
        self._received = 0
        self._told: Bpdu | None = None
        self._is_child = False
        self._socket = socket.socket()
        if kernel_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kernel_bytes)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialler = Dialler(Credentials(name, "hedgerow", KEY, epoch=1), secrets.token_bytes(16))
        self.send(dialler.connect.encode())
        assert self._next().body[1] == wire.ReturnCode.ACCEPTED
        self.victim, proof = dialler.receive(self._next().body)
        self.send(wire.publish(handshake.TOPIC, proof))
        assert self._next().body == b""

    def close(self) -> None:
        self._socket.close()

    def send(self, *packets: bytes) -> None:
        self._socket.sendall(b"".join(packets))

    def say(self, topic: bytes, payload: bytes) -> None:
        if len(payload) <= wire.PIECE_BYTES:
            self.send(wire.publish(topic, payload))
        else:
            pieces = wire.pieces(wire.PIECE_OF_CONTROL, topic, payload)
            self.send(*(head + piece for head, piece in pieces))

    def publish(self, first: int, *entries: Entry, control: bool = False) -> None:
        """A batch of its own, with numbers from one on."""
        flags = Flags.LOGGED | (Flags.CONTROL if control else Flags.NONE)
        rows = [entry.row() for entry in entries]
        now_us = time.time_ns() // 1_000
        made = batch.make(self.name, 1, first, rows, flags=flags, origin_time_us=now_us)
        self.say(b"$hedgerow/batch", made[0])

    def bpdu(self, kind: Kind = Kind.HELLO, cost_ms: int = 1_000) -> Bpdu:
        """Say of the tree what an honest child says."""
        assert self._told is not None
        told = self._told
        number, root = next(self._numbers), told.root
        flags = BpduFlags.TRANSIT
        said = Bpdu(kind, number, self.name, 1, 1.0, root, told.sequence, cost_ms, 1, flags=flags)
        return replace(said, parent=self.victim) if kind is Kind.HELLO else said

    def join(self) -> None:
        """Be the victim's child: it forwards from now on."""
        while self._told is None:
            self._hear(self._next())
        self.hello(self.bpdu(), self.bpdu(Kind.JOIN))
        while not self._is_child:
            self._hear(self._next())

    def hello(self, *bpdus: Bpdu) -> None:
        self.send(*(wire.ping(one.number, one.encode()) for one in bpdus))

    def read(self) -> None:
        """Take what is there, as an honest neighbour does, and say so."""
        before = self._received
        while select.select([self._socket], [], [], 0.0)[0]:
            self._feed()
            while (packet := self._reader.next()) is not None:
                self._hear(packet)
        if self._received > before:
            self.send(wire.puback(self._received))

    def _next(self) -> wire.LinkPacket:
        while (packet := self._reader.next()) is None:
            self._feed()
        return packet

    def _feed(self) -> None:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the victim has ended the link")
        self._received += len(data)
        self._reader.feed(data)

    def _hear(self, packet: wire.LinkPacket) -> None:
        if packet.type is not wire.Type.PINGREQ:
            return
        number, body = wire.split_ping(packet.body)
        bpdu, answers = Bpdu.decode(body), [wire.pong(number)]
        if bpdu.kind is Kind.HELLO and bpdu.root.gateway_id != self.name:
            self._told = bpdu
        elif bpdu.kind is Kind.JOIN:
            accept = replace(self.bpdu(Kind.ACCEPT), root=bpdu.root, answers=bpdu.number)
            answers.append(wire.ping(accept.number, accept.encode()))
        self._is_child |= bpdu.kind is Kind.ACCEPT
        self.send(*answers)


class HostileMember(Attacker):
    """Misbehaves in many ways at once, one step of each after the other.

    Args:
        address: where the victim takes links.
        others: ids of honest members.

    """

    def __init__(self, address: tuple[str, int], others: tuple[str, ...]) -> None:
        super().__init__()
        self._address, self._others = address, others
        self._link = self._joined()
        self._ways = self._all_ways()

    def _joined(self) -> HostileLink:
        link = HostileLink(self._address, "gw-x")
        link.join()
        return link

    def _all_ways(self) -> list[Iterator[None]]:
        return [
            self._changes_its_mind(),
            self._moves_gateways(),
            self._leaves_gaps(),
            self._says_who_is_absent(),
            self._comes_and_goes(),
            self._reads_nothing(),
        ]

    def step(self) -> bool:
        try:
            for way in self._ways:
                next(way)
                self._link.read()
        except OSError:  # the victim has had enough of that link
            self._link.close()
            self.seen["ended"] += 1
            self._link = self._joined()
            self._ways = self._all_ways()
        self.seen["rounds"] += 1
        return True

    def close(self) -> None:
        self._link.close()

    def _changes_its_mind(self) -> Iterator[None]:
        """A better root comes and goes, with costs at the extremes."""
        link = self._link
        best = Root(link.name, 1, 1e12, ADDRESS)
        for sequence in itertools.count(1):
            itself = replace(link.bpdu(), root=best, sequence=sequence, cost_ms=0, hops=0)
            honest = link.bpdu(cost_ms=1 if sequence % 2 else 1 << 31)
            link.hello(*(replace(one, number=n) for n in range(BURST) for one in (itself, honest)))
            self.seen["roots"] += BURST
            yield

    def _moves_gateways(self) -> Iterator[None]:
        """Thousands of gateways are behind it, and one of them comes and goes."""
        there = ReachUpdate(True, {f"gw-y{number}": 1 for number in range(BEHIND)})
        self._link.say(b"$hedgerow/behind", there.encode())
        for life in itertools.count(1):
            for change in (
                ReachUpdate(False, {"gw-z": life % 1_000 + 1}),
                ReachUpdate(False, {}, frozenset({"gw-z"})),
            ):
                self._link.say(b"$hedgerow/behind", change.encode())
            self.seen["moves"] += 2
            yield

    def _leaves_gaps(self) -> Iterator[None]:
        """Numbers of messages that lie far apart."""
        while True:
            self.seen["gaps"] += 1
            self._link.publish(self.seen["gaps"] << 24, Entry("x/gap", b"", 1))
            yield

    def _says_who_is_absent(self) -> Iterator[None]:
        """Each honest member, again and again, with the latest record that it can have told."""
        while True:
            number = self.seen["notices"] + 1
            notices = [
                AbsenceNotice(one, *mark)
                for one in self._others
                for mark in ((1, number << 16), ((1 << 32) - 1, number))
            ]
            entries = [Entry(f"$hedgerow/absent/{one.id}", one.encode(), 1) for one in notices]
            self.seen["notices"] += len(entries)
            self._link.publish(number, *entries, control=True)
            yield

    def _comes_and_goes(self) -> Iterator[None]:
        """Another link, which is left at once."""
        while True:
            HostileLink(self._address, "gw-x-2").close()
            self.seen["links"] += 1
            yield

    def _reads_nothing(self) -> Iterator[None]:
        """It asks for all that the log has, says that it has it, and reads nothing."""
        everything = {
            (one, life): Intervals([(1, 100_000)]) for one in self._others for life in (1, 2)
        }
        asks = wire.publish(b"$hedgerow/request", Request(everything).encode())
        while True:
            link = HostileLink(self._address, "gw-x-3", kernel_bytes=4_096)
            for _ in range(BURST):
                try:
                    link.send(asks * BURST)
                except OSError:  # as it should be
                    self.seen["ended"] += 1
                    break
                self.seen["requests"] += BURST
                yield
            link.close()
