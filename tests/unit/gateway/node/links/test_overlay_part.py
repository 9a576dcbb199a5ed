"""Topic overlays on real links: nodes joined over loopback TCP, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tree_host import Host, Start, started, until

from gateway.node.links.overlay_part import TOPIC, OverlayPart
from tree_handler.overlays.overlays import Settings
from tree_handler.routing.interest import Interest

pytestmark = pytest.mark.slow

IDS = ("a", "b", "c", "d")
WANTED = {"a": "abc ab abcd", "b": "abc ab abcd", "c": "abc abcd", "d": "abcd"}


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with started(tmp_path) as make:
        yield make


def records(*ids: str) -> list[Interest]:
    """Records of gateways in full mesh."""
    found = []
    for i in ids:
        wanted = frozenset(WANTED[i].split())
        found.append(Interest(i, 1, 1, wanted, wanted, frozenset(ids) - {i}))
    return found


class Mesh:
    """Gateways in full mesh that have been told each other's records."""

    def __init__(self, hosts: dict[str, Host], parts: dict[str, OverlayPart]) -> None:
        self.hosts = hosts
        self.parts = parts

    @classmethod
    async def of(cls, start: Start) -> Mesh:
        now = asyncio.get_running_loop().time()
        hosts = {i: await start(i, 9.0 - n) for n, i in enumerate(IDS)}
        parts = {i: OverlayPart(host.node, Settings(), now) for i, host in hosts.items()}
        for i, host in hosts.items():
            host.node.add_part(parts[i])
        for n, i in enumerate(IDS):
            for other in IDS[n + 1 :]:
                hosts[i].neighbours.add_static(hosts[other].address)
        await until(lambda: all(len(host.node.links) == 3 for host in hosts.values()))
        mesh = cls(hosts, parts)
        mesh.tell(*IDS)
        return mesh

    def tell(self, *ids: str) -> None:
        now = asyncio.get_running_loop().time()
        for i in ids:
            self.parts[i].records_changed(records(*ids), now)

    def ways(self, topic: str, *ids: str) -> dict[str, set[str]]:
        """Return the receivers of each gateway's messages on a topic, if it has a way."""
        found = {}
        for i in ids:
            way = self.parts[i].overlays.way(topic)
            if way is not None:
                found[i] = {self.hosts[i].node.links[link].peer_id for link in way.links}
        return found


def is_tree(ways: dict[str, set[str]], members: str) -> bool:
    """Return whether these ways join the members, and only them, as a tree.

    Then a message reaches each member once, on whichever links are the quickest.
    """
    reached, edges = {members[0]}, {frozenset((i, j)) for i, there in ways.items() for j in there}
    for _ in members:
        reached |= {i for edge in edges if edge & reached for i in edge}
    return reached == {*ways} == {*members} and len(edges) == len(members) - 1


async def test_each_set_of_members_has_a_tree_of_its_own(start: Start) -> None:
    mesh = await Mesh.of(start)
    await until(lambda: len(mesh.ways("abcd", *IDS)) == 4)
    await until(lambda: len(mesh.ways("abc", *IDS)) == 3 and len(mesh.ways("ab", *IDS)) == 2)
    for members in ("ab", "abc", "abcd"):
        await until(lambda among=members: is_tree(mesh.ways(among, *IDS), among))  # type: ignore[misc]
    status = mesh.parts["c"].status()
    assert [sorted(o["members"]) for o in status["overlays"] if o["root"] == "a"] in (
        [["a", "b", "c"], ["a", "b", "c", "d"]],
        [["a", "b", "c", "d"], ["a", "b", "c"]],
    )
    assert mesh.parts["a"].status()["rooted"] == 3


async def test_when_the_root_of_an_overlay_dies_the_others_have_a_way_again(start: Start) -> None:
    mesh = await Mesh.of(start)
    await until(lambda: len(mesh.ways("abc", *IDS)) == 3)
    await mesh.hosts["a"].stop()
    await until(lambda: mesh.ways("abc", "b", "c") == {"b": {"c"}, "c": {"b"}})
    mesh.tell("b", "c", "d")
    await until(lambda: mesh.ways("abc", "b", "c") == {"b": {"c"}, "c": {"b"}})
    members = [o["members"] for o in mesh.parts["b"].status()["overlays"]]
    assert sorted(members) == [["b", "c"], ["b", "c", "d"]]


async def test_a_neighbour_that_says_nonsense_about_overlays_loses_its_link(start: Start) -> None:
    mesh = await Mesh.of(start)
    node = mesh.hosts["d"].node
    (link,) = (link.number for link in node.links.values() if link.peer_id == "a")
    node.send(link, TOPIC, b"nonsense")
    await until(lambda: link not in node.links)
