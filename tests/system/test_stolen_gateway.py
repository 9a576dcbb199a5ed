"""Goal: whoever steals a gateway, with its certificate and key, speaks for that gateway alone.

Two honest gateways and the stolen one, all linked to each other over mutual TLS. The thief runs a
gateway of his own that looks at no signatures, and sends over its links whatever he likes: batches
"from gw-a" that gw-a never made, true ones that he has altered, lives that gw-a never had. All that
clients of the honest ones publish arrives meanwhile, once and in order, and their link stays.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer
from thief import SUMMARY, Known, Thief, look_at_no_signatures

from gateway.broker.outbound.message import Message
from gateway.mqtt import PubAck, Publish
from gateway.node.signing.fleet_keys import SigningFiles
from gateway.node.signing.life_proof import WAIT_S
from gateway.node.signing.quarantine import FOLDER
from gateway.process.state_folder.identity import COUNTER
from gateway.trust.tls.context import ClientCertificate, TlsFiles
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Summary
from tree_handler.retained.message import VERSION
from tree_handler.routing.locator import ReachUpdate

COUNT = 200
THIEF = "gw-x"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def known(gateway: FleetGateway) -> Known:
    core = gateway.process.parts.node.replication
    assert gateway.issued is not None
    return Known(gateway.name, core.epoch, core.next_logged, gateway.issued)


async def client(gateway: FleetGateway, client_id: str) -> Peer:
    port = gateway.process.mqtt_ports["mqtt"]
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port), 5)
    assert await peer.connect(client_id) == 0
    return peer


async def heard(peer: Peer, count: int) -> list[str]:
    got: list[str] = []
    while len(got) < count:
        packet = await peer.next()
        assert isinstance(packet, Publish), (packet, got)
        got.append(packet.payload.decode())
        if packet.qos:
            peer.send(PubAck(packet.packet_id))
    return got


async def publish(peer: Peer, name: str) -> None:
    for number in range(COUNT):
        assert await peer.publish("t", f"{name} {number}".encode()) in (0, 16)
        await asyncio.sleep(0.005)


def kept(gateway: FleetGateway) -> list[dict[str, Any]]:
    """Return what its quarantine tells of each batch."""
    files = sorted((gateway.folder / "state" / FOLDER).glob("*.batch"))
    return [json.loads(file.read_bytes().partition(b"\n")[0]) for file in files]


def connections(gateway: FleetGateway) -> dict[str, str]:
    """Its links with the honest, by neighbour: a link that was made anew has another address."""
    links = gateway.process.parts.node.links.values()
    return {one.peer_id: one.address for one in links if one.peer_id != THIEF}


async def begin(fleet: Fleet, mode: str, thief_capability: float) -> list[FleetGateway]:
    issued = fleet.authority.issue(THIEF, is_gateway=True)
    a, b = fleet.gateway("gw-a"), fleet.gateway("gw-b")
    x = fleet.gateway(THIEF, issued=issued)
    # A link ends after three hellos of silence, and one process does what all three and a thief do.
    common = {"mode": mode, "repair_interval_s": 0.5, "hello_s": 1.0}
    await a.start(capability=3.0, **common)
    to_a = f"127.0.0.1:{a.port}"
    await b.start(capability=2.0, neighbours=[to_a], **common)
    to_both = [to_a, f"127.0.0.1:{b.port}"]
    await x.start(capability=thief_capability, neighbours=to_both, **common)
    look_at_no_signatures(x.process)
    for gateway in (a, b, x):
        others = {"gw-a", "gw-b", THIEF} - {gateway.name}
        await until(lambda g=gateway, o=others: g.process.parts.node.locator.reached == o)
    return [a, b, x]


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("mode", "thief_capability"),
    [
        pytest.param("flood", 9.0, id="flood-root"),
        pytest.param("routed", 1.0, id="routed-leaf"),
        pytest.param("topic", 9.0, id="topic-root"),
        pytest.param("flood", 1.0, id="flood-leaf", marks=pytest.mark.soak("another place")),
        pytest.param("routed", 9.0, id="routed-root", marks=pytest.mark.soak("another place")),
        pytest.param("topic", 1.0, id="topic-leaf", marks=pytest.mark.soak("another place")),
    ],
)
async def test_a_stolen_gateway_forges_nothing_of_others(
    fleet: Fleet, mode: str, thief_capability: float
) -> None:
    a, b, x = await begin(fleet, mode, thief_capability)
    assert x.issued is not None
    thief = Thief(x.process, x.issued)
    readers = [await client(a, "reader-a"), await client(b, "reader-b")]
    for reader in readers:
        await reader.subscribe("t")
    if mode != "flood":
        for one in (a, b):
            await until(lambda g=one: knows_wishes(g))
    before = connections(a), connections(b)
    writers = [await client(a, "writer-a"), await client(b, "writer-b")]
    publishing = asyncio.gather(*(publish(w, n) for w, n in zip(writers, "ab", strict=True)))
    while not publishing.done():
        for victim in (a, b):
            thief.attack(known(victim))
        await asyncio.sleep(0.05)
    await publishing
    expected = {name: [f"{name} {number}" for number in range(COUNT)] for name in "ab"}
    for reader in readers:
        got = await heard(reader, 2 * COUNT)
        for name in "ab":
            assert [one for one in got if one.startswith(name)] == expected[name]
        await reader.nothing_came()
    assert (connections(a), connections(b)) == before
    for one in (a, b):
        counters = one.process.parts.node.replication.counters
        assert counters.forged > 0
        assert counters.lost == counters.set_aside == 0
        files = kept(one)
        assert files
        assert {told["neighbour"] for told in files} == {THIEF}
        assert {told["why"] for told in files} >= {"unsigned", "unknown"}
    assert "forged" in {told["why"] for one in (a, b) for told in kept(one)}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("mode", ["flood", "routed"])
async def test_a_stolen_gateway_hands_over_nothing_retained_that_nobody_wrote(
    fleet: Fleet, mode: str
) -> None:
    a, b, x = await begin(fleet, mode, 1.0)
    writer = await client(a, "writer")
    for topic in ("door", "lamp"):
        assert await writer.publish(topic, b"true", retain=True) in (0, 16)
    life = (a.name, a.process.parts.node.replication.epoch)
    stolen = x.process.parts.broker.core.retention
    if mode == "flood":  # else it hears of nothing that it does not want
        await until(lambda: stolen.get("door") and stolen.get("lamp"))
    for topic, payload in (("door", b"forged"), ("lamp", b""), ("gate", b"forged")):
        stamp = (time.time_ns() // 1000 + 10**9, 0)
        message = Message(topic, topic.encode(), payload, 1, True, {VERSION: stamp})
        message.ref = (life, 1)
        message.proof = b"forged"
        assert stolen.retain(message)
    for one in (a, b):
        await until(lambda g=one: g.process.status()["retained"]["unproven"] >= 3)
    # Who comes anew gets what is true, of either of the two that are honest.
    newcomer = fleet.gateway("gw-c")
    ports = [f"127.0.0.1:{one.port}" for one in (x, a)]
    await newcomer.start(neighbours=ports, mode=mode, repair_interval_s=0.5, hello_s=1.0)
    fresh = newcomer.process.parts.broker.core.retention
    await until(lambda: fresh.get("door") and fresh.get("lamp"))
    assert newcomer.links == {"gw-a", THIEF}
    for one in (a, newcomer):
        await until(lambda g=one: any("retained message of gw-a" in o["batch"] for o in kept(g)))
        retention = one.process.parts.broker.core.retention
        assert {t: m.payload for t, m in retention.match("#")} == {"door": b"true", "lamp": b"true"}


def knows_wishes(gateway: FleetGateway) -> bool:
    routed = gateway.process.parts.routed
    assert routed is not None
    return {"gw-a", "gw-b"} <= {r.gateway_id for r in routed.interests if "t" in r.subscribes}


def forget_all_others(gateway: FleetGateway, authority: Authority) -> None:
    """Have a gateway know no certificate but its own: it believes another authority for a moment.

    Neither ends a link, nor tells a neighbour of it.
    """
    keys, signing = gateway.process.parts.proof.keys, gateway.process.parts.access.files.signing
    assert keys is not None and signing is not None and gateway.issued is not None
    own = gateway.issued
    strange = TlsFiles(own.certificate, own.key, ClientCertificate.OPTIONAL, authority.file)
    for files in (SigningFiles.read(strange), signing):
        keys.renew(files)
    assert [chain for _, chain in keys.ring] == [keys.chain]


async def test_who_is_told_of_no_certificate_asks_for_it_and_then_takes_what_it_refused(
    fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    a, b, c = (fleet.gateway(name) for name in ("gw-a", "gw-b", "gw-c"))
    await a.start()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: b.links == {"gw-a"})
    await c.start(neighbours=[f"127.0.0.1:{b.port}"])
    for gateway in (a, b, c):
        await until(lambda g=gateway: len(g.process.status()["members"]) == 3)
        await until(lambda g=gateway: len(g.process.parts.proof.keys.ring) == 3)
    forget_all_others(c, Authority(tmp_path / "elsewhere"))
    reader, writer = await client(c, "reader"), await client(a, "writer")
    await reader.subscribe("t")
    await writer.publish("t", b"late")
    assert await heard(reader, 1) == ["late"]
    assert c.process.parts.node.replication.counters.unknown > 0


async def test_a_restart_knows_whom_it_may_meet(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a"), fleet.gateway("gw-b")
    await a.start()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: len(b.process.parts.proof.keys.ring) == 2)
    await b.stop()
    await a.stop()
    await b.start(neighbours=[])
    assert b.process.parts.proof.keys.ring.knows("gw-a")


async def test_nobody_else_says_that_a_gateway_has_had_or_has_another_life(fleet: Fleet) -> None:
    a, b, x = await begin(fleet, "flood", 1.0)
    counter = a.folder / "state" / COUNTER
    counted = counter.read_bytes()
    (link,) = (one for one in x.process.parts.node.links.values() if one.peer_id == "gw-a")
    epoch = a.process.parts.node.replication.epoch
    later = Summary({(name, epoch + 9): Intervals([(1, 5)]) for name in ("gw-a", "$gw-a")})
    over = Summary(over={"gw-a": Intervals([(1, epoch + 9)])})
    for summary in (later, over):
        link.send_batch(SUMMARY, summary.encode())
    await b.stop()
    await until(lambda: "gw-b" not in a.process.parts.node.locator.reached)
    while a.process.parts.node.locator.epoch_of("gw-b") != 1:
        for other in list(x.process.parts.node.links.values()):
            other.send_control(b"$hedgerow/behind", ReachUpdate(False, {"gw-b": 1}).encode())
        await asyncio.sleep(0.05)
    assert counter.read_bytes() == counted  # else its next start is behind that life, and now
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: "gw-b" in a.links)
    assert loop.time() - began_s >= WAIT_S  # so long that life was asked, and has not answered
