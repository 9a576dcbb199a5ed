"""The stepper motor of docs/sensors.md is moved and watched through another gateway."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiocoap
import gpiozero
import pytest
from fleet_gateway import Fleet, FleetGateway, until
from gpiozero.pins.mock import MockFactory
from topic_gateway import client, prepared, told

from gateway.coap_client import CoapClient, Response
from gateway.tools import cli

DOCUMENT = Path(__file__).parents[4] / "docs" / "sensors.md"
TABLE = (
    '[[sensors]]\ntype = "stepper:Stepper"\nname = "blind"\npins = [5, 6, 13, 19]\npace = 1000\n'
)
KEY = b"0123456789abcdef"
BLIND = "q/campus/north/gw-b/sensors/blind"


def documented(file: str) -> str:
    """The program that the page has under a name."""
    found = re.search(
        rf"<!-- saved as: {file} -->\n```python\n(.*?)```\n", DOCUMENT.read_text(), re.S
    )
    assert found is not None
    return found[1]


class Blinds:
    """gw-a, which is asked, and gw-b with a motor on pins that are not there."""

    def __init__(self, a: FleetGateway, b: FleetGateway, caller: CoapClient) -> None:
        self.a, self.b, self.client = a, b, caller

    @property
    def motor(self) -> Any:
        (found,) = (one for one in self.b.process.parts.readings.sensors if one.name == "blind")
        return found

    async def ask(self, method: str, path: str, payload: bytes = b"") -> Response:
        uri = f"coaps://127.0.0.1:{self.a.process.parts.coap.coaps_port}/{path}"
        return await self.client.request(method, uri, payload=payload)

    async def state(self, path: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((await self.ask("GET", path)).payload)
        return found


@pytest.fixture
async def blinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Blinds]:
    monkeypatch.setattr(gpiozero.Device, "pin_factory", MockFactory())
    fleet = Fleet(tmp_path)
    a, b = prepared(fleet, "gw-a"), prepared(fleet, "gw-b")
    (tmp_path / "policy.toml").write_text(
        (tmp_path / "policy.toml")
        .read_text()
        .replace("[roles", '"psk:anna" = ["operator"]\n[roles')
    )
    (tmp_path / "psk").write_text(f"anna:{KEY.hex()}\n")
    (tmp_path / "psk").chmod(0o600)
    for one in (a, b):
        one.coap = f'dtls_port = 0\npsk_file = "{tmp_path}/psk"'
    (b.folder / "stepper.py").write_text(documented("stepper.py"))
    b.place = 'domain = "campus"\ngroup = "north"'
    b.mqtt = TABLE
    await a.start()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: "gw-b" in a.process.status()["members"])
    caller = CoapClient(psk_identity="anna", psk_key=KEY)
    yield Blinds(a, b, caller)
    await caller.close()
    await fleet.stop()


async def test_a_motor_is_moved_watched_and_stopped_from_another_gateway(blinds: Blinds) -> None:
    made = await blinds.ask("POST", BLIND, b"5")
    assert (made.code, made.location) == ("2.01", f"/{BLIND}/moves/1")
    move = made.location[1:]
    while not (await blinds.state(move))["done"]:
        pass
    assert await blinds.state(move) == {"target": 5, "at": 5, "done": True}
    assert (await blinds.ask("GET", f"{BLIND}?")).code == "2.05"
    assert (await blinds.ask("iPATCH", BLIND, b'{"pace": 20}')).code == "2.04"
    assert json.loads((await blinds.ask("FETCH", BLIND, b'["pace"]')).payload) == {"pace": 20}
    wrong = await blinds.ask("iPATCH", BLIND, b'{"pace": 0}')
    assert (wrong.code, wrong.payload) == ("4.00", b"pace: 1 to 1000 half steps a second")
    slow = await blinds.ask("POST", BLIND, b"-1000")
    assert slow.location == f"/{BLIND}/moves/2"
    assert (await blinds.ask("GET", move)).code == "4.04"  # it made room for this one
    assert (await blinds.ask("POST", BLIND, b"1")).code == "4.09"
    assert (await blinds.ask("PATCH", BLIND, b"1")).code == "4.05"
    assert (await blinds.ask("DELETE", slow.location[1:])).code == "2.02"
    assert (await blinds.ask("GET", slow.location[1:])).code == "4.04"
    assert (await blinds.ask("POST", BLIND, b"up")).code == "4.00"


async def test_a_move_is_observed_through_another_gateway_until_it_is_done(blinds: Blinds) -> None:
    assert (await blinds.ask("iPATCH", BLIND, b'{"pace": 20}')).code == "2.04"
    move = (await blinds.ask("POST", BLIND, b"1000")).location[1:]
    uri = f"coaps://127.0.0.1:{blinds.a.process.parts.coap.coaps_port}/{move}"
    async for seen in blinds.client.observe(uri):
        if json.loads(seen.payload)["done"]:
            break
        assert (await blinds.ask("PUT", BLIND, b"0")).code == "2.04"  # another move ends it
    assert json.loads(seen.payload)["done"]


async def test_what_is_asked_with_fetch_is_observed_through_another_gateway(
    blinds: Blinds,
) -> None:
    caller = await aiocoap.Context.create_client_context()
    uri = f"coap://127.0.0.1:{blinds.a.process.parts.coap.coap_port}/{BLIND}"
    asked = aiocoap.Message(code=aiocoap.FETCH, uri=uri, payload=b'["pace"]', observe=0)
    asked.opt.content_format = 50
    request = caller.request(asked)
    before = json.loads((await request.response).payload)["pace"]
    told = aiter(request.observation)
    assert (await blinds.ask("iPATCH", BLIND, b'{"pace": 20}')).code == "2.04"
    blinds.motor.changed()
    while (now := json.loads((await anext(told)).payload)["pace"]) == before:
        pass
    assert now == 20
    request.observation.cancel()
    await caller.shutdown()


async def test_a_post_with_a_name_moves_the_motor_once_whichever_way_it_is_asked_again(
    blinds: Blinds,
) -> None:
    uri = f"coaps://127.0.0.1:{blinds.a.process.parts.coap.coaps_port}/{BLIND}"
    name = b"\0" + b"onemove"
    first = await blinds.client.request("POST", uri, payload=b"1", request_id=name)
    again = await blinds.client.request("POST", uri, payload=b"1", request_id=b"\1" + name[1:])
    assert (first.code, first.location) == ("2.01", f"/{BLIND}/moves/1")
    assert again == first


async def test_a_proxy_and_topics_reach_a_device_and_its_children_too(blinds: Blinds) -> None:
    caller = await aiocoap.Context.create_client_context()
    request = aiocoap.Message(code=aiocoap.FETCH, payload=b'["at"]')
    request.opt.proxy_uri = "coap://gw-b/sensors/blind"
    request.unresolved_remote = f"127.0.0.1:{blinds.a.process.parts.coap.coap_port}"
    assert (await caller.request(request).response).payload == b'{"at":0}'
    await caller.shutdown()
    anna, rita = await client(blinds.a), await client(blinds.a, "rita", name="c2")
    made = told(await anna.ask("$coap/POST/gw-b/sensors/blind", b"3"))
    assert made["code"] == "2.01"
    assert made["location"].endswith("/sensors/blind/moves/1")
    refused = await rita.ask("$coap/DELETE/gw-b/sensors/blind/moves/1")
    assert told(refused)["code"] == "4.03"
    read = await rita.ask("$coap/GET/gw-b/sensors/blind/moves/1")
    assert (told(read)["code"], json.loads(read.payload)["target"]) == ("2.05", 3)
    removed = await anna.ask("$coap/DELETE/gw-b/sensors/blind/moves/1")
    assert told(removed)["code"] == "2.02"


async def test_the_command_line_calls_a_device_by_any_method(
    blinds: Blinds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = f"coaps://127.0.0.1:{blinds.a.process.parts.coap.coaps_port}"

    async def run(method: str, path: str, *body: str) -> tuple[int, str, str]:
        options = ("--psk-file", str(tmp_path / "psk"))
        called = ["call", method, *options, f"{host}/{path}", *body]
        code = await asyncio.to_thread(cli.main, called)
        told = capsys.readouterr()
        return code, told.out, told.err

    assert await run("post", BLIND, "-2") == (0, f"created /{BLIND}/moves/1\n", "")
    assert await run("ipatch", BLIND, '{"pace": 30}') == (0, "", "")
    assert await run("fetch", BLIND, '["pace"]') == (0, '{"pace":30}\n', "")
    code, _, told = await run("patch", BLIND, "1")
    assert (code, ": 4.05" in told) == (22, True)
    assert await run("delete", f"{BLIND}/moves/1") == (0, "", "")
    etch = ["call", "fetch", "--format", "320", "--psk-file", str(tmp_path / "psk")]
    named = [*etch, f"{host}/sensors", '[{"n": "gw-a/valve"}]']
    assert await asyncio.to_thread(cli.main, named) == 0
    assert '"n":"valve"' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["call", "fetch", host, "[]", "--format", "70000"])


async def test_children_are_in_the_directory_of_their_gateway(blinds: Blinds) -> None:
    move = (await blinds.ask("POST", BLIND, b"2")).location
    found = b""
    while b"moves/1>" not in found:
        found = (
            await blinds.ask("GET", "q/campus/north/gw-b/rd-lookup/res?rt=stepper-move")
        ).payload
    assert (await blinds.ask("DELETE", move[1:])).code == "2.02"
    while b"moves/1>" in found:
        found = (
            await blinds.ask("GET", "q/campus/north/gw-b/rd-lookup/res?rt=stepper-move")
        ).payload
