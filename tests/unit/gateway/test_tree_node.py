"""Nodes joined over loopback TCP: the shell around the cores, without a broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.broker.log.message_log import LogError, MessageLog
from gateway.links.handshake import Credentials
from gateway.links.neighbours import Address, Neighbours
from gateway.links.node import TreeNode
from gateway.links.scope import Scope
from tree_handler.batch import Entry, Header
from tree_handler.intervals import Intervals
from tree_handler.spanning_tree import Identity, Parameters

KEY = bytes(range(32))


@dataclass
class Host:
    """A node with a listener of its own."""

    name: str
    node: TreeNode
    log: MessageLog
    neighbours: Neighbours
    server: asyncio.Server
    got: list[str] = field(default_factory=list)
    control: list[str] = field(default_factory=list)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self.server.close()
        await self.neighbours.stop()
        await self.node.stop()
        self.log.close()


Start = Callable[..., "asyncio.Future[Host]"]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    hosts: list[Host] = []

    async def make(
        name: str,
        capability: float,
        *,
        key: bytes = KEY,
        epoch: int = 1,
        scope: Scope | None = None,
    ) -> Host:
        log = MessageLog(tmp_path / name)
        log.open()
        got: list[str] = []
        control: list[str] = []

        def deliver(entries: list[Entry], header: Header) -> None:
            got.extend(f"{header.origin}:{entry.payload.decode()}" for entry in entries)

        node = TreeNode(
            Credentials(name, "test", key),
            Identity(name, epoch, capability, "127.0.0.1"),
            Parameters(hello_s=0.1),
            log,
            deliver=deliver,
            control=lambda entry, _: control.append(entry.topic),
            repair_interval_s=0.3,
            scope=scope,
        )
        server = await asyncio.start_server(
            lambda reader, writer: node.accept(reader, writer, b""), "127.0.0.1", 0
        )
        neighbours = Neighbours(name, node.dial, node.is_linked)
        host = Host(name, node, log, neighbours, server, got, control)
        hosts.append(host)
        return host

    yield make  # type: ignore[misc]  # a coroutine function serves as the callable
    for host in hosts:
        with contextlib.suppress(Exception):
            await host.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def roots(*hosts: Host) -> set[str]:
    return {host.node.tree.root_id for host in hosts}


async def triangle(start: Start) -> tuple[Host, Host, Host]:
    a, b, c = await start("a", 3.0), await start("b", 2.0), await start("c", 1.0)
    for one, other in ((a, b), (b, c), (c, a)):
        one.neighbours.add_static(other.address)
    await until(
        lambda: (
            roots(a, b, c) == {"a"}
            and sum(len(h.node.tree.forwarding) for h in (a, b, c)) == 4
            and all(len(h.node.links) == 2 for h in (a, b, c))
        )
    )
    return a, b, c


async def test_three_gateways_elect_the_most_capable_and_block_one_link(start: Start) -> None:
    a, b, c = await triangle(start)
    roles = [n["role"] for h in (a, b, c) for n in h.node.status()["neighbours"]]
    assert sorted(roles) == ["blocked", "blocked", "designated", "designated", "root", "root"]
    assert a.node.status()["parent"] is None


async def test_a_message_reaches_all_others_once_and_is_acknowledged_after_it_is_logged(
    start: Start,
) -> None:
    a, b, c = await triangle(start)
    acknowledgement = b.node.publish(Entry("t", b"1", qos=1))
    assert acknowledgement is not None
    await acknowledgement
    assert b.log.length > 0
    assert b.node.publish(Entry("t", b"2", qos=0)) is None
    await until(lambda: len(a.got) >= 2 and len(c.got) >= 2)
    assert sorted(a.got) == sorted(c.got) == ["b:1", "b:2"]
    assert b.got == []


async def test_the_logs_of_all_gateways_hold_the_same_bytes(start: Start, tmp_path: Path) -> None:
    a, b, c = await triangle(start)
    for n in range(20):
        b.node.publish(Entry("t", str(n).encode(), qos=1))
        await asyncio.sleep(0)
    await until(lambda: len(a.got) == len(c.got) == 20)
    (one,), (two,), (three,) = (list((tmp_path / name).glob("*.log")) for name in "abc")
    assert one.read_bytes() == two.read_bytes() == three.read_bytes()


async def test_when_the_root_dies_the_others_go_on_and_repair_brings_it_up_to_date(
    start: Start,
) -> None:
    a, b, c = await triangle(start)
    await a.stop()
    await until(lambda: roots(b, c) == {"b"} and len(c.node.tree.forwarding) == 1)
    c.node.publish(Entry("t", b"without root", qos=1))
    await until(lambda: b.got == ["c:without root"])
    again = await start("a", 3.0, epoch=2)
    again.neighbours.add_static(b.address)
    await until(lambda: again.got == ["c:without root"] and roots(again, b, c) == {"a"})


async def test_a_gateway_without_the_key_is_refused(start: Start) -> None:
    a = await start("a", 1.0)
    stranger = await start("stranger", 9.0, key=bytes(32))
    with pytest.raises(ValueError, match="does not hold the tree's key"):
        await stranger.node.dial(a.address)
    assert not a.node.links


async def test_of_two_links_between_a_pair_one_stays(start: Start) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    b.neighbours.add_static(a.address)
    await until(lambda: roots(a, b) == {"a"} and len(b.node.tree.forwarding) == 1)
    (link,) = a.node.links.values()
    assert link.dialler_id == "a"


async def test_control_messages_reach_the_gateways_and_not_their_clients(start: Start) -> None:
    a, b, _ = await triangle(start)
    b.node.publish(Entry("$hedgerow/query/a", b"", qos=0), control=True)
    await until(lambda: a.control == ["$hedgerow/query/a"])
    assert a.got == []


async def test_a_full_disk_keeps_the_link_and_qos_0_and_what_it_refused_comes_by_repair(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.neighbours.add_static(b.address)
    await until(lambda: len(a.node.tree.forwarding) == len(b.node.tree.forwarding) == 1)
    b.node.replication.repair_timeout_s = 0.3
    (link,) = b.node.links

    def full(*_: object) -> None:
        raise LogError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(b.log, "append", full)
        for n in range(5):
            a.node.publish(Entry("t", f"logged {n}".encode(), qos=1))
            a.node.publish(Entry("t", f"unlogged {n}".encode()))
            await until(lambda n=n: b.got[-1:] == [f"a:unlogged {n}"])  # type: ignore[misc]
        await until(lambda: b.node._commit.refusals.counts["batch refused by the log"] > 7)
        assert list(b.node.links) == [link]
        assert not [name for name in b.got if "unlogged" not in name]
    await until(lambda: len(b.got) == 10)
    assert b.got[5:] == [f"a:logged {n}" for n in range(5)]
    assert list(b.node.links) == [link]


async def test_what_is_kept_local_is_logged_and_acknowledged_and_never_leaves(
    start: Start,
) -> None:
    a = await start("a", 2.0, scope=Scope(["#"], ["private/#"]))
    for topic, payload in (("private/x", "1"), ("t", "2"), ("private/x", "3")):
        done = a.node.publish(Entry(topic, payload.encode(), qos=1))
        assert done is not None
        await done
    b = await start("b", 1.0)
    b.neighbours.add_static(a.address)
    stream = ("a", 1)
    await until(lambda: b.node.replication.covered(stream) == Intervals([(1, 3)]))
    await until(lambda: b.node.tree.forwarding and a.node.tree.forwarding)
    for topic, payload in (("private/x", "4"), ("t", "5"), ("private/x", "6")):
        a.node.publish(Entry(topic, payload.encode(), qos=1))
        a.node.publish(Entry(topic, f"q{payload}".encode(), qos=0))
    await until(lambda: b.node.replication.covered(stream) == Intervals([(1, 6)]))
    await until(lambda: "a:q5" in b.got)
    assert [row for row in b.got if row != "a:q5"] == ["a:2", "a:5"]
    held = [header for _, header in b.log.read(stream, Intervals([(1, 6)])) if header.logged]
    assert [header.first for header in held] == [2, 5]
    assert [header.last for _, header in a.log.read(stream, Intervals([(1, 6)]))][-1] == 6
    assert b.node.replication.counters.lost == 0
