"""A promise to a client about its subscriptions holds after the gateway was killed, or stopped.

A SUBACK or UNSUBACK promises: the filter, its QoS and all its options, and that what was taken
back stays so. Of a session that lasts this must be on disk before the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from brokers import Gateway
from raw_client import Broker, Client
from raw_packets import V5, V311, Property

FOR_EVER = [(Property.SESSION_EXPIRY_INTERVAL, 0xFFFFFFFF)]
NO_LOCAL, AS_PUBLISHED = 0x04, 0x08
BOTH_VERSIONS = pytest.mark.parametrize("level", [V311, V5], ids=["3.1.1", "5.0"])


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    made = Gateway(tmp_path, "write")
    await made.start()
    yield made
    made.kill()
    await made.ended()


@pytest.fixture(params=["killed", "stopped"])
def end(request: pytest.FixtureRequest) -> str:
    """The end of the gateway: what it had to keep comes from the log, or from a checkpoint."""
    made: str = request.param
    return made


@pytest.fixture
def brokers(gateway: Gateway) -> Iterator[dict[int, Broker]]:
    made = {level: Broker(("127.0.0.1", gateway.port), level) for level in (V311, V5)}
    yield made
    for broker in made.values():
        broker.close()


async def restart(gateway: Gateway, end: str) -> None:
    if end == "killed":
        gateway.kill()
        await gateway.ended()
    else:
        await gateway.stop()
    await gateway.start()


def lasting(broker: Broker, name: str) -> Client:
    """A client whose session lasts."""
    props = FOR_EVER if broker.packets.level == V5 else []
    return broker.connect(name, clean=False, props=props)


def back(broker: Broker, name: str) -> Client:
    client = lasting(broker, name)
    assert client.connack is not None
    assert client.connack.session_present
    return client


def come(client: Client, publisher: Client, topic: str) -> list[bytes]:
    """Publish at QoS 1 and 2 to a topic; return what came to the client before the end."""
    for qos in (1, 2):
        publisher.publish(topic, b"%d" % qos, qos=qos)
    client.subscribe(("end", 1))
    publisher.publish("end", b"end", qos=1)
    return [message.payload for message in client.until(b"end")]


@BOTH_VERSIONS
async def test_what_was_unsubscribed_stays_so_and_the_other_subscriptions_too(
    gateway: Gateway, brokers: dict[int, Broker], end: str, level: int
) -> None:
    broker = brokers[level]
    client = lasting(broker, "reader")
    client.subscribe(("gone", 2), ("kept", 2))
    assert client.unsubscribe("gone").packet_id
    await restart(gateway, end)
    client, publisher = back(broker, "reader"), broker.connect()
    assert come(client, publisher, "gone") == []
    assert come(client, publisher, "kept") == [b"1", b"2"]


async def test_a_member_that_left_a_group_gets_nothing_for_it(
    gateway: Gateway, brokers: dict[int, Broker], end: str
) -> None:
    broker = brokers[V5]
    leaving, staying = lasting(broker, "leaving"), lasting(broker, "staying")
    for client in (leaving, staying):
        client.subscribe(("$share/g/t", 2))
    leaving.unsubscribe("$share/g/t")
    await restart(gateway, end)
    leaving, staying = back(broker, "leaving"), back(broker, "staying")
    assert come(staying, broker.connect(), "t") == [b"1", b"2"]
    assert come(leaving, broker.connect(), "t") == []


async def test_no_local_still_keeps_a_clients_own_messages_from_it(
    gateway: Gateway, brokers: dict[int, Broker], end: str
) -> None:
    broker = brokers[V5]
    client = lasting(broker, "talker")
    client.subscribe(("t", 2 | NO_LOCAL), ("u", 2))
    await restart(gateway, end)
    client = back(broker, "talker")
    assert come(client, client, "t") == []
    assert come(client, client, "u") == [b"1", b"2"]
    assert come(client, broker.connect(), "t") == [b"1", b"2"]


async def test_no_local_holds_for_what_was_queued_when_the_gateway_ended(
    gateway: Gateway, brokers: dict[int, Broker], end: str
) -> None:
    broker = brokers[V5]
    client = lasting(broker, "talker")
    client.subscribe(("t", 1 | NO_LOCAL), ("u", 1))
    client.publish("t", b"own", qos=1)
    client.publish("u", b"own too", qos=1)
    for topic in ("t", "u"):
        broker.connect().publish(topic, topic.encode(), qos=1)
    await restart(gateway, end)
    client = back(broker, "talker")
    broker.connect().publish("u", b"end", qos=1)
    assert [m.payload for m in client.until(b"end")] == [b"own too", b"t", b"u"]


async def test_retain_as_published_and_the_identifier_are_those_that_were_asked_for(
    gateway: Gateway, brokers: dict[int, Broker], end: str
) -> None:
    broker = brokers[V5]
    client = lasting(broker, "reader")
    identifier = [(Property.SUBSCRIPTION_IDENTIFIER, 7)]
    client.subscribe(("t", 1 | AS_PUBLISHED), props=identifier)
    client.subscribe(("plain", 1))
    await restart(gateway, end)
    client, publisher = back(broker, "reader"), broker.connect()
    publisher.publish("t", b"x", qos=1, retain=True)
    marked = client.expect_publish("t", b"x", 1)
    assert marked.retain
    assert marked.values(Property.SUBSCRIPTION_IDENTIFIER) == [7]
    publisher.publish("plain", b"y", qos=1, retain=True)
    plain = client.expect_publish("plain", b"y", 1)
    assert not plain.retain
    assert not plain.values(Property.SUBSCRIPTION_IDENTIFIER)


@BOTH_VERSIONS
async def test_a_subscription_that_was_replaced_has_its_last_qos(
    gateway: Gateway, brokers: dict[int, Broker], end: str, level: int
) -> None:
    broker = brokers[level]
    client = lasting(broker, "reader")
    client.subscribe(("t", 2))
    client.subscribe(("t", 0))
    await restart(gateway, end)
    client = back(broker, "reader")
    broker.connect().publish("t", b"x", qos=2)
    client.expect_publish("t", b"x", 0)
