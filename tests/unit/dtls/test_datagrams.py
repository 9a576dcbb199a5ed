"""Goal: what comes to a socket is taken, in its order, whatever its size and however much it is.

Method: real sockets on loopback.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dtls.datagrams import BATCH, Batch, DatagramSocket, listen

LIMIT_S = 10.0


@asynccontextmanager
async def taken_and_sender(
    host: str, wanted: int
) -> AsyncIterator[tuple[list[bytes], socket.socket, asyncio.Event]]:
    """What is taken, who sends, and an event for when so many are there."""
    taken: list[bytes] = []
    enough = asyncio.Event()

    def take(batch: Batch) -> None:
        taken.extend(datagram for datagram, _ in batch)
        if len(taken) >= wanted:
            enough.set()

    (sock,) = listen([host], 0, "coap")
    receiving = DatagramSocket(sock, take)
    with socket.socket(sock.family, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", receiving.sockaddr[1]))
        try:
            yield taken, sender, enough
        finally:
            receiving.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("count", [1, 2, BATCH, BATCH + 1, 3 * BATCH])
async def test_all_that_came_is_taken_in_its_order(host: str, count: int) -> None:
    sent = [number.to_bytes(2, "big") for number in range(count)]
    async with taken_and_sender(host, count) as (taken, sender, enough):
        for datagram in sent:
            sender.send(datagram)
        async with asyncio.timeout(LIMIT_S):
            await enough.wait()
        assert taken == sent


async def test_an_empty_datagram_hides_none_behind_it() -> None:
    sent = [b"", b"one", b"", b"", b"two", b""]
    async with taken_and_sender("127.0.0.1", len(sent)) as (taken, sender, enough):
        for datagram in sent:
            sender.send(datagram)
        async with asyncio.timeout(LIMIT_S):
            await enough.wait()
        assert taken == sent


async def test_what_a_taker_leaves_comes_again() -> None:
    taken: list[bytes] = []
    enough = asyncio.Event()

    def take(batch: Batch) -> None:
        taken.append(next(batch)[0])
        if len(taken) == 5:
            enough.set()

    (sock,) = listen(["127.0.0.1"], 0, "coap")
    receiving = DatagramSocket(sock, take)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(5):
            sender.sendto(bytes((number,)), receiving.sockaddr)
        async with asyncio.timeout(LIMIT_S):
            await enough.wait()
    receiving.close()
    assert taken == [bytes((number,)) for number in range(5)]
