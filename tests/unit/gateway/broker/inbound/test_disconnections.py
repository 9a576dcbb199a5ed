"""Ends of connections: why a client has gone, as others are told and as it is told itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_world import LogWorld

from gateway.broker.hooks import Client
from gateway.mqtt import Connect, Disconnect, PropertyId, ReasonCode, Version, encode

V5, V311 = Version.V5, Version.V311
R = ReasonCode


class Departures:
    """Notes why clients went."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def connected(self, client: Client) -> None:
        """Not asked here."""

    def disconnected(self, client: Client, why: str) -> None:
        self.found.append(why)

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        """Not asked here."""

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        """Not asked here."""


def lost(world: LogWorld, error: Exception | None = None) -> None:
    world.clients[0][0].connection_lost(error)


def aborted(world: LogWorld) -> None:
    world.clients[0][0].peer.channel.abort()
    lost(world, OSError("broken off"))


def sends(*packets: bytes) -> Callable[[LogWorld], None]:
    return lambda world: world.send(0, b"".join(packets))


def again(world: LogWorld) -> None:
    number = world.opened()
    world.send(number, encode(Connect(V5, "client-0", False), V5))


def ended(reason: int, why: str = "") -> Callable[[LogWorld], None]:
    def end(world: LogWorld) -> None:
        session = world.core.sessions.get("client-0")
        assert session is not None
        world.core.disconnections.disconnect(session, reason, why)
        world.core.disconnections.disconnect(session, R.UNSPECIFIED_ERROR, "it is gone already")

    return end


WAYS: dict[str, tuple[Callable[[LogWorld], None], str, tuple[int, str] | None]] = {
    "its connection ends": (lost, "without DISCONNECT", None),
    "its connection fails": (
        lambda world: lost(world, ConnectionResetError("reset by peer")),
        "connection lost (reset by peer)",
        None,
    ),
    "its connection was broken off": (aborted, "connection closed by the broker", None),
    "DISCONNECT": (sends(b"\xe0\x00"), "by itself", None),
    "DISCONNECT with will": (
        sends(encode(Disconnect(R.DISCONNECT_WITH_WILL_MESSAGE), V5)),
        "by itself (disconnect with will message)",
        None,
    ),
    "it comes again": (
        again,
        "session taken over: by a connection from ?",
        (R.SESSION_TAKEN_OVER, "by a connection from ?"),
    ),
    "the broker ends it": (ended(R.QUOTA_EXCEEDED), "quota exceeded", (R.QUOTA_EXCEEDED, "")),
    "the broker says why": (
        ended(R.ADMINISTRATIVE_ACTION, "by the operator"),
        "administrative action: by the operator",
        (R.ADMINISTRATIVE_ACTION, "by the operator"),
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_it_is_told_once_why_a_client_has_gone(way: str) -> None:
    does, why, told = WAYS[way]
    departures = Departures()
    world = LogWorld({"events": departures})
    await world.client(V5)
    does(world)
    await world.turn()
    assert departures.found == [why]
    got = [
        (one.reason, one.properties.get(PropertyId.REASON_STRING, ""))
        for one in world.written(0)
        if isinstance(one, Disconnect)
    ]
    assert got == ([] if told is None else [told])
    lost(world)
    assert departures.found == [why]


async def test_a_client_of_3_1_1_is_told_nothing() -> None:
    world = LogWorld()
    await world.client(V311)
    ended(R.QUOTA_EXCEEDED, "why")(world)
    await world.turn()
    assert (world.written(0), world.is_closing(0)) == ([], True)
