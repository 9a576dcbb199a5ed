"""All sessions of a broker: who may still come, who is there, and what ends when one goes."""

from __future__ import annotations

from typing import Any

import pytest
from log_world import LogWorld

from gateway.broker.hooks import Client
from gateway.mqtt import ConnAck, Connect, Disconnect, PropertyId, Version, Will, encode

V5 = Version.V5
LASTING = {PropertyId.SESSION_EXPIRY_INTERVAL: 60}


class Told:
    """Notes who came and who went, and why."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def connected(self, client: Client) -> None:
        self.found.append(("came", client.client_id))

    def disconnected(self, client: Client, why: str) -> None:
        self.found.append((why, client.client_id))

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        """Not asked here."""

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        """Not asked here."""


class Clients:
    """The clients of a broker, by their identifiers, each of a user."""

    def __init__(self, **limits: Any) -> None:
        self.told = Told()
        self.world = LogWorld({"events": self.told}, **limits)
        self.sessions = self.world.core.sessions
        self._numbers: dict[str, int] = {}

    async def comes(self, client_id: str, user: str = "anna", **fields: Any) -> str:
        """Return the reason why a client is not let in; nothing if it is."""
        number = self._numbers[client_id] = self.world.opened()
        fields = {"clean_start": False, "properties": dict(LASTING), **fields}
        self.world.send(number, encode(Connect(V5, client_id, username=user, **fields), V5))
        await self.world.turn()
        answer = self.world.written(number)[0]
        assert isinstance(answer, ConnAck)
        return str(answer.properties.get(PropertyId.REASON_STRING, ""))

    async def goes(self, client_id: str) -> None:
        self.world.clients[self._numbers[client_id]][0].connection_lost(None)
        await self.world.turn()


async def test_a_user_has_so_many_connections_and_one_that_ends_makes_room_for_one() -> None:
    clients = Clients(connections_per_user=2)
    full = "too many connections of this user"
    assert [await clients.comes(name) for name in ("a", "b", "c")] == ["", "", full]
    assert await clients.comes("a") == "", "who takes its own session over is none more"
    assert await clients.comes("x", "ben") == ""
    await clients.goes("a")
    assert [await clients.comes(name) for name in ("c", "a")] == ["", full]
    await clients.goes("b")
    await clients.goes("c")
    assert [await clients.comes(name) for name in ("b", "a", "c")] == ["", "", full]
    assert (clients.sessions.connected, len(clients.sessions)) == (3, 4)


async def test_a_user_and_all_users_have_so_many_sessions_and_one_that_ends_makes_room() -> None:
    clients = Clients(sessions_per_user=2, sessions=3)
    of_user, of_all = "too many sessions of this user", "too many sessions"
    assert [await clients.comes(name) for name in ("a", "b", "c")] == ["", "", of_user]
    await clients.goes("a")
    assert await clients.comes("c") == of_user, "a session without its client is one"
    assert await clients.comes("a") == ""
    assert [await clients.comes(name, "ben") for name in ("x", "y")] == ["", of_all]
    await clients.goes("a")
    clients.world.now_s = 60.0
    clients.world.core.upkeep.sweep(60.0)
    assert [await clients.comes(name) for name in ("c", "a")] == ["", of_all]
    assert clients.sessions.expired == 1


async def test_of_many_connections_some_are_kept_free_for_operators() -> None:
    clients = Clients(connections=64)
    client = Client("more", "anna", "", 5)
    for number in range(62):
        assert clients.sessions.why_full(client, None, is_operator=False) == ""
        assert await clients.comes(f"{number}") == ""
    full = "too many connections, but for operators"
    assert clients.sessions.why_full(client, None, is_operator=False) == full
    assert clients.sessions.why_full(client, None) == ""
    there = clients.sessions.get("0")
    assert clients.sessions.why_full(client, there, is_operator=False) == ""
    await clients.goes("0")
    await clients.goes("1")
    assert await clients.comes("62") == ""
    assert clients.sessions.why_full(client, there, is_operator=False) == ""
    assert await clients.comes("63") == ""
    assert clients.sessions.why_full(client, there, is_operator=False) == full


async def test_it_is_counted_and_told_who_is_there_and_who_is_away() -> None:
    clients = Clients()
    sessions = clients.sessions

    def counted() -> list[int]:
        found = (sessions.connected, sessions.connected_max, sessions.offline_count, len(sessions))
        return list(found)

    assert counted() == [0, 0, 0, 0]
    await clients.comes("a")
    await clients.comes("b", properties={})
    assert counted() == [2, 2, 0, 2]
    await clients.goes("a")
    assert counted() == [1, 2, 1, 2]
    await clients.goes("b")
    assert counted() == [0, 2, 1, 1], "its session was to end with its connection"
    await clients.comes("a")
    assert counted() == [1, 2, 0, 1]
    assert [who for why, who in clients.told.found if why == "came"] == ["a", "b", "a"]
    assert [who for why, who in clients.told.found if why != "came"] == ["a", "b"]
    assert list(sessions.values()) == [sessions.get("a")]
    assert sessions.get("b") is None


@pytest.mark.parametrize(("after_s", "is_there"), [(59.9, True), (60.0, False)])
async def test_a_session_ends_when_its_client_comes_back_too_late(
    after_s: float, *, is_there: bool
) -> None:
    """[MQTT-4.1.0-2], though nobody has looked since."""
    clients = Clients()
    await clients.comes("a")
    session = clients.sessions.get("a")
    await clients.goes("a")
    clients.world.now_s = after_s
    assert clients.sessions.overdue(after_s) == ([] if is_there else [session])
    assert clients.sessions.living("a") is (session if is_there else None)
    assert clients.sessions.expired == (not is_there)
    assert await clients.comes("a") == ""
    assert (clients.sessions.get("a") is session) == is_there


async def test_a_session_is_kept_as_long_as_its_client_asks_within_the_limit() -> None:
    clients = Clients(session_expiry_s=100)
    for asked, kept in ((0, 0), (100, 100), (101, 100), (0xFFFF_FFFF, 100)):
        expiry = {PropertyId.SESSION_EXPIRY_INTERVAL: asked}
        await clients.comes("a", clean_start=True, properties=expiry)
        session = clients.sessions.get("a")
        assert session is not None
        assert session.expiry_s == kept
    clients.world.send(3, encode(Disconnect(0, {17: 7}), V5))  # over the last connection
    await clients.world.turn()
    session = clients.sessions.get("a")
    assert session is not None
    assert (session.expiry_s, session.ends_at_s) == (7, 7.0)


async def test_a_session_that_never_expires_has_no_end() -> None:
    clients = Clients(session_expiry_s=0xFFFF_FFFF)
    expiry = {PropertyId.SESSION_EXPIRY_INTERVAL: 0xFFFF_FFFF}
    await clients.comes("a", properties=expiry)
    await clients.goes("a")
    assert clients.sessions.overdue(1e300) == []
    await clients.comes("b", properties={PropertyId.SESSION_EXPIRY_INTERVAL: 0xFFFF_FFFE})
    await clients.goes("b")
    assert [one.client_id for one in clients.sessions.overdue(float(0xFFFF_FFFE))] == ["b"]


async def test_a_session_that_ends_publishes_its_will_whatever_its_delay() -> None:
    """[MQTT-3.1.2-8]."""
    clients = Clients()
    will = Will("w", b"gone", 1, False, {PropertyId.WILL_DELAY_INTERVAL: 1_000})
    await clients.comes("a", will=will, properties={})
    await clients.goes("a")
    assert [row[0] for row in clients.world.logged] == ["w"]


async def test_a_client_comes_so_often_in_a_minute() -> None:
    clients = Clients(connects_per_minute_of_client=3)
    sessions, client = clients.sessions, Client("a", "anna", "", 5)
    assert [sessions.comes_too_often(client) for _ in range(4)] == [False, False, False, True]
    assert not sessions.comes_too_often(Client("a", "ben", "", 5))
    assert not sessions.comes_too_often(Client("b", "anna", "", 5))
    clients.world.now_s = 19.9
    assert sessions.comes_too_often(client)
    clients.world.now_s = 20.1
    sessions.forget_comings(20.1)
    assert [sessions.comes_too_often(client) for _ in range(2)] == [False, True]
