"""A certificate with the role collector: links as a leaf, and nothing that it would publish counts.

Each is tried from a stolen collector: its certificate, its key, and whatever bytes it likes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from authority import Authority, Issued
from fleet_collector import linked, running, settings
from fleet_gateway import Fleet, until

from cloud_ingest.collector.command import Collector
from cloud_ingest.spool import proof
from cloud_ingest.spool.proof import HandedCertificates
from gateway.node.links.hellos import Hellos
from gateway.node.signing import receivers
from gateway.node.signing.own import OwnKey
from gateway.node.signing.ring import CertificateRing
from gateway.node.signing.trust import Trust
from gateway.process.running.arrivals import SAYS_NOTHING
from gateway.trust.tls.peer_certificate import COLLECTOR_ROLE, GATEWAY_ROLE
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.errors import ProtocolError
from tree_handler.proof import Verdict
from tree_handler.remote.message import opened
from tree_handler.remote.seals import QUERY, RemoteSeals, UnprovenError
from tree_handler.routing.interest import TOPIC as INTEREST_TOPIC
from tree_handler.routing.interest import Interest
from tree_handler.seal import Seals
from tree_handler.spanning.bpdu import Bpdu, BpduFlags, Kind
from tree_handler.spanning.election import Identity, Root

TREE = "hedgerow"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    await made.stop()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def own(issued: Issued) -> OwnKey:
    return OwnKey.read(issued.certificate, issued.key)


def ring(authority: Authority, *issued: Issued) -> CertificateRing:
    made = CertificateRing(Trust([authority.x509]), time.time())
    for one in issued:
        made.add((one.der,))
    return made


def sealed(seals: Seals, origin: str, flags: int) -> tuple[bytes, batch.Header]:
    rows = [Entry("a", b"x", qos=1).row()]
    return batch.make(origin, 1, 1, rows, flags=flags, origin_time_us=0, seal=seals.seal)


async def test_with_it_a_collector_links_and_is_sent_what_gateways_publish(fleet: Fleet) -> None:
    gateway = fleet.gateway("gw-a")
    await gateway.start()
    async with running(collector := Collector(settings(fleet, gateway.port))):
        await until(lambda: linked(collector) == {"gw-a"})
        gateway.process.parts.node.publish(Entry("a", b"x", qos=1))
        stream = ("gw-a", gateway.process.parts.node.replication.epoch)
        await until(lambda: stream in collector.node.replication.have)


async def test_one_with_the_role_gateway_is_told_that_it_is_too_much(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    Collector(settings(fleet, 1, role="gateway"))
    assert "issue one with --role collector" in caplog.text
    caplog.clear()
    Collector(settings(fleet, 1, name="collector2"))
    assert "--role collector" not in caplog.text


async def test_what_a_stolen_collector_publishes_reaches_nobody(fleet: Fleet) -> None:
    gateway = fleet.gateway("gw-a")
    await gateway.start()
    async with running(collector := Collector(settings(fleet, gateway.port))):
        await until(lambda: linked(collector) == {"gw-a"})
        collector.node.publish(Entry("a/valve/set", b"1", qos=1))
        quarantine = gateway.process.parts.node.replication.counters
        await until(lambda: quarantine.forged)
        node = gateway.process.parts.node
        assert not any(origin == "collector" for origin, _ in node.replication.have)
        collector.node.publish(Entry("$hedgerow/member/gw-a", b"x", qos=1), control=True)
        await until(lambda: gateway.refusals(SAYS_NOTHING))
        assert linked(collector) == {"gw-a"}


def test_its_key_proves_no_message_of_clients_and_its_own_words_between_gateways(
    authority: Authority,
) -> None:
    issued = authority.issue("collector-1", is_collector=True)
    seals = Seals(own(issued).signer, ring(authority, issued), TREE)
    assert seals.check(*sealed(seals, "collector-1", Flags.LOGGED)) is Verdict.NOT_ALLOWED
    assert seals.check(*sealed(seals, "collector-1", 0)) is Verdict.NOT_ALLOWED
    control = Flags.LOGGED | Flags.CONTROL
    assert seals.check(*sealed(seals, "collector-1", control)) is Verdict.PROVEN


def test_the_job_that_checks_once_more_refuses_what_a_collector_published(
    authority: Authority,
) -> None:
    issued = authority.issue("collector-1", is_collector=True)
    gateway = authority.issue("gw-a", is_gateway=True)
    handed = HandedCertificates(msgpack.packb([[issued.der], [gateway.der]]))
    for one, verdict in ((issued, Verdict.NOT_ALLOWED), (gateway, Verdict.PROVEN)):
        name = "gw-a" if one is gateway else "collector-1"
        seals = Seals(own(one).signer, handed, TREE)
        assert seals.check(*sealed(seals, name, Flags.LOGGED)) is verdict
    prefix = "urn:hedgerow:role:"
    assert f"{prefix}{GATEWAY_ROLE}" == proof.GATEWAY
    assert f"{prefix}{COLLECTOR_ROLE}" == proof.COLLECTOR


def test_its_key_asks_for_no_resource_and_writes_none(authority: Authority) -> None:
    issued = authority.issue("collector-1", is_collector=True)
    seals = RemoteSeals(own(issued).signer, ring(authority, issued), TREE)
    body, signature = opened(QUERY, seals.seal(QUERY, b"PUT /sensors/valve"))
    with pytest.raises(UnprovenError, match="not allowed"):
        seals.check(QUERY, "collector-1", body, signature)


def test_it_stands_for_election_as_who_is_never_elected_alone(authority: Authority) -> None:
    issued = authority.issue("collector-1", is_collector=True)
    seals = Seals(own(issued).signer, ring(authority, issued), TREE)
    leaf = seals.stands(Identity("collector-1", 1, 0.0, "127.0.0.1", transit=False))
    strong = seals.stands(Identity("collector-1", 1, 9_999.0, "127.0.0.1"))
    assert seals.is_candidate(leaf.root)
    assert not seals.is_candidate(strong.root)


def test_a_collector_that_would_carry_messages_for_others_loses_its_link() -> None:
    class HelloLink:
        number = 1
        is_behind_data = False

        def send(self, packet: bytes, /) -> None:
            pass

    hellos = Hellos()
    hellos.link_up(1, is_leaf=True)
    leaf = Bpdu(Kind.HELLO, 1, "collector-1", 1, 0.0, Root("gw-a", 1, 1.0, "127.0.0.1"))
    assert hellos.answer(HelloLink(), bytes(4) + leaf.encode()) == leaf
    for wrong in ({"flags": BpduFlags.TRANSIT}, {"capability": 5.0}):
        with pytest.raises(ProtocolError, match="carry messages for others"):
            hellos.answer(HelloLink(), bytes(4) + replace(leaf, **wrong).encode())


def test_who_has_a_gateways_certificate_too_is_a_gateway(authority: Authority) -> None:
    both = [authority.issue("one", is_collector=True), authority.issue("one", is_gateway=True)]
    assert ring(authority, both[0]).only_receives("one")
    assert not ring(authority, *both).only_receives("one")
    assert not ring(authority).only_receives("one")


@pytest.mark.parametrize("topic", ["$hedgerow/member/x", "$hedgerow/absent/gw-a", "$hedgerow/x"])
def test_it_speaks_of_nobody_else(topic: str) -> None:
    with pytest.raises(ProtocolError):
        receivers.check(Entry(topic, b""))
    for said in receivers.MAY_SAY:
        if said != INTEREST_TOPIC:
            receivers.check(Entry(f"{said}x", b""))


@pytest.mark.parametrize("more", [{"transit": True}, {"publishes": frozenset({"a"})}])
def test_it_says_which_topics_it_wants_and_that_it_does_no_more(more: dict[str, Any]) -> None:
    wants = Interest("collector-1", 1, 1, frozenset({"#"}), transit=False)
    receivers.check(Entry(f"{INTEREST_TOPIC}collector-1", wants.encode()))
    with pytest.raises(ProtocolError, match="more than receive"):
        receivers.check(Entry(f"{INTEREST_TOPIC}collector-1", replace(wants, **more).encode()))
