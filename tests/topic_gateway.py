"""A gateway with a valve, users and a policy, and an MQTT client that asks it over topics."""

from __future__ import annotations

import asyncio
from typing import Any

from argon2 import PasswordHasher
from fleet_gateway import Fleet, FleetGateway
from mqtt_peer import Peer

from gateway.mqtt import PubAck, Publish, PubRec, Version

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
POLICY = """version = 1
[principals]
"user:anna" = ["operator"]
"user:rita" = ["reader"]
"user:topics" = ["topics"]
[roles.topics]
allow = ["subscribe answers/#"]
deny = ["read /sensors/secret"]
[vouch]
"*" = ["operator"]
"""
SENSORS = """[[sensors]]
type = "switch"
name = "valve"
[[sensors]]
type = "switch"
name = "secret"
"""
RESPONSE_TOPIC, CORRELATION, CONTENT_TYPE, USER = 8, 9, 3, 38


def prepared(fleet: Fleet, name: str) -> FleetGateway:
    """A gateway with a valve, users and a policy."""
    one = fleet.gateway(name, tls=False)
    (fleet.folder / "policy.toml").write_text(POLICY)
    passwords = "".join(f"{user}:{CHEAP.hash(user)}\n" for user in ("anna", "rita", "topics"))
    (fleet.folder / "passwords").write_text(passwords)
    (fleet.folder / "passwords").chmod(0o600)
    one.access = (
        f'password_file = "{fleet.folder}/passwords"\n'
        f'policy_file = "{fleet.folder}/policy.toml"\n{SENSORS}'
    )
    return one


class TopicClient:
    """An MQTT client that asks."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._last_id = 0

    async def ask(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 1,
        response_topic: str = "answers/1",
        **properties: Any,
    ) -> Any:
        """Publish a request; its answer, or the reason code of its refusal."""
        reason = await self.publish(
            topic, payload, qos=qos, response_topic=response_topic, **properties
        )
        return reason if reason else await self.peer.next()

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 1,
        response_topic: str = "",
        content_type: str = "",
        user: tuple[tuple[str, str], ...] = (),
    ) -> int:
        self._last_id += 1
        properties: dict[int, Any] = {}
        if response_topic:
            properties = {RESPONSE_TOPIC: response_topic, CORRELATION: b"c1"}
        if content_type:
            properties[CONTENT_TYPE] = content_type
        if user:
            properties[USER] = list(user)
        self.peer.send(
            Publish(topic, payload, qos, False, False, self._last_id if qos else None, properties)
        )
        if not qos:
            return 0
        acknowledged = await self.peer.next()
        assert isinstance(acknowledged, PubAck if qos == 1 else PubRec), acknowledged
        return int(acknowledged.reason)


async def client(
    gateway: FleetGateway,
    user: str | None = "anna",
    version: int = Version.V5,
    name: str = "c1",
    **fields: Any,
) -> TopicClient:
    where = "127.0.0.1", gateway.process.mqtt_port
    peer = Peer(*await asyncio.open_connection(*where), version)
    password = None if user is None else user.encode()
    assert await peer.connect(name, username=user, password=password, **fields) == 0
    return TopicClient(peer)


def told(answer: Any) -> dict[str, str]:
    """The user properties of an answer."""
    return dict(answer.properties[USER])
