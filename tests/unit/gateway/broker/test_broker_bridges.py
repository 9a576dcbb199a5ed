"""Another broker's bridge is a client that gets none of its own messages back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from mqtt_peer import Bench, Peer

from gateway.broker.inbound.admission import WILL_LEFT_OUT
from gateway.broker.listeners.listener import Listener
from gateway.mqtt import (
    LINK_USER_PREFIX,
    Publish,
    ReasonCode,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
)
from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.policy import Policy
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

NOT_AUTHORIZED = ReasonCode.NOT_AUTHORIZED


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench(anonymous=True)
    await bench.start()
    yield bench
    await bench.stop()


async def bridged(bench: Bench, client_id: str = "mosquitto.remote", **fields: Any) -> Peer:
    peer = await bench.open(version=Version.V311)
    assert await peer.connect(client_id, bridge=True, **fields) == 0
    return peer


async def test_a_bridge_gets_all_but_its_own_messages(bench: Bench) -> None:
    bridge, client = await bridged(bench), await bench.connect("client")
    assert await bridge.subscribe("#", 2) == 2
    for qos in (0, 1, 2):
        bridge.send(Publish("a", b"own", qos, False, False, qos or None, {}))
    await client.publish("a", b"another's")
    while not isinstance(got := await bridge.next(), Publish):
        pass  # what acknowledges its own
    assert got.payload == b"another's"


async def test_a_client_without_the_bridge_bit_gets_its_own_messages(bench: Bench) -> None:
    client = await bench.connect("client")
    await client.subscribe("#")
    client.send(Publish("a", b"own"))
    assert (await client.next()).payload == b"own"


async def test_two_bridges_are_two_clients(bench: Bench) -> None:
    one, other = await bridged(bench, "one"), await bridged(bench, "other")
    await one.subscribe("#")
    await other.subscribe("#")
    one.send(Publish("a", b"from one"))
    assert (await other.next()).payload == b"from one"
    await one.nothing_came()


async def test_what_is_published_retained_reaches_a_bridge_as_retained(bench: Bench) -> None:
    bridge, client = await bridged(bench), await bench.connect("client")
    await bridge.subscribe("#")
    await client.publish("a", b"state", retain=True)
    got = await bridge.next()
    assert (got.payload, got.retain) == (b"state", True)


async def test_a_bridge_that_comes_again_gets_what_others_have_retained_and_nothing_of_its_own(
    bench: Bench,
) -> None:
    bridge, client = await bridged(bench, clean_start=False), await bench.connect("client")
    await bridge.publish("by/bridge", b"1", retain=True)
    await bridge.publish("by/both", b"1", retain=True)
    await client.publish("by/both", b"2", retain=True)
    bridge.close()
    again = await bridged(bench, clean_start=False)
    again.send(Subscribe(1, [SubscriptionRequest("#", 0)], {}))
    assert isinstance(await again.next(), SubAck)
    got = await again.next()
    assert (got.topic, got.payload, got.retain) == ("by/both", b"2", True)
    await again.nothing_came()


async def test_a_bridges_word_on_its_own_connection_does_not_end_it(bench: Bench) -> None:
    topic = "$SYS/broker/connection/mosquitto.remote/state"
    bridge = await bridged(bench, will=Will(topic, b"0", 1, True))
    assert await bridge.publish(topic, b"1", retain=True) == 0
    await bridge.nothing_came()
    assert bench.entries == []


@pytest.mark.parametrize("topic", ["$SYS/broker/connection/x/state", "$SYS/broker/connection/"])
@pytest.mark.parametrize("version", Version)
async def test_a_bridge_that_can_not_say_so_comes_in_without_such_a_will(
    bench: Bench, version: Version, topic: str
) -> None:
    reader = await bench.connect("reader")
    await reader.subscribe("$SYS/#")
    peer = await bench.open(version=version)
    assert await peer.connect("x", will=Will(topic, b"0", 1, True)) == 0
    assert bench.counts[WILL_LEFT_OUT] == 1
    assert await peer.publish(topic, b"1", retain=True) == (
        NOT_AUTHORIZED if version == Version.V5 else 0
    )
    await peer.nothing_came()
    session = bench.broker.core.sessions.get("x")
    assert session is not None
    assert session.will is None
    peer.close()
    await reader.nothing_came()
    assert bench.entries == []


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "$SYS/broker/connections", "$coap/x"])
async def test_a_will_on_another_topic_of_the_brokers_is_refused(bench: Bench, topic: str) -> None:
    for version, is_bridge in ((Version.V5, False), (Version.V311, False), (Version.V311, True)):
        peer = await bench.open(version=version)
        will = Will(topic, b"0", 1, True)
        assert await peer.connect("x", will=will, bridge=is_bridge) == NOT_AUTHORIZED


async def test_a_bridge_is_held_to_the_policy() -> None:
    rules = Rules(publish=("in/#",), subscribe=("out/#",))
    bench = Bench(anonymous=True, policy=Policy(AccessPolicy(rules).told()))
    await bench.start()
    try:
        bridge = await bridged(bench)
        assert await bridge.subscribe("#") == 0x80
        assert await bridge.subscribe("out/#") == 1
        await bridge.publish("elsewhere")
        await bridge.publish("in/x")
        assert [entry.topic for entry in bench.entries] == ["in/x"]
    finally:
        await bench.stop()


async def test_a_bridge_without_leave_to_come_in_is_refused() -> None:
    bench = Bench(anonymous=False)
    await bench.start()
    try:
        peer = await bench.open(version=Version.V311)
        assert await peer.connect("mosquitto.remote", bridge=True) == NOT_AUTHORIZED
    finally:
        await bench.stop()


@pytest.mark.parametrize(
    ("roles", "code"), [((), NOT_AUTHORIZED), (("gateway",), NOT_AUTHORIZED), (("bridge",), 0)]
)
async def test_a_certificate_must_say_that_it_is_a_bridges(
    tmp_path: Path, roles: tuple[str, ...], code: int
) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("gw", is_server=True)
    files = TlsFiles(server.certificate, server.key, ClientCertificate.OPTIONAL, authority.file)
    bench = Bench(listeners=[Listener("mqtts", ("127.0.0.1",), 0)], tls=Tls(files))
    await bench.start()
    try:
        context = authority.client_context(authority.issue("mosquitto", roles=roles))
        peer = await bench.open("mqtts", context, Version.V311)
        assert await peer.connect("mosquitto.remote", bridge=True) == code
    finally:
        await bench.stop()


async def test_a_client_can_not_pass_for_a_gateway_without_the_bridge_bit(bench: Bench) -> None:
    peer = await bench.open(version=Version.V311)
    assert await peer.connect("gw-b", username=f"{LINK_USER_PREFIX}t", password=bytes(16)) == 0
    assert bench.links == []
