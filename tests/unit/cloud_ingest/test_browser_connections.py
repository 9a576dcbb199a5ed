"""A connection to the dashboard is counted, and passes on what its transport says once served."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from cloud_ingest.dashboard import connections
from cloud_ingest.dashboard.connections import BrowserConnections


class Transport(asyncio.Transport):
    """A connection of one browser."""

    def __init__(self, address: str = "192.0.2.1") -> None:
        super().__init__({"peername": (address, 1)})
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class Serving(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")

    def data_received(self, data: bytes) -> None:
        self.told.append(data.decode())

    def eof_received(self) -> bool | None:
        self.told.append("eof")
        return True

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


def everything(protocol: Any) -> None:
    protocol.data_received(b"data")
    protocol.pause_writing()
    protocol.resume_writing()
    protocol.eof_received()
    protocol.connection_lost(None)


async def test_what_a_transport_says_is_passed_on_and_the_connection_counts_until_it_is_lost() -> (
    None
):
    found, serving = BrowserConnections(None), Serving()
    protocol = cast(asyncio.Protocol, found.accept(serving))
    assert len(found) == 0
    protocol.connection_made(Transport())
    assert len(found) == 1
    everything(protocol)
    assert serving.told == ["made", "data", "pause", "resume", "eof", "lost"]
    assert len(found) == 0


async def test_one_that_there_is_no_room_for_is_served_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_PER_ADDRESS", 2)
    found = BrowserConnections(None)
    transports = [Transport() for _ in range(3)]
    served = [Serving() for _ in transports]
    made = [cast(asyncio.Protocol, found.accept(one)) for one in served]
    for protocol, transport in zip(made, transports, strict=True):
        protocol.connection_made(transport)
    gone = [one.is_aborted for one in transports]
    assert (len(found), gone.count(True)) == (2, 1)
    other = Transport("198.51.100.1")
    cast(asyncio.Protocol, found.accept(Serving())).connection_made(other)
    assert (len(found), other.is_aborted) == (3, False)
    if gone[2]:
        everything(made[2])
        assert served[2].told == []
    for protocol in made:
        protocol.connection_lost(None)
