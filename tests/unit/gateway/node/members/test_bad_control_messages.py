"""A message between gateways that says nothing costs one count, and neither link nor file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgpack
import pytest
from fleet_gateway import Fleet, FleetGateway, until

from gateway.node.members.membership import ABSENT_TOPIC, FILE_NAME, TOPIC, Members
from gateway.node.members.watch import ASK_TOPIC
from gateway.process.running.arrivals import SAYS_NOTHING
from tree_handler.batch import Entry
from tree_handler.members.member import MemberRecord
from tree_handler.routing.interest import TOPIC as INTEREST_TOPIC
from tree_handler.sharing.claims import TOPIC as SHARED_TOPIC
from tree_handler.sharing.claims import Claims
from tree_handler.sharing.handed_on import TOPIC as HANDED_TOPIC

GOOD = MemberRecord("gw-b", 1, 1 << 40, "", "", "10.0.0.9", 1883)


def changed(**fields: object) -> bytes:
    packed: bytes = msgpack.packb(msgpack.unpackb(GOOD.encode()) | fields)
    return packed


SAID = [
    *((TOPIC + "gw-b", changed(address=bad)) for bad in ("{{1}}", "-oProxyCommand=id", "x\ny", 7)),
    *((TOPIC + "gw-b", changed(domain=bad)) for bad in ("x" * 300, "../..", "a\nb")),
    *((TOPIC + "gw-b", bad) for bad in (b"", b"\xc1", bytes(70_000), b"\x91" * 2_000)),
    (TOPIC + "gw-a", changed(id="gw-a")),
    (TOPIC + "x\nERROR", GOOD.encode()),
    *((ABSENT_TOPIC + "gw-a", bad) for bad in (b"", b"\x93\xa1X\x01\x01")),
    (ASK_TOPIC, b"\xc1"),
    (INTEREST_TOPIC + "gw-b", b"\xc1"),
    *((SHARED_TOPIC + "gw-b", bad) for bad in (b"\xc1", Claims("gw-a", 1, 1).encode())),
    (HANDED_TOPIC + "gw-a", b"\x90"),
]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[list[FleetGateway]]:
    """Two gateways with a link."""
    fleet = Fleet(tmp_path)
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start(mode="routed")
    await b.start(mode="routed", neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: a.process.parts.members.known.get("gw-b"))
    yield [a, b]
    await fleet.stop()


async def test_a_gateway_that_says_nothing_is_counted_and_keeps_its_link(
    fleet: list[FleetGateway], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = fleet
    before = {link.peer_id: link.address for link in a.process.parts.node.links.values()}
    known = a.process.parts.members.known.get("gw-b")
    caplog.clear()
    for topic, payload in SAID:
        b.process.parts.node.publish(Entry(topic, payload, qos=1), control=True)
    await until(lambda: a.refusals(SAYS_NOTHING) == len(SAID))
    assert {link.peer_id: link.address for link in a.process.parts.node.links.values()} == before
    assert a.process.parts.members.known.get("gw-b") == known
    told = [record for record in caplog.records if SAYS_NOTHING in record.getMessage()]
    assert 0 < len(told) < len(SAID)
    b.process.parts.members.change(address="10.0.0.9")
    await until(lambda: a.process.parts.members.known.get("gw-b").address == "10.0.0.9")


def test_one_bad_record_in_the_file_of_members_costs_that_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = [GOOD.encode(), changed(id="gw-c", address="{{1}}"), changed(id="gw-d")]
    (tmp_path / FILE_NAME).write_bytes(msgpack.packb(kept))
    members = Members(tmp_path)
    members.read_again(0.0)
    assert [one.id for one in members.known] == ["gw-b", "gw-d"]
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert "a record is left out: member address" in caplog.text
