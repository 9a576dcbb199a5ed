"""MQTT over TLS: who is let in by a certificate, and what a handshake may take."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from authority import Authority, Issued
from mqtt_peer import LIMIT_S, Bench
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from gateway.broker.access.guard import Access
from gateway.broker.access.passwords import Passwords
from gateway.broker.limits import Limits
from gateway.broker.listeners.listener import Listener
from gateway.mqtt import (
    BRIDGE_BIT,
    LINK_USER_PREFIX,
    Connect,
    PingReq,
    PingResp,
    ReasonCode,
    Version,
    encode,
)
from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.policy import Policy
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
LINK_USER = f"{LINK_USER_PREFIX}t"
NOT_ALLOWED = (ReasonCode.BAD_USER_NAME_OR_PASSWORD, ReasonCode.NOT_AUTHORIZED)

Start = Callable[..., Awaitable[Bench]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Issued:
    return authority.issue("gw", is_server=True)


@pytest.fixture
async def start(authority: Authority, server: Issued) -> Any:
    async with AsyncExitStack() as stack:

        async def started(mode: str = "none", crl: Path | None = None, **options: Any) -> Bench:
            wanted = ClientCertificate(mode)
            client_ca = None if mode == "none" else authority.file
            bench = Bench(
                listeners=[Listener(scheme, ("127.0.0.1",), 0) for scheme in ("mqtts", "wss")],
                tls=Tls(TlsFiles(server.certificate, server.key, wanted, client_ca, crl)),
                **options,
            )
            await bench.start()
            stack.push_async_callback(bench.stop)
            return bench

        yield started


async def refused(bench: Bench, context: ssl.SSLContext) -> None:
    """The handshake fails, which in TLS 1.3 a client may learn only when it reads."""
    failed = bench.counts["TLS handshake failed"]
    try:
        peer = await bench.open("mqtts", context)
        assert await peer.connect("x") == -1
    except OSError:
        pass
    async with asyncio.timeout(LIMIT_S):
        while bench.counts["TLS handshake failed"] == failed:
            await asyncio.sleep(0.01)
    assert not bench.broker.core.sessions


# -- who comes in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_publishes_and_receives_over_tls(
    start: Start, authority: Authority, newest: ssl.TLSVersion
) -> None:
    bench = await start(anonymous=True)
    context = authority.client_context()
    context.maximum_version = newest
    peer = await bench.connect("a", context=context)
    assert await peer.subscribe("t") == 1
    assert await peer.publish("other") == 0
    other = await bench.connect("b", context=context)
    assert await other.publish("t", b"x" * 500_000) == 0
    assert len((await peer.next()).payload) == 500_000


async def test_a_client_of_an_older_version_is_refused(start: Start, authority: Authority) -> None:
    bench = await start(anonymous=True)
    context = authority.client_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    await refused(bench, context)


async def test_a_client_that_speaks_no_tls_is_refused(start: Start) -> None:
    bench = await start(anonymous=True)
    peer = await bench.open("mqtts")
    assert await peer.connect("a") == -1
    assert bench.counts["TLS handshake failed"] == 1
    assert not bench.broker.core.connections


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_a_client_with_a_certificate_needs_no_password(
    start: Start, authority: Authority, mode: str
) -> None:
    bench = await start(mode, passwords=Passwords({"bob": CHEAP.hash("x")}))
    peer = await bench.connect("a", context=authority.client_context(authority.issue("alice")))
    await peer.nothing_came()
    (session,) = bench.broker.core.sessions.values()
    assert session.client.username == "alice"


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_a_certificate_of_another_authority_is_refused(
    start: Start, authority: Authority, mode: str, tmp_path: Path
) -> None:
    bench = await start(mode, anonymous=True)
    context = authority.client_context(Authority(tmp_path, "other").issue("alice"))
    await refused(bench, context)


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_an_expired_certificate_is_refused(
    start: Start, authority: Authority, mode: str
) -> None:
    bench = await start(mode, anonymous=True)
    await refused(bench, authority.client_context(authority.issue("alice", expired=True)))


async def test_while_a_list_has_ended_every_certificate_is_refused(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    (lists := tmp_path / "lists.pem").write_bytes(authority.revoke(outdated=True))
    bench = await start("optional", lists, anonymous=True)
    await refused(bench, authority.client_context(authority.issue("alice")))
    plain = await bench.connect("a", context=authority.client_context())
    await plain.nothing_came()


async def test_while_the_authority_has_ended_every_certificate_of_it_is_refused(
    start: Start, authority: Authority, server: Issued, tmp_path: Path
) -> None:
    bench = await start("required", anonymous=True)
    ended = Authority(tmp_path, "ended", expired=True)
    files = TlsFiles(server.certificate, server.key, ClientCertificate.REQUIRED, ended.file)
    bench.broker.revise(Access(tls=Tls(files)))
    context = authority.client_context(ended.issue("alice"))
    await refused(bench, context)


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_a_servers_certificate_is_none_for_a_client(
    start: Start, authority: Authority, server: Issued, mode: str
) -> None:
    bench = await start(mode, anonymous=True)
    await refused(bench, authority.client_context(server))


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_a_certificate_that_names_nobody_is_refused(
    start: Start, authority: Authority, mode: str
) -> None:
    bench = await start(mode, anonymous=True)
    await refused(bench, authority.client_context(authority.issue("alice", "bob")))


async def test_a_revoked_certificate_is_refused_and_another_is_not(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    alice, bob = authority.issue("alice"), authority.issue("bob")
    crl = tmp_path / "crl.pem"
    crl.write_bytes(authority.revoke(alice))
    bench = await start("required", crl)
    await refused(bench, authority.client_context(alice))
    await bench.connect("b", context=authority.client_context(bob))


async def test_without_a_certificate_nobody_comes_in_where_one_is_required(
    start: Start, authority: Authority
) -> None:
    bench = await start("required", anonymous=True)
    await refused(bench, authority.client_context())


async def test_where_one_is_optional_a_password_does_as_well(
    start: Start, authority: Authority
) -> None:
    bench = await start("optional", passwords=Passwords({"bob": CHEAP.hash("secret")}))
    context = authority.client_context()
    await bench.connect("a", context=context, username="bob", password=b"secret")
    for fields in ({}, {"username": "bob", "password": b"wrong"}, {"username": "bob"}):
        peer = await bench.open("mqtts", context)
        assert await peer.connect("b", **fields) in NOT_ALLOWED


async def test_a_certificate_that_is_not_asked_for_says_nothing(
    start: Start, authority: Authority
) -> None:
    bench = await start("none", passwords=Passwords({}))
    peer = await bench.open("mqtts", authority.client_context(authority.issue("alice")))
    assert await peer.connect("a") in NOT_ALLOWED


# -- who it is -------------------------------------------------------------------------------------


async def test_another_user_name_than_the_certificates_is_refused(
    start: Start, authority: Authority
) -> None:
    passwords = Passwords({"bob": CHEAP.hash("secret")})
    bench = await start("optional", passwords=passwords)
    context = authority.client_context(authority.issue("alice"))
    peer = await bench.open("mqtts", context)
    assert await peer.connect("a", username="bob", password=b"secret") in NOT_ALLOWED
    # The same name is no contradiction, and the certificate proves it.
    await bench.connect("a", context=context, username="alice", password=b"whatever")


async def test_rules_by_user_and_by_role_hold_for_a_certificate(
    start: Start, authority: Authority
) -> None:
    policy = AccessPolicy(
        roles={"sensor": Rules(publish=("by-role/%u",))},
        users={"alice": Rules(publish=("by-user",)), "sensor": Rules(publish=("wrong",))},
    )
    bench = await start("required", policy=Policy(policy.told()))
    alice = authority.issue("alice", roles=["sensor"])
    peer = await bench.connect("a", context=authority.client_context(alice))
    assert await peer.publish("by-user") == 0
    assert await peer.publish("by-role/alice") == 0
    assert await peer.publish("by-role/bob") == ReasonCode.NOT_AUTHORIZED
    assert await peer.publish("wrong") == ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize("offline", [True, False])
async def test_a_session_of_a_certificate_is_neither_handed_over_to_a_mere_name_nor_ended_by_it(
    start: Start, authority: Authority, offline: bool
) -> None:
    bench = await start("optional", anonymous=True)
    context = authority.client_context(authority.issue("alice"))
    kept = {"clean_start": False, "properties": {17: 100}}
    owner = await bench.connect("shared", context=context, **kept)
    await owner.subscribe("secret")
    if offline:
        owner.close()
        async with asyncio.timeout(LIMIT_S):
            while bench.broker.client_count:
                await asyncio.sleep(0.01)
    for clean_start in (False, True):
        thief = await bench.open("mqtts", authority.client_context())
        assert (
            await thief.connect("shared", username="alice", clean_start=clean_start) in NOT_ALLOWED
        )
    if not offline:
        await owner.nothing_came()
    publisher = await bench.connect("p")
    await publisher.publish("secret")
    if offline:
        owner = await bench.connect("shared", context=context, **kept)
    assert (await owner.next()).topic == "secret"


async def test_a_session_of_a_certificate_goes_over_to_a_renewed_one(
    start: Start, authority: Authority
) -> None:
    bench = await start("required")
    kept = {"clean_start": False, "properties": {17: 100}}
    first = await bench.connect(
        "c", context=authority.client_context(authority.issue("alice")), **kept
    )
    await first.subscribe("t")
    second = await bench.connect(
        "c", context=authority.client_context(authority.issue("alice")), **kept
    )
    assert await second.publish("own") == 0
    (session,) = bench.broker.core.sessions.values()
    assert list(session.subscriptions) == ["t"]


# -- what a handshake may take ---------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["mqtts", "wss"])
async def test_a_client_that_draws_out_its_handshake_is_disconnected(
    start: Start, scheme: str
) -> None:
    bench = await start(limits=Limits(connect_s=0.2))
    peer = await bench.open(scheme)
    peer.writer.write(b"\x16\x03\x01")
    assert await peer.next() is None
    async with asyncio.timeout(LIMIT_S):
        while bench.broker.core.connections:
            await asyncio.sleep(0.01)
    assert sum(bench.counts.values()) == 1


async def test_a_client_that_says_nothing_after_its_handshake_is_disconnected(
    start: Start, authority: Authority
) -> None:
    bench = await start()
    peer = await bench.open("mqtts", authority.client_context())
    bench.broker.core.upkeep._limits = Limits(connect_s=0.2)  # which no handshake has to keep
    assert await peer.next() is None
    assert bench.counts["connection without CONNECT"] == 1


@pytest.mark.parametrize("scheme", ["mqtts", "wss"])
async def test_handshakes_count_against_the_limit_of_connections(start: Start, scheme: str) -> None:
    bench = await start(limits=Limits(connections_per_address=2))
    waiting = [await bench.open(scheme) for _ in range(2)]
    async with asyncio.timeout(LIMIT_S):
        while len(bench.broker.core.connections) < 2:
            await asyncio.sleep(0.01)
    assert await (await bench.open(scheme)).next() is None
    assert bench.counts["connection over the limit of an address"] == 1
    waiting[0].close()
    async with asyncio.timeout(LIMIT_S):
        while len(bench.broker.core.connections) > 1:
            await asyncio.sleep(0.01)


async def test_a_broker_that_stops_ends_handshakes(start: Start) -> None:
    bench = await start()
    peer = await bench.open("mqtts")
    async with asyncio.timeout(LIMIT_S):
        while not bench.broker.core.connections:
            await asyncio.sleep(0.01)
    bench.broker.core.stop()
    assert await peer.next() is None


async def test_a_tls_client_that_does_not_read_loses_qos_0_and_is_not_kept_in_memory(
    start: Start, authority: Authority
) -> None:
    limits = Limits(held_bytes=10_000, write_buffer_bytes=10_000)
    bench = await start(anonymous=True, limits=limits)
    slow = await bench.connect("slow", context=authority.client_context())
    await slow.subscribe("t", 0)
    slow.writer.transport.pause_reading()
    fast = await bench.connect("fast")
    packet = b"\x30\xe8\x07\0\x01t\0" + bytes(996)
    kind = "QoS 0 message for a client that does not read"
    async with asyncio.timeout(LIMIT_S):
        while not bench.counts[kind]:
            fast.writer.write(packet * 1000)
            await fast.writer.drain()
            await fast.nothing_came()
    (seen,) = (c for c in bench.broker.core.connections if str(c).startswith("'slow'"))
    assert seen.channel.transport is not None
    assert seen.channel.transport.get_write_buffer_size() < 4 << 20
    slow.writer.transport.resume_reading()
    slow.send(PingReq())
    while not isinstance(await slow.next(), PingResp):
        pass


# -- websockets and links over TLS -----------------------------------------------------------------


async def test_a_certificate_counts_in_a_secure_websocket_too(
    start: Start, authority: Authority
) -> None:
    bench = await start("required")
    uri = f"wss://127.0.0.1:{bench.broker.ports['wss']}/mqtt"
    context = authority.client_context(authority.issue("alice"))
    options: Any = {"subprotocols": [Subprotocol("mqtt")], "proxy": None, "ssl": context}
    async with connect(uri, **options) as client:
        await client.send(b"\x10\x0e\0\x04MQTT\x04\x02\0\0\0\x02ws")
        assert await client.recv() == b"\x20\x02\0\0"
        (session,) = bench.broker.core.sessions.values()
        assert session.client.username == "alice"
        assert session.client.address == "127.0.0.1"


async def test_a_link_is_handed_over_with_its_tls(start: Start, authority: Authority) -> None:
    bench = await start()
    peer = await bench.open("mqtts", authority.client_context(), Version.V311)
    empty: dict[int, Any] = {}
    hello = encode(Connect(Version.V311, "gw-b", True, 0, LINK_USER, b"n", None, empty, True), 4)
    assert hello[8] & BRIDGE_BIT
    peer.writer.write(hello)
    async with asyncio.timeout(LIMIT_S):
        while not bench.links:
            await asyncio.sleep(0.01)
        peer.writer.write(b"more")
        assert await peer.reader.readexactly(9) == b"link:more"
    assert bench.links == [hello]
    assert not bench.broker.core.connections
