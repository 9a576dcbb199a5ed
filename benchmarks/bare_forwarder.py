"""The least that a broker in Python could do: what any of them costs that does more.

Packets are told apart by their first byte and cut by their length, a PUBLISH is acknowledged and
goes on as the bytes that came to whoever subscribed to that very topic. Nothing is checked, kept,
logged or limited, so this is no broker to use: it shows how near the event loop and the system
calls alone come to a broker in C.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import cast

from gateway.base import event_loop

CONNECT, PUBLISH, SUBSCRIBE, PINGREQ = 0x10, 0x30, 0x80, 0xC0


class Forwarder(asyncio.Protocol):
    """One client, of MQTT 3.1.1 and at QoS 0 and 1, whose packets come whole."""

    receivers: dict[bytes, list[Forwarder]] = {}  # noqa: RUF012  # of all connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.write = cast(asyncio.Transport, transport).write

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        for some in self.receivers.values():
            if self in some:
                some.remove(self)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        at = 0
        while at < len(data):
            first, length, body = data[at], data[at + 1], at + 2
            if length > 127:
                length, body = length & 127 | data[body] << 7, body + 1
            end = body + length
            kind = first & 0xF0
            if kind == PUBLISH:
                topic_end = body + 2 + (data[body] << 8 | data[body + 1])
                if first & 6:
                    self.write(b"\x40\2" + data[topic_end : topic_end + 2])
                for receiver in self.receivers.get(data[body + 2 : topic_end], ()):
                    receiver.write(data[at:end])
            elif kind == SUBSCRIBE:
                self._subscribe(data[body:end])
            elif kind == CONNECT:
                self.write(b"\x20\2\0\0")
            elif kind == PINGREQ:
                self.write(b"\xd0\0")
            at = end

    def _subscribe(self, body: bytes) -> None:
        at, granted = 2, b""
        while at < len(body):
            behind = at + 2 + (body[at] << 8 | body[at + 1])
            self.receivers.setdefault(body[at + 2 : behind], []).append(self)
            granted += bytes((min(body[behind], 1),))
            at = behind + 1
        self.write(bytes((0x90, 2 + len(granted))) + body[:2] + granted)


async def serve(port: int) -> None:
    """Serve clients on a port of this machine until cancelled."""
    server = await asyncio.get_running_loop().create_server(Forwarder, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        event_loop.run(serve(int(sys.argv[1])))
