"""Clients of gateways that fail: their sessions last, and they come again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

from broker_client import Client
from client_layers import layered
from failing_sockets import PORTS_FROM, Network

from gateway.mqtt import ConnAck, Connect, Disconnect, Packet, PropertyId, ReasonCode, Version, Will

PATIENCE_S = 60.0
"""A client that waits for an answer for so long opens another connection."""


class ClientEnd:
    """A client's end of a connection: what came of it, and whether it is cut."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.data = bytearray()
        self.is_cut = False

    def data_received(self, data: bytes) -> None:
        """Send to the gateway."""
        try:
            self._socket.sendall(data)
        except OSError:  # what the gateway sent before is still to be read
            return

    def pull(self) -> bool:
        """Take what has come; return whether that is anything."""
        before = len(self.data)
        try:
            while data := self._socket.recv(1 << 16):
                self.data += data
        except BlockingIOError:
            return len(self.data) > before
        except OSError:
            pass
        self.is_cut = True
        return len(self.data) > before

    def connection_lost(self, _: object) -> None:
        """Close."""
        self._socket.close()


@dataclass(eq=False)
class LastingClient(Client):
    """A client whose session lasts, and that leaves a will where it has one.

    Attributes:
        port: of its gateway for plain MQTT.
        scheme: by which it connects.
        tls: its rules for the gateway's certificate, where the scheme is one with TLS.

    """

    port: int = 1883
    scheme: str = "mqtt"
    tls: ssl.SSLContext | None = None
    will: Will | None = None
    keep_alive_s: int = 0
    heard_s: float = 0.0
    sent_again: set[bytes] = field(default_factory=set)
    """Payloads of which it did not know when it came back that they were there."""

    def handle(self, packet: Packet) -> None:
        """Take note of what is sent once more."""
        if isinstance(packet, ConnAck) and not packet.reason:
            self.sent_again |= {s.publish.payload for s in self.sent.values() if not s.is_released}
        super().handle(packet)

    def open(self, network: Network) -> None:
        """Open a connection and send CONNECT; nothing if nobody listens."""
        self.heard_s = asyncio.get_running_loop().time()
        with contextlib.suppress(ConnectionRefusedError):
            port = self.port + PORTS_FROM[self.scheme]
            end: Any = layered(ClientEnd(network.connect(port)), self.scheme, self.tls)
            self.wire = self.connection = end
            self.is_accepted = False
            properties = {}
            if self.version is Version.V5:
                properties[PropertyId.SESSION_EXPIRY_INTERVAL] = 3600
            self.send(
                Connect(
                    self.version,
                    self.name,
                    clean_start=False,
                    keep_alive_s=self.keep_alive_s,
                    properties=properties,
                    will=self.will,
                )
            )

    def read(self, packets_max: int = 1 << 30) -> bool:
        """Handle what has come; return whether there was anything."""
        end: Any = self.wire
        if end is None:
            return False
        has_come = end.pull()
        did = super().read(packets_max)
        now_s = asyncio.get_running_loop().time()
        is_waiting = not self.is_accepted or self.sent or self.asked
        if did or not is_waiting:
            self.heard_s = now_s
        elif now_s - self.heard_s > PATIENCE_S:
            self.cut()
        return did or has_come


@dataclass(eq=False)
class AliveClient(LastingClient):
    """A client that says that it is alive; the gateway is never to say that it is not."""

    keep_alive_s: int = 10

    def handle(self, packet: Packet) -> None:
        """Take note of what a gateway has against it."""
        if isinstance(packet, Disconnect) and packet.reason == ReasonCode.KEEP_ALIVE_TIMEOUT:
            self.faults.append("it is said to be silent")
        super().handle(packet)
