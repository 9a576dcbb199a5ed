"""CoAP exchanges written as the RFCs draw them, played with exact datagrams.

A line is one message, ``>`` from the client and ``<`` from the server:

    > CON GET 7d34 20 Uri-Path:temperature
    < ACK 2.05 7d34 20 Content-Format:0 | 22.3 C

that is type, code, message id and token in hexadecimal (``-`` for none), options, and a payload
behind ``|``. Of an answer ``*`` is any value and ``...`` any text; ``<-`` says that none comes.
What the server may choose is named so, and can be used later: ``Location-Path:{place}``. A server
that had no processor for a while answers with a message of its own, behind an empty ACK (RFC 7252,
section 5.2.2): where a script has the answer in the ACK, that is as good.

This codec is the tests' own, so that no mistake of the product's hides in it.
"""

from __future__ import annotations

import dataclasses
import re
import socket
import time
from dataclasses import dataclass

LIMIT_S = 60.0
SILENCE_S = 0.5
PIGGYBACKED_S = 0.1
"""An answer that a gateway has by then comes in the ACK (`acknowledge_s` of its limits)."""
TYPES = ("CON", "NON", "ACK", "RST")
METHODS = {"GET": 1, "POST": 2, "PUT": 3, "DELETE": 4, "FETCH": 5, "PATCH": 6, "iPATCH": 7}
TEXT = {"Uri-Path": 11, "Uri-Query": 15, "Location-Path": 8, "Location-Query": 20}
NUMBER = {
    "Observe": 6,
    "Content-Format": 12,
    "Max-Age": 14,
    "Accept": 17,
    "Size2": 28,
    "Size1": 60,
    "No-Response": 258,
}
OPAQUE = {
    "If-Match": 1,
    "ETag": 4,
    "If-None-Match": 5,
    "Echo": 252,
    "Request-Tag": 292,
    "Unknown-Critical": 2049,
}
BLOCK = {"Block2": 23, "Block1": 27}
NAMES = {number: name for kind in (TEXT, NUMBER, OPAQUE, BLOCK) for name, number in kind.items()}


@dataclass(frozen=True)
class Line:
    """One message of a script, or as it came."""

    kind: str
    code: str
    message_id: str
    token: str
    options: tuple[tuple[str, str], ...]
    payload: str

    @classmethod
    def parse(cls, text: str) -> Line:
        head, _, payload = text.partition(" | ")
        kind, code, message_id, token, *options = head.split()
        pairs = tuple((name, value) for name, _, value in (one.partition(":") for one in options))
        return cls(kind, code, message_id, token, pairs, payload)

    def encode(self) -> bytes:
        token = b"" if self.token == "-" else bytes.fromhex(self.token)
        data = bytearray([0x40 | TYPES.index(self.kind) << 4 | len(token), _code(self.code)])
        data += bytes.fromhex(self.message_id) + token
        last = 0
        for number, value in sorted(map(_option, self.options), key=lambda option: option[0]):
            data += _head(number - last, len(value)) + value
            last = number
        payload = self.payload.encode()
        return bytes(data) + (b"\xff" + payload if payload else b"")

    @classmethod
    def decode(cls, data: bytes) -> Line:
        kind, length = TYPES[data[0] >> 4 & 3], data[0] & 15
        code = f"{data[1] >> 5}.{data[1] & 31:02d}"
        token, at, number, options = data[4 : 4 + length].hex() or "-", 4 + length, 0, []
        while at < len(data) and data[at] != 0xFF:
            parts = [data[at] >> 4, data[at] & 15]
            at += 1
            for index, part in enumerate(parts):
                size = {13: 1, 14: 2}.get(part, 0)
                if size:
                    more = int.from_bytes(data[at : at + size], "big")
                    parts[index], at = more + (13 if size == 1 else 269), at + size
            number, value = number + parts[0], data[at : at + parts[1]]
            at += parts[1]
            options.append(_shown(number, value))
        return cls(kind, code, data[2:4].hex(), token, tuple(options), data[at + 1 :].decode())

    def __str__(self) -> str:
        options = " ".join(f"{name}:{value}" for name, value in self.options)
        text = f"{self.kind} {self.code} {self.message_id} {self.token} {options}".rstrip()
        return f"{text} | {self.payload}" if self.payload else text


def _code(text: str) -> int:
    if text in METHODS:
        return METHODS[text]
    high, _, low = text.partition(".")
    return int(high) << 5 | int(low)


def _option(pair: tuple[str, str]) -> tuple[int, bytes]:
    name, value = pair
    if name in TEXT:
        return TEXT[name], value.encode()
    if name in OPAQUE:
        return OPAQUE[name], bytes.fromhex(value)
    if name in BLOCK:
        number, more, size = map(int, value.split("/"))
        return BLOCK[name], _uint(number << 4 | more << 3 | size.bit_length() - 5)
    return NUMBER[name], _uint(int(value))


def _uint(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _head(delta: int, length: int) -> bytes:
    nibbles, more = [], b""
    for value in (delta, length):
        if value < 13:
            nibbles.append(value)
        elif value < 269:
            nibbles.append(13)
            more += bytes([value - 13])
        else:
            nibbles.append(14)
            more += (value - 269).to_bytes(2, "big")
    return bytes([nibbles[0] << 4 | nibbles[1]]) + more


def _shown(number: int, value: bytes) -> tuple[str, str]:
    name = NAMES.get(number, str(number))
    if name in TEXT:
        return name, value.decode()
    if name in BLOCK:
        block = int.from_bytes(value, "big")
        return name, f"{block >> 4}/{block >> 3 & 1}/{1 << (block & 7) + 4}"
    if name in NUMBER:
        return name, str(int.from_bytes(value, "big"))
    return name, value.hex()


def matched(text: str, came: Line) -> dict[str, str]:
    """Match a message against a line of a script; return the parts that the line names."""
    pattern = re.escape(text).replace(r"\.\.\.", ".*").replace(r"\*", r"[^\s]*")
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^\\s]*)", pattern)
    found = re.fullmatch(pattern, str(came))
    assert found is not None, f"came:     {came}\nexpected: {text}"
    return found.groupdict()


class Conversation:
    """A client with a socket of its own.

    Args:
        port: where the server is, on loopback.
        host: from where it asks.

    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.connect(("127.0.0.1", port))
        self.own_port = int(self._socket.getsockname()[1])
        self.named: dict[str, str] = {}
        self._sent: dict[str, tuple[str, float]] = {}
        """Token, and when it was sent, of what has gone, by message id."""
        self._acknowledged: dict[str, str] = {}
        """Message ids of requests whose answer comes by itself, by token."""
        self._seen: set[str] = set()
        """Message ids of confirmable messages that have come."""

    def play(self, script: str) -> None:
        """Play a script; what does not come as it stands there fails the test."""
        for line in filter(None, map(str.strip, script.splitlines())):
            side, _, text = line.partition(" ")
            for name, value in self.named.items():
                text = text.replace(f"{{{name}}}", value)
            if side == ">":
                self._send(Line.parse(text))
            elif side == "<":
                self._expect(text)
            else:
                self._expect_nothing()

    def close(self) -> None:
        self._socket.close()

    def _send(self, line: Line) -> None:
        self._sent[line.message_id] = line.token, time.monotonic()
        self._socket.send(line.encode())

    def _expect(self, text: str) -> None:
        came = self._next(LIMIT_S, text)
        assert came is not None, f"nothing came, expected: {text}"
        self.named |= matched(text, came)

    def _expect_nothing(self) -> None:
        came = self._next(SILENCE_S)
        assert came is None, f"came, and nothing was expected: {came}"

    def _next(self, limit_s: float, expected: str = "") -> Line | None:
        """Take the next message; one that comes again is the same, and a late answer an ACK's."""
        self._socket.settimeout(limit_s)
        while True:
            try:
                came = Line.decode(self._socket.recv(65_535))
            except TimeoutError:
                return None
            if self._is_late_acknowledgement(came):
                continue
            if came.kind != "CON":
                return came
            if came.message_id in self._seen:
                continue
            self._seen.add(came.message_id)
            if expected.startswith("ACK ") and came.token in self._acknowledged:
                self._socket.send(Line.parse(f"ACK 0.00 {came.message_id} -").encode())
                asked = self._acknowledged.pop(came.token)
                return dataclasses.replace(came, kind="ACK", message_id=asked)
            return came

    def _is_late_acknowledgement(self, came: Line) -> bool:
        if (came.kind, came.code) != ("ACK", "0.00"):
            return False
        token, sent_s = self._sent.get(came.message_id, ("-", 0.0))
        if token == "-" or time.monotonic() - sent_s < PIGGYBACKED_S:
            return False
        self._acknowledged[token] = came.message_id
        return True
