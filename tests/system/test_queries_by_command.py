"""`hedgerow get`, `put` and `observe` of another gateway's resources, through the nearest one."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from asked_fleet import ACTUATOR, AskedFleet, AskedGateway
from chain import CONVERGE_S

from gateway.base import exit_codes
from gateway.coap_client import CoapClient
from tree_handler.members.place import Place

COMMAND = [sys.executable, "-m", "gateway.tools.cli"]


async def hedgerow(near: AskedGateway, *arguments: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed and complained of."""
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, *arguments, "--host", f"127.0.0.1:{near.coap_port}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(CONVERGE_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[AskedFleet]:
    """Two gateways that know each other."""
    async with AskedFleet(tmp_path, [Place("", ""), Place("north", "a")]) as made:
        near = made.gateways[0]
        async with asyncio.timeout(CONVERGE_S):
            async with CoapClient() as client:
                while not (await client.request("GET", near.uri(made.gateways[1].path))).ok:
                    await asyncio.sleep(0.1)
        yield made


async def test_an_observer_of_another_gateway_is_shown_each_value_as_it_comes(
    fleet: AskedFleet,
) -> None:
    near, far = fleet.gateways
    observer = await asyncio.create_subprocess_exec(
        *(*COMMAND, "observe", "gw-1/counted", "--json"),
        *("--host", f"127.0.0.1:{near.coap_port}"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert observer.stdout is not None

    async def shown(value: float) -> None:
        """Wait for a value; a reading of the one before may come first."""
        assert observer.stdout is not None
        told = None
        while told != value:
            line = json.loads(await observer.stdout.readline())
            [record] = json.loads(line["payload"])
            assert record["bn"] == "gw-1/"
            told = record["v"]

    try:
        async with asyncio.timeout(CONVERGE_S):
            await shown(0.0)
            for value in (5, 7):
                assert (await hedgerow(near, "put", "gw-1/counted", str(value)))[0] == 0
                await shown(value)
    finally:
        observer.kill()
        await observer.wait()
    assert list(far.effects) == [5, 7]


async def test_what_is_not_there_and_what_is_for_one_gateway_alone_is_told_as_that(
    fleet: AskedFleet,
) -> None:
    near, far = fleet.gateways
    code, _, err = await hedgerow(near, "get", "gw-9/counted")
    assert code == exit_codes.REFUSED
    assert "4.04 nothing there; `hedgerow discover` shows what there is" in err
    for command in (("put", "*/counted", "5"), ("observe", "*/*/*/counted")):
        code, _, err = await hedgerow(near, *command)
        assert (code, command[1] + ": many gateways can only be read" in err) == (2, True)
    assert not far.effects


async def test_a_named_write_is_done_once_by_the_short_path_there_and_the_long_one_from_here(
    fleet: AskedFleet,
) -> None:
    near, far = fleet.gateways
    short = far.uri(f"/sensors/{ACTUATOR}")
    async with CoapClient() as client:
        for asked, uri in enumerate((short, short, near.uri(far.path))):
            name = bytes((asked,)) + b"pressed"
            answer = await client.request(
                "PUT", uri, payload=b"8", content_format=0, request_id=name
            )
            assert answer.code == "2.04"
    assert list(far.effects.elements()) == [8]


async def test_who_does_not_answer_is_named_after_those_who_do_and_a_write_may_have_been_done(
    fleet: AskedFleet,
) -> None:
    near, far = fleet.gateways
    code, out, err = await hedgerow(near, "get", "*/counted", "--json")
    assert (code, err) == (0, "")
    assert {json.loads(line)["gateway"] for line in out.splitlines()} == {"gw-0", "gw-1"}
    code, out, _ = await hedgerow(near, "get", "north/*/*/counted")
    assert (code, out.split()[0]) == (0, "gw-1/counted")
    far.kill()
    await far.ended()
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "get", "*/counted", "--host", f"127.0.0.1:{near.coap_port}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(CONVERGE_S):
        assert (await process.stdout.readline()).startswith(b"gw-0/counted")
        assert process.returncode is None  # the other one is still waited for
        _, complaint = await process.communicate()
    assert b"gw-1: 5.04 gw-1 did not answer within 5 s" in complaint
    assert process.returncode == exit_codes.REFUSED
    code, out, err = await hedgerow(near, "put", "gw-1/counted", "9")
    assert (code, out) == (exit_codes.REFUSED, "")
    assert "5.04 gw-1 did not answer within 5 s; it may have been carried out" in err
