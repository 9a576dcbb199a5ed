"""Goal: what comes to a socket is taken, in its order, whatever its size and however much it is.

Method: real sockets on loopback.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from ports import free_port

from dtls.datagrams import BATCH, Batch, DatagramSocket, listen
from dtls.errors import SocketError

LIMIT_S = 30.0


async def taken(
    sent: Sequence[bytes], host: str = "127.0.0.1", at_a_time: int | None = None
) -> list[bytes]:
    """Send datagrams, and return those that the socket gives.

    A batch gives at most `at_a_time` of its datagrams, or all by default.
    """
    found: list[bytes] = []
    enough = asyncio.Event()

    def take(batch: Batch) -> None:
        found.extend(datagram for datagram, _ in itertools.islice(batch, at_a_time))
        if len(found) >= len(sent):
            enough.set()

    (sock,) = listen([host], 0, "coap")
    receiving = DatagramSocket(sock, take)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for datagram in sent:
                sender.sendto(datagram, ("127.0.0.1", receiving.sockaddr[1]))
            async with asyncio.timeout(LIMIT_S):
                await enough.wait()
    finally:
        receiving.close()
    return found


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("count", [1, 2, BATCH, BATCH + 1, 3 * BATCH])
async def test_all_that_came_is_taken_in_its_order(host: str, count: int) -> None:
    sent = [number.to_bytes(2, "big") for number in range(count)]
    assert await taken(sent, host) == sent


async def test_an_empty_datagram_hides_none_behind_it() -> None:
    sent = [b"", b"one", b"", b"", b"two", b""]
    assert await taken(sent) == sent


async def test_what_a_taker_leaves_comes_again() -> None:
    sent = [bytes((number,)) for number in range(5)]
    assert await taken(sent, at_a_time=1) == sent


@pytest.mark.parametrize(
    ("host", "level", "option", "hears_all"),
    [
        ("127.0.0.1", socket.IPPROTO_IP, 49, 1),
        ("0.0.0.0", socket.IPPROTO_IP, 49, 0),
        ("::1", socket.IPPROTO_IPV6, 29, 1),
        ("::", socket.IPPROTO_IPV6, 29, 0),
        ("::", socket.IPPROTO_IP, 49, 0),
    ],
)
def test_only_a_socket_of_all_addresses_is_told_to_leave_groups_to_who_joined_them(
    host: str, level: int, option: int, hears_all: int
) -> None:
    """A socket of one address hears no group, so it listens on a kernel without the option too."""
    (bound,) = listen([host], 0, "coap")
    with bound:
        assert bound.getsockopt(level, option) == hears_all


def test_where_a_later_address_can_not_be_bound_the_earlier_ones_are_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[socket.socket] = []
    port = free_port()

    class Kept(socket.socket):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            opened.append(self)

    monkeypatch.setattr(socket, "socket", Kept)
    with pytest.raises(SocketError, match=r"192\.0\.2\.1"):
        listen(["127.0.0.1", "127.0.0.2", "192.0.2.1"], port, "coap")
    assert len(opened) == 3
    assert [one.fileno() for one in opened] == [-1, -1, -1]
