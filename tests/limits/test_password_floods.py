"""Wrong passwords from many addresses at a time keep nobody waiting who has the right one."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

from argon2 import PasswordHasher
from gateways import Gateway
from password_flood import ADDRESSES, Flood, connect_packet

RIGHT_AT = "127.0.0.250"
_WAIT_S = 60.0
_TRIES = 3
"""The most tries: a client that stands still behind its answer counts later answers, too."""


def come_in(address: tuple[str, int]) -> tuple[bytes, float]:
    """Connect with the right password; return the answer, and the seconds that it took."""
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
        for number in range(_TRIES):
            flood = Flood(gateway.address, f"127.0.{number}.")
            answered = flood.count()
            answer, took_s = come_in(gateway.address)
            meanwhile = flood.count() - answered
            flood.close()
            sys.stdout.write(f"alone {before[1]:.2f} s, in the flood {took_s:.2f} s\n")
            assert answer == b"\x20\x02\x00\x00"
            if meanwhile < ADDRESSES:
                break
        # Those that were being checked, and as many as began while it came in.
        assert meanwhile < ADDRESSES
    finally:
        gateway.stop()
