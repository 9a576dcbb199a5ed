"""An operator looks at a fleet and takes a gateway out of it: real processes, the real command."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mqtt_peer import Peer

from gateway.mqtt import Disconnect, Publish, ReasonCode, Version
from gateway.tools.demo.fleet import Fleet

pytestmark = pytest.mark.drawn(4)

NORTH, SOUTH, ROOT = "gw-north", "gw-south", "gw-root"
LIMIT_S = 90.0


async def hedgerow(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "gateway.tools.cli", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(LIMIT_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def client(fleet: Fleet, gateway_id: str, name: str) -> AsyncIterator[Peer]:
    port = fleet.members[gateway_id].mqtt_port
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V5)
    assert await peer.connect(name) == ReasonCode.SUCCESS
    yield peer
    peer.close()


async def one_tree(fleet: Fleet, *gateways: str) -> None:
    """Wait until these gateways are linked to each other in one tree and each knows all of them."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            told = await fleet.statuses()
            links = [link for status in told.values() for link in status["neighbours"]]
            if (
                set(told) == set(gateways)
                and len({status["root"] for status in told.values()}) == 1
                and all(set(gateways) <= set(status["members"]) for status in told.values())
                and len(links) == len(gateways) * (len(gateways) - 1)
                and sum(link["forwarding"] for link in links) == 2 * (len(gateways) - 1)
            ):
                return
            await asyncio.sleep(0.05)


async def status(
    fleet: Fleet, asked: str, holds: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any]:
    """Wait until what a gateway says of itself is so, and return it."""
    async with asyncio.timeout(LIMIT_S):
        while (told := await fleet.status(asked)) is None or not holds(told):
            await asyncio.sleep(0.05)
    return told


def key(fleet: Fleet) -> list[str]:
    return ["--psk-file", str(fleet.folder / "psk")]


async def test_the_tree_is_drawn_from_its_root_with_the_link_that_stands_by(
    tmp_path: Path,
) -> None:
    async with Fleet(tmp_path) as fleet:
        for gateway_id in (ROOT, NORTH, SOUTH):
            await fleet.start_gateway(gateway_id)
        await one_tree(fleet, ROOT, NORTH, SOUTH)
        code, out, err = await hedgerow("tree", "--config", str(fleet.config(SOUTH)))
        assert code == 0, err
        lines = out.splitlines()
        assert lines[0].startswith("gw-root  -/-, root, 0 clients")
        # Which of them is whose child is a matter of round trips.
        below = sorted(line.lstrip("│├└─ ").split(",")[0] for line in lines[1:3])
        assert below == ["gw-north  campus/north", "gw-south  campus/south"]
        assert [line.startswith("stands by: gw-") for line in lines[3:]] == [True]
        _, out, _ = await hedgerow("tree", "--json", "--config", str(fleet.config(NORTH)))
        told = json.loads(out)
        assert told["roots"] == [ROOT]
        assert set(told["gateways"]) == {ROOT, NORTH, SOUTH}


async def test_the_tree_shows_a_collector_below_the_gateway_that_feeds_it(tmp_path: Path) -> None:
    async with Fleet(tmp_path) as fleet:
        await fleet.start_gateway(ROOT)
        await fleet.start_collector()
        await status(
            fleet, ROOT, lambda s: any(one["role"] == "designated" for one in s["neighbours"])
        )
        code, out, err = await hedgerow("tree", "--config", str(fleet.config(ROOT)))
        assert code == 0, err
        lines = out.splitlines()
        assert lines[0].startswith("gw-root  -/-, root")
        assert lines[1].startswith("└─ collector  collector, rtt ")


async def test_the_tree_names_a_gateway_that_does_not_answer(tmp_path: Path) -> None:
    async with Fleet(tmp_path) as fleet:
        for gateway_id in (ROOT, NORTH):
            await fleet.start_gateway(gateway_id)
        await one_tree(fleet, ROOT, NORTH)
        await fleet.kill(NORTH)
        code, out, err = await hedgerow("tree", "--config", str(fleet.config(ROOT)))
        assert code == 0, err
        assert out.splitlines()[1].startswith("no answer: gw-north (5.04")


async def test_a_gateway_that_stays_away_leaves_the_records_and_its_return_brings_it_back(
    tmp_path: Path,
) -> None:
    async with Fleet(tmp_path) as fleet:
        for gateway_id in (ROOT, NORTH, SOUTH):
            config = fleet.config(gateway_id)
            config.write_text(
                config.read_text().replace("[tree]\n", "[tree]\nmember_timeout_s = 1.0\n")
            )
            await fleet.start_gateway(gateway_id)
        await one_tree(fleet, ROOT, NORTH, SOUTH)
        await fleet.kill(ROOT)  # the others find a new root first, and that one misses it
        await status(
            fleet,
            SOUTH,
            lambda s: set(s["members"]) == {NORTH, SOUTH} and s["hierarchy"]["parent"] == NORTH,
        )
        await fleet.start_gateway(ROOT)
        for gateway in (SOUTH, ROOT):
            await status(fleet, gateway, lambda s: set(s["members"]) == {ROOT, NORTH, SOUTH})


async def test_a_gateway_whose_disk_was_restored_starts_again_and_loses_nothing_it_acknowledges(
    tmp_path: Path,
) -> None:
    async with Fleet(tmp_path) as fleet:
        await fleet.start_gateway(ROOT)
        await fleet.start_gateway(NORTH)
        await fleet.stop_gateway(NORTH)
        image = tmp_path / "image"
        shutil.copytree(fleet.state_dir(NORTH), image)
        counter = image / "boot_epoch"
        counter.write_text(f"{max(1, int(counter.read_text()) - 10_000)}\n")  # an old image
        async with client(fleet, ROOT, "sink") as sink:
            await sink.subscribe("load/#")
            await fleet.start_gateway(NORTH)
            await one_tree(fleet, ROOT, NORTH)
            async with client(fleet, NORTH, "before") as before:
                assert await before.publish("load/x", b"later than the image") == 0
            assert (await sink.next()).payload == b"later than the image"
            told = await status(fleet, NORTH)
            await fleet.kill(NORTH)
            shutil.rmtree(fleet.state_dir(NORTH))
            shutil.copytree(image, fleet.state_dir(NORTH))
            await fleet.start_gateway(NORTH)
            await status(fleet, NORTH, lambda now: now["boot_epoch"] > told["boot_epoch"])
            async with client(fleet, NORTH, "after") as after:
                assert await after.publish("load/x", b"under a number of its own") == 0
            assert (await sink.next()).payload == b"under a number of its own"


async def test_a_drained_gateway_ends_and_nothing_it_acknowledged_is_missing_elsewhere(
    tmp_path: Path,
) -> None:
    async with Fleet(tmp_path) as fleet:
        for gateway_id in (ROOT, NORTH):
            await fleet.start_gateway(gateway_id)
        await one_tree(fleet, ROOT, NORTH)
        async with client(fleet, ROOT, "sink") as sink, client(fleet, NORTH, "source") as source:
            await sink.subscribe("load/#")
            publishing = asyncio.create_task(_publish_until_sent_away(source))
            code, out, err = await hedgerow(
                "drain", "--config", str(fleet.config(NORTH)), *key(fleet)
            )
            assert code == 0, err
            assert out == "gw-north is drained: all it had is at gw-root\n"
            acknowledged = await publishing
            assert acknowledged
            received: set[bytes] = set()
            while not acknowledged <= received:
                packet = await sink.next()
                assert isinstance(packet, Publish)
                received.add(packet.payload)
        process = fleet.members[NORTH].process
        assert process is not None
        async with asyncio.timeout(LIMIT_S):
            assert await process.wait() == 0


async def _publish_until_sent_away(peer: Peer) -> set[bytes]:
    """Publish one message after the other; what was acknowledged when the gateway closed."""
    acknowledged: set[bytes] = set()
    for number in range(1_000_000):
        payload = b"%d" % number
        peer.send(Publish("load/x", payload, 1, packet_id=number % 65_535 + 1))
        answer = await peer.next()
        if isinstance(answer, Disconnect):
            assert answer.reason == ReasonCode.USE_ANOTHER_SERVER
            break
        if answer is None:
            break
        acknowledged.add(payload)
    return acknowledged


async def test_a_gateway_without_neighbours_is_not_drained_and_says_why(tmp_path: Path) -> None:
    async with Fleet(tmp_path) as fleet:
        await fleet.start_gateway(NORTH)
        arguments = ["--config", str(fleet.config(NORTH)), *key(fleet), "--timeout", "3"]
        code, _, err = await hedgerow("drain", *arguments)
        assert code == 1
        assert err == (
            "hedgerow: gw-north is not drained: it has no neighbour to hand its messages to\n"
        )
        port = fleet.members[NORTH].mqtt_port
        late = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V5)
        assert await late.connect("late") == ReasonCode.USE_ANOTHER_SERVER
        late.close()
        told = await status(fleet, NORTH)
        assert told["drain"]["lacking"] == {}
