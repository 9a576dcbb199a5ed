"""The question to a listener for MQTT over websockets before its release may stay: pure.

A request for a websocket, and in it a CONNECT; see `gateway.releases.answers` on why it is written
here anew.
"""

from __future__ import annotations

import base64
import hashlib

from .answers import DISCONNECT, MqttQuestion

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""
_ANSWER_BYTES_MAX = 16 * 1024
_FINAL_BINARY = 0x82


class UpgradeQuestion:
    """A request for a websocket (RFC 6455, section 4.1), as a program sends it: without an origin.

    Args:
        host: whom it asks, with the port.
        path: of the websocket; empty for the root.
        nonce: 16 bytes.

    """

    wants = "websocket"

    def __init__(self, host: str, path: str, nonce: bytes) -> None:
        key = base64.b64encode(nonce)
        self._accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
        self.data = (
            f"GET {path or '/'} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
            f"Sec-WebSocket-Key: {key.decode()}\r\n\r\n"
        ).encode()

    def answered(self, data: bytes) -> bool:
        """Return whether the data is an answer to the upgrade."""
        head, is_whole, _ = data.partition(b"\r\n\r\n")
        if not is_whole:
            if len(data) > _ANSWER_BYTES_MAX:
                raise ValueError(f"{data[:32]!r}... in place of a websocket")
            return False
        status, *lines = head.split(b"\r\n")
        parted = (line.partition(b":") for line in lines)
        fields = {name.strip().lower(): value.strip() for name, _, value in parted}
        if status.split(b" ")[1:2] != [b"101"]:
            raise ValueError(f"{status[:64].decode(errors='replace')!r} in place of a websocket")
        if fields.get(b"sec-websocket-accept") != self._accept:
            raise ValueError("another Sec-WebSocket-Accept than that of what was asked")
        return True


class FramedMqttQuestion:
    """A CONNECT in a binary frame: a CONNACK in one is the answer (MQTT 3.1.1, section 6)."""

    wants = "CONNACK"

    def __init__(self) -> None:
        self._question = MqttQuestion()
        self.data = frame(self._question.data)

    def answered(self, data: bytes) -> bool:
        """Return whether the data is a CONNACK in a frame (RFC 6455, section 5.2)."""
        if data[:1] not in {b"", bytes([_FINAL_BINARY])} or data[1:2] > b"\x7d":
            raise ValueError(f"{data[:8].hex()} in place of a frame with a CONNACK")
        return self._question.answered(data[2:])


def frame(packet: bytes) -> bytes:
    """Return a packet of up to 125 bytes as a client sends it: masked, here with zeros."""
    return bytes([_FINAL_BINARY, 0x80 | len(packet)]) + bytes(4) + packet


BYE = frame(DISCONNECT)
