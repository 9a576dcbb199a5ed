"""Tells a neighbour's link from a client's connection on the same port (B1).

Both begin with a CONNECT; a link has the top bit of the protocol version set. Only as much is
read as that takes, and what was read is handed on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from amqtt.adapters import StreamReaderAdapter

BRIDGE_BIT = 0x80
_LONGEST_START_BYTES = 1 + 4 + 2 + 6 + 1
"""Fixed header, name "MQIsdp" of MQTT 3.1, protocol version."""


@dataclass(frozen=True, slots=True)
class Start:
    """The first bytes of a connection, and whether they open a link."""

    data: bytes
    is_link: bool


async def peek(reader: asyncio.StreamReader) -> Start:
    """Read up to the protocol version of the CONNECT."""
    data = b""
    while (version := _protocol_version(data)) is None and len(data) < _LONGEST_START_BYTES:
        more = await reader.read(_LONGEST_START_BYTES - len(data))
        if not more:
            break
        data += more
    return Start(data, bool(version and version & BRIDGE_BIT))


def _protocol_version(data: bytes) -> int | None:
    at = 1
    while at < len(data) and at < 4 and data[at] & 0x80:
        at += 1
    name_at = at + 3
    if len(data) < name_at:
        return None
    version_at = name_at + int.from_bytes(data[at + 1 : name_at], "big")
    return data[version_at] if version_at < len(data) else None


class PeekedReader(StreamReaderAdapter):  # type: ignore[misc]  # amqtt is untyped here
    """amqtt's stream reader, which hands out first what `peek` has read."""

    def __init__(self, reader: asyncio.StreamReader, first: bytes) -> None:
        super().__init__(reader)
        self._first = first

    async def read(self, n: int = -1) -> bytes:
        """Exactly ``n`` bytes, or with -1 all up to the end."""
        taken, self._first = (self._first, b"") if n < 0 else (self._first[:n], self._first[n:])
        if len(taken) == n:
            return taken
        rest: bytes = await super().read(n if n < 0 else n - len(taken))
        return taken + rest
