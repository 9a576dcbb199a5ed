"""Links over transports that misbehave: early, late, twice, or never. No connection stays open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tree_host import KEY, started

from gateway.node.links import greeting
from gateway.node.links.greeting import dial
from gateway.node.links.handshake import Credentials
from gateway.node.links.link import Link, LinkClosedError
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.tcp import TcpLinks
from gateway.node.links.transport import FarEnd

OWN = Credentials("b", "test", KEY)
FAR_END = FarEnd("far", "far")


class Wire(asyncio.Transport):
    """A connection, of which no byte ever arrives."""

    def __init__(self, extra: dict[str, Any] | None = None) -> None:
        super().__init__(extra)
        self.is_open = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take no notice."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Lose it."""

    def abort(self) -> None:
        """End it."""
        self.is_open = False

    def close(self) -> None:
        """End it."""
        self.is_open = False


@dataclass(frozen=True)
class BadAddress:
    """An address whose transport does what a test says."""

    behaves: Callable[[asyncio.Protocol], Awaitable[FarEnd]]

    def __str__(self) -> str:
        return "bad"

    async def connect(self, link: asyncio.Protocol, tls: LinkTls | None) -> FarEnd:
        return await self.behaves(link)


async def test_one_that_connects_and_then_says_that_it_can_not_is_closed() -> None:
    wire = Wire()

    async def connects_and_fails(link: asyncio.Protocol) -> FarEnd:
        link.connection_made(wire)
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        await dial(BadAddress(connects_and_fails), OWN, iter([1]))
    assert not wire.is_open


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_one_that_connects_when_nobody_waits_any_more_is_closed(
    monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    monkeypatch.setattr(greeting, "HANDSHAKE_TIMEOUT_S", 60 if is_cancelled else 0.05)
    wire, waits, links = Wire(), asyncio.Event(), list[asyncio.Protocol]()

    async def connects_late(link: asyncio.Protocol) -> FarEnd:
        links.append(link)
        waits.set()
        await asyncio.Event().wait()
        return FAR_END

    dialling = asyncio.create_task(dial(BadAddress(connects_late), OWN, iter([1])))
    await waits.wait()
    if is_cancelled:
        dialling.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else TimeoutError):
        await dialling
    links[0].connection_made(wire)
    assert not wire.is_open


async def test_one_that_connects_twice_carries_the_link_once() -> None:
    first, second, link = Wire(), Wire(), Link()
    link.connection_made(first)
    link.connection_made(second)
    assert (first.is_open, second.is_open) == (True, False)
    link.close()
    assert not first.is_open


async def test_one_that_is_gone_before_it_is_handed_over_is_told_at_once() -> None:
    async def connects_and_goes(link: asyncio.Protocol) -> FarEnd:
        link.connection_made(Wire())
        link.connection_lost(None)
        return FAR_END

    with pytest.raises(LinkClosedError):
        await dial(BadAddress(connects_and_goes), OWN, iter([1]))


async def test_a_neighbours_connection_that_is_closed_before_it_is_served_is_let_go(
    tmp_path: Path,
) -> None:
    closed = socket.socket()
    closed.close()
    wire = Wire({"socket": closed})
    async with started(tmp_path) as make:
        host = await make("a", 1.0)
        await TcpLinks(host.node).accept(wire, b"")
        assert not wire.is_open
        assert not host.node.links


async def test_one_that_never_connects_ends_the_hand_shake_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(greeting, "HANDSHAKE_TIMEOUT_S", 0.05)

    async def says_so_only(_link: asyncio.Protocol) -> FarEnd:
        return FAR_END

    with pytest.raises(TimeoutError):
        await dial(BadAddress(says_so_only), OWN, iter([1]))
