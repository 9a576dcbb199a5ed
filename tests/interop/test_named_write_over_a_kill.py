"""Goal: the same datagram, sent to the life after a kill, carries nothing out a second time."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from coap_gateway import CoapGateway


def _request(code: int, message_id: int, options: bytes = b"", payload: bytes = b"") -> bytes:
    head = bytes((0x40, code)) + message_id.to_bytes(2, "big")
    return head + b"\xb7sensors\x05valve" + options + (b"\xff" + payload if payload else b"")


PUT = _request(3, 7, b"\xe5\xfc\xd1\0name", b"1")
GET = _request(1, 8, b"\x60")  # Accept: text/plain


def _asked(gateway: CoapGateway, datagram: bytes) -> tuple[str, bytes]:
    """Send a datagram; returns the code and the payload of the answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(60)
        client.connect(("127.0.0.1", gateway.port))
        client.send(datagram)
        while True:
            answer = client.recv(2_000)
            if answer[1]:  # else an empty acknowledgement, before the answer
                return f"{answer[1] >> 5}.{answer[1] & 31:02}", answer.rpartition(b"\xff")[2]


@pytest.mark.soak("it starts two processes; test_noted_names shows it with the file alone")
def test_a_copy_of_a_named_write_is_not_carried_out_by_the_life_after_a_kill(
    tmp_path: Path,
) -> None:
    gateway = CoapGateway(tmp_path)
    assert _asked(gateway, PUT)[0] == "2.04"
    assert _asked(gateway, PUT)[0] == "2.04"
    assert _asked(gateway, GET) == ("2.05", b"1.0")
    gateway.kill()
    (tmp_path / "state/listeners.json").unlink()
    later = CoapGateway(tmp_path)
    try:
        assert _asked(later, PUT) == (
            "5.04",
            b"it may have been carried out before: this gateway has restarted since",
        )
        assert _asked(later, GET) == ("2.05", b"0.0")  # a switch begins with 0
    finally:
        later.stop()
