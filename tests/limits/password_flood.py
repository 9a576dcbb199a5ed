"""Many connections at a time that have each sent a wrong password."""

from __future__ import annotations

import selectors
import socket

ADDRESSES, OF_EACH = 40, 10


def connect_packet(client_id: str, user: str, password: bytes) -> bytes:
    def text(value: bytes) -> bytes:
        return len(value).to_bytes(2, "big") + value

    body = text(b"MQTT") + b"\x04\xc2\x00\x3c"
    body += text(client_id.encode()) + text(user.encode()) + text(password)
    return bytes((0x10, len(body))) + body


class Flood:
    """Connections that have each sent a wrong password; knows how many were answered."""

    def __init__(self, address: tuple[str, int], prefix: str) -> None:
        self._selector = selectors.DefaultSelector()
        self.answered = 0
        for host in range(ADDRESSES):
            for number in range(OF_EACH):
                one = socket.create_connection(address, 20, (f"{prefix}{host + 2}", 0))
                one.sendall(connect_packet(f"w{host}-{number}", f"guess{number}", b"wrong"))
                self._selector.register(one, selectors.EVENT_READ)

    def count(self) -> int:
        """Return how many are answered by now."""
        for key, _ in self._selector.select(0):
            self._selector.unregister(key.fileobj)
            self.answered += 1
        return self.answered

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]  # they are sockets
        self._selector.close()
