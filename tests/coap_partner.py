"""A CoAP server that answers as a test says: wrongly, late, twice, without an end, or never."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import cast

URI_PATH, BLOCK_2 = 11, 23
JSON_FORMAT = b"\xc1\x32"
"""Content-Format: 50."""
Behaviour = Callable[[int], tuple[int, bytes, bool] | None]
"""Gives what is answered to the block of a number: the code, the bytes, and whether more come."""


def says(payload: bytes, code: int = 0x45) -> Behaviour:
    """Answer with this, in blocks of 512."""

    def behaviour(block: int) -> tuple[int, bytes, bool]:
        part = payload[block * 512 : block * 512 + 512]
        return code, part, len(payload) > block * 512 + 512

    return behaviour


def tells(document: object) -> Behaviour:
    return says(json.dumps(document).encode())


def is_silent(_block: int) -> None:
    return None


def never_ends(_block: int) -> tuple[int, bytes, bool]:
    return 0x45, b"[" * 512, True


class Partner(asyncio.DatagramProtocol):
    """Answers CoAP over UDP as a test says, path by path."""

    def __init__(self) -> None:
        self.paths: dict[str, Behaviour] = {}
        self.asked: list[str] = []
        self.datagrams: list[bytes] = []
        self.twice = False
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.datagrams.append(data)
        options = list(_options(data))
        path = "/".join(value.decode() for number, value in options if number == URI_PATH)
        self.asked.append(path)
        behaviour = self.paths.get(path, says(b"", 0x84))
        block = int.from_bytes(dict(options).get(BLOCK_2, b""), "big") >> 4
        answer = behaviour(block)
        if answer is None or self._transport is None or data[0] >> 4 & 3 != 0:
            return
        code, payload, more = answer
        length = data[0] & 15
        head = bytes((0x60 | length, code)) + data[2 : 4 + length]
        number = (block << 4 | more << 3 | 5).to_bytes(3, "big")
        sent = head + JSON_FORMAT + b"\xb3" + number + (b"\xff" + payload if payload else b"")
        for _ in range(1 + self.twice):
            self._transport.sendto(sent, addr)  # type: ignore[arg-type]  # as it came


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The options of a message, in their order (RFC 7252, section 3.1)."""
    at, number = 4 + (data[0] & 15), 0
    while at < len(data) and data[at] != 0xFF:
        delta, length = data[at] >> 4, data[at] & 15
        at += 1
        if delta == 13:
            delta, at = 13 + data[at], at + 1
        if length == 13:
            length, at = 13 + data[at], at + 1
        number += delta
        yield number, data[at : at + length]
        at += length


@asynccontextmanager
async def partner() -> AsyncIterator[tuple[Partner, str]]:
    """Have one on loopback; what it answers, and its address."""
    loop = asyncio.get_running_loop()
    transport, made = await loop.create_datagram_endpoint(Partner, local_addr=("127.0.0.1", 0))
    yield made, f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    transport.close()
