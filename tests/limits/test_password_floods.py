"""Wrong passwords from many addresses at a time keep nobody waiting who has the right one."""

from __future__ import annotations

import selectors
import socket
import sys
import time
from pathlib import Path

from argon2 import PasswordHasher
from gateways import Gateway

ADDRESSES, OF_EACH = 40, 10
RIGHT_AT = "127.0.0.250"
_WAIT_S = 60.0


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
        """How many are answered by now."""
        for key, _ in self._selector.select(0):
            self._selector.unregister(key.fileobj)
            self.answered += 1
        return self.answered

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]  # they are sockets
        self._selector.close()


def come_in(address: tuple[str, int]) -> tuple[bytes, float]:
    """What a client with the right password is answered, and after how many seconds."""
    began = time.monotonic()
    with socket.create_connection(address, 20, (RIGHT_AT, 0)) as one:
        one.settimeout(_WAIT_S)
        one.sendall(connect_packet("right", "alice", b"right"))
        return one.recv(4), time.monotonic() - began


def test_four_hundred_wrong_passwords_at_a_time_keep_a_right_one_from_no_more_than_its_turn(
    tmp_path: Path,
) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"alice:{PasswordHasher().hash('right')}\n")
    passwords.chmod(0o600)
    access = f'password_file = "{passwords}"'
    gateway = Gateway(tmp_path, "", access=access)
    try:
        before = come_in(gateway.address)
        assert before[0] == b"\x20\x02\x00\x00"
        flood = Flood(gateway.address, "127.0.0.")
        answered = flood.count()
        answer, took_s = come_in(gateway.address)
        meanwhile = flood.count() - answered
        flood.close()
        sys.stdout.write(f"alone {before[1]:.2f} s, in the flood {took_s:.2f} s\n")
        assert answer == b"\x20\x02\x00\x00"
        # Those that were being checked, and as many as began while it came in.
        assert meanwhile < ADDRESSES
    finally:
        gateway.stop()
