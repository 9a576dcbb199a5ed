"""A client that keeps its protocol state over reconnects, wired to a broker without sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from memory_log import CrashError

from gateway.broker.data_plane import DataPlane
from gateway.broker.inbound.connection import Connection
from gateway.mqtt import (
    ConnAck,
    Connect,
    Packet,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    UnsubAck,
    Unsubscribe,
    Version,
    decode,
    encode,
    packet_end,
)


class Wire(asyncio.Transport):
    """A transport that keeps what the broker writes, until it is read or the broker dies."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        self.is_cut = False

    def write(self, data: Any) -> None:
        if not self.is_cut:
            self.data += data

    def close(self) -> None:
        self.is_cut = True

    abort = close

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


@dataclass(slots=True)
class Sent:
    """A message of a client that is on its way to the broker."""

    publish: Publish
    is_released: bool = False


@dataclass(eq=False)
class Client:
    """A client that keeps its state across reconnects (MQTT, section 4.1)."""

    name: str
    version: Version
    rng: random.Random
    group: str = ""
    lasts: bool = True
    """True if its session outlives its connections."""
    receive_maximum: int = 0
    """Messages that it takes at once; 0 if it does not say."""
    stays_away: int = 0
    """So often it does not come back when it could."""
    keeps_back: bool = False
    """True while it does not answer what comes."""
    kept_back: list[Packet] = field(default_factory=list)
    wire: Wire | None = None
    connection: Connection | None = None
    is_accepted: bool = False
    was_accepted: bool = False
    sent: dict[int, Sent] = field(default_factory=dict)
    unreleased: set[int] = field(default_factory=set)
    subscribed: dict[str, int] = field(default_factory=dict)
    """Filters of which it is certain, with the QoS."""
    unsure: set[str] = field(default_factory=set)
    asked: dict[int, Packet] = field(default_factory=dict)
    got: list[Publish] = field(default_factory=list)
    acknowledged: list[bytes] = field(default_factory=list)
    on_acknowledged: Callable[[bytes], None] = lambda _: None
    refused: set[bytes] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    number: int = 0

    # -- to the broker

    def connect(self, core: DataPlane) -> None:
        self.wire = Wire()
        self.connection = Connection(core.service)
        self.connection.connection_made(self.wire)
        properties = {}
        if self.version is Version.V5 and self.lasts:
            properties[PropertyId.SESSION_EXPIRY_INTERVAL] = 3600
        if self.receive_maximum:
            properties[PropertyId.RECEIVE_MAXIMUM] = self.receive_maximum
        self.is_accepted = False
        self.send(Connect(self.version, self.name, clean_start=False, properties=properties))

    def cut(self) -> None:
        """The connection is gone, and what it had not read."""
        if self.connection is not None:
            connection, self.connection, self.wire = self.connection, None, None
            self.is_accepted = False
            for packet in self.asked.values():
                if isinstance(packet, Subscribe):
                    self.unsure |= {request.filter for request in packet.requests}
                elif isinstance(packet, Unsubscribe):
                    self.unsure |= set(packet.filters)
            self.asked.clear()
            self.kept_back.clear()  # the broker asks again
            with suppress(CrashError):
                connection.connection_lost(None)

    def send(self, *packets: Packet) -> None:
        if self.connection is not None:
            data = b"".join(encode(packet, self.version) for packet in packets)
            with suppress(CrashError):
                self.connection.data_received(data)

    def answer(self, packet: Packet) -> None:
        """Acknowledge, or keep that back for later."""
        if self.keeps_back:
            self.kept_back.append(packet)
        else:
            self.send(packet)

    def answer_all(self) -> None:
        """Send what was kept back, and keep nothing back any more."""
        self.keeps_back = False
        packets, self.kept_back = self.kept_back, []
        self.send(*packets)

    def free_id(self) -> int:
        return next(i for i in range(1, 100) if i not in self.sent and i not in self.asked)

    def publish(
        self, topic: str, qos: int, *, retain: bool = False, payload: bytes | None = None
    ) -> bytes:
        self.number += 1
        if payload is None:
            payload = f"{self.name}:{self.number}".encode()
        publish = Publish(topic, payload, qos, retain, packet_id=self.free_id() if qos else None)
        if publish.packet_id is not None:
            self.sent[publish.packet_id] = Sent(publish)
        self.send(publish)
        return payload

    def subscribe(self, topic_filter: str, qos: int) -> None:
        packet = Subscribe(self.free_id(), [SubscriptionRequest(topic_filter, qos)], {})
        self.asked[packet.packet_id] = packet
        self.send(packet)

    def unsubscribe(self, topic_filter: str) -> None:
        self.subscribed.pop(topic_filter, None)
        packet = Unsubscribe(self.free_id(), [topic_filter], {})
        self.asked[packet.packet_id] = packet
        self.send(packet)

    # -- from the broker

    def read(self, packets_max: int = 1 << 30) -> bool:
        """Handle some of what the broker wrote; whether there was anything."""
        if self.wire is None:
            return False
        did = False
        for _ in range(packets_max):
            if self.wire is None:
                break
            data = self.wire.data
            found = packet_end(bytes(data), 0, 1 << 24)
            if found is None:
                if self.wire.is_cut:
                    self.cut()
                break
            packet = decode(data[0], bytes(data[found[0] : found[1]]), self.version)
            del data[: found[1]]
            did = True
            self.handle(packet)
        return did

    def handle(self, packet: Packet) -> None:
        match packet:
            case ConnAck() if packet.reason:
                self.cut()  # it comes again
            case ConnAck():
                if self.lasts and self.was_accepted and not packet.session_present:
                    self.faults.append("its session is gone")
                self.is_accepted = self.was_accepted = True
                for sent in self.sent.values():
                    if sent.is_released:
                        self.send(PubRel(sent.publish.packet_id or 0))
                    else:
                        sent.publish.dup = True
                        self.send(sent.publish)
            case Publish():
                if packet.qos == 2:
                    if packet.packet_id not in self.unreleased:
                        self.unreleased.add(packet.packet_id or 0)
                        self.got.append(packet)
                    self.answer(PubRec(packet.packet_id or 0))
                else:
                    self.got.append(packet)
                    if packet.qos == 1:
                        self.answer(PubAck(packet.packet_id or 0))
            case PubRel():
                self.unreleased.discard(packet.packet_id)
                self.answer(PubComp(packet.packet_id))
            case PubAck() | PubRec():
                sent = self.sent.get(packet.packet_id)
                if sent is None:
                    return
                if packet.reason >= 0x80:
                    self.refused.add(sent.publish.payload)
                    del self.sent[packet.packet_id]
                    return
                self.acknowledged.append(sent.publish.payload)
                self.on_acknowledged(sent.publish.payload)
                if isinstance(packet, PubRec):
                    sent.is_released = True
                    self.send(PubRel(packet.packet_id))
                else:
                    del self.sent[packet.packet_id]
            case PubComp():
                self.sent.pop(packet.packet_id, None)
            case SubAck():
                asked = self.asked.pop(packet.packet_id)
                assert isinstance(asked, Subscribe)
                for request, reason in zip(asked.requests, packet.reasons, strict=True):
                    if reason < 0x80:
                        self.subscribed[request.filter] = reason
            case UnsubAck():
                self.asked.pop(packet.packet_id)
            case _:
                pass
