"""Five gateways in a mesh of delayed edges: they become one tree, and it heals, without a loss.

How fast is the benchmark's matter (`python -m benchmarks.mesh`); here it must happen at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from benchmarks.mesh import network
from benchmarks.mesh.gateways import Gateways
from benchmarks.mesh.network import Network
from benchmarks.mesh.traffic import Traffic

HOSTS = 5
SOAK_TRIES = 30
COMES_BACK_S = 180.0
"""Far more than any of it takes: a test must not fail because a machine is busy."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Many tries with ``--soak``: a race shows itself once in many."""
    if "mesh" in metafunc.fixturenames:
        tries = SOAK_TRIES if metafunc.config.getoption("--soak") else 1
        metafunc.parametrize("mesh", range(1, tries + 1), indirect=True)


class Mesh:
    """Gateways with traffic, and what happened to them."""

    def __init__(self, net: Network, gateways: Gateways) -> None:
        self.net = net
        self.gateways = gateways
        self.traffic = Traffic(net, rate_hz=20.0)

    async def flows(self, *hosts: int) -> None:
        """Wait until everybody at some hosts hears something new of everybody there."""
        traffic = self.traffic
        before = {host: traffic.streams[host].sent for host in hosts}

        def hears(subscriber: int, publisher: int) -> bool:
            stream = traffic.streams[publisher]
            received = traffic.count.received[traffic.names[subscriber]].get(stream.number)
            return received is not None and received.last > before[publisher]

        async with asyncio.timeout(COMES_BACK_S):
            while not all(hears(a, b) for a in hosts for b in hosts):
                await asyncio.sleep(0.02)

    async def becomes(self, condition: Callable[[dict[int, int | None]], bool]) -> None:
        """Wait until the parents of those that run are so."""
        async with asyncio.timeout(COMES_BACK_S):
            while not condition(await self.gateways.settled(COMES_BACK_S)):
                await asyncio.sleep(0.1)

    async def child_of_the_root(self) -> int:
        """Wait until the most capable is the root and has a child; which that is."""
        found: list[int] = []

        def has_a_child(parents: dict[int, int | None]) -> bool:
            found[:] = [child for child, parent in parents.items() if parent == 0]
            return parents[0] is None and bool(found)

        await self.becomes(has_a_child)
        return found[0]


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[Mesh]:
    """All are up, and all get all; in the end everything has arrived once and in order."""
    with network.mesh(HOSTS) as net:
        async with Gateways(net, tmp_path) as gateways:
            await asyncio.gather(*(gateways.start(host) for host in range(HOSTS)))
            mesh = Mesh(net, gateways)
            traffic = mesh.traffic
            try:
                await traffic.subscribe()
                traffic.begin()
                await mesh.flows(*range(HOSTS))
                yield mesh
                assert await traffic.settle(COMES_BACK_S), traffic.count.describe_lost(
                    list(traffic.names.values())
                )
                count = traffic.count
                assert count.acknowledged > 50
                found = {what: count.total(what) for what in ("doubled", "disordered")}
                assert found == {"doubled": 0, "disordered": 0}, count.examples
                assert not count.lost_sessions
                assert not gateways.died()
            finally:
                await traffic.stop()


@pytest.mark.timeout(1200)
async def test_a_mesh_heals_after_every_kind_of_failure_and_loses_doubles_and_disorders_nothing(
    mesh: Mesh,
) -> None:
    """One story, since a mesh takes longer to start than to heal."""
    net, gateways = mesh.net, mesh.gateways
    everyone = range(HOSTS)
    await mesh.becomes(lambda parents: parents[0] is None)  # the most capable is the root

    await gateways.kill(0)
    await mesh.flows(1, 2, 3, 4)  # at once, over what is left of the old tree
    await mesh.becomes(lambda parents: parents[1] is None)  # the next
    await gateways.start(0)
    await mesh.becomes(lambda parents: parents[0] is None)
    await mesh.flows(*everyone)

    child = await mesh.child_of_the_root()
    for source, to in ((0, child), (child, 0)):
        net.silence(source, to)
    await mesh.becomes(lambda parents: parents[child] != 0)
    await mesh.flows(*everyone)
    net.heal()

    child = await mesh.child_of_the_root()
    net.silence(0, child)
    await mesh.becomes(lambda parents: parents[child] != 0)
    await mesh.flows(*everyone)
    net.heal()
    await mesh.flows(*everyone)


@pytest.mark.timeout(1200)
async def test_what_a_part_that_is_cut_off_accepts_reaches_the_others_when_it_is_back(
    mesh: Mesh,
) -> None:
    for inside in (3, 4):
        for outside in (0, 1, 2):
            mesh.net.refuse(inside, outside)
    async with asyncio.timeout(COMES_BACK_S):
        while not await _are_two_trees(mesh.gateways):
            await asyncio.sleep(0.1)
    await mesh.flows(0, 1, 2)
    await mesh.flows(3, 4)
    mesh.net.heal()
    await mesh.flows(*range(HOSTS))


async def _are_two_trees(gateways: Gateways) -> bool:
    parents = await gateways.parents()
    return len(parents) == HOSTS and sum(p is None for p in parents.values()) == 2


@pytest.mark.timeout(1200)
async def test_gateways_on_one_segment_find_each_other_by_multicast(tmp_path: Path) -> None:
    with network.bridge(3) as net:
        async with Gateways(net, tmp_path, discovery=True) as gateways:
            await asyncio.gather(*(gateways.start(host) for host in range(3)))
            # The most capable is the root; whose child another one is, is a matter of round trips.
            async with asyncio.timeout(COMES_BACK_S):
                while (await gateways.settled(COMES_BACK_S))[0] is not None:
                    await asyncio.sleep(0.1)
