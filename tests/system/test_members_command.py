"""`hedgerow members`: who may say that a gateway will not come back, and what comes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until

from gateway.tools import cli
from tests import policies


@pytest.fixture
async def line(tmp_path: Path) -> AsyncIterator[list[FleetGateway]]:
    """Three gateways in a line; the last one's Pi was lost."""
    fleet = Fleet(tmp_path)
    keys = tmp_path / "psk"
    keys.touch(0o600)
    keys.write_text("".join(f"{who}:{'cd' * 32}\n" for who in ("boss", "operator")))
    policies.write(tmp_path / "policy.toml", boss="admin", operator="operator")
    a, b, c = made = [fleet.gateway(f"gw-{name}", tls=False) for name in "abc"]
    a.coap = f'dtls_port = 0\npsk_file = "{keys}"'
    a.access = f'policy_file = "{tmp_path}/policy.toml"'
    await a.start(capability=3.0)
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    await c.start(neighbours=[f"127.0.0.1:{b.port}"])
    await until(lambda: all(members(one) == {"gw-a", "gw-b", "gw-c"} for one in made))
    await c.stop()
    await until(lambda: "gw-c" not in a.process.parts.node.locator.reached)
    yield made
    await fleet.stop()


def members(gateway: FleetGateway) -> set[str]:
    return {record.id for record in gateway.process.parts.members.known}


async def hedgerow(gateway: FleetGateway, *arguments: str, identity: str = "") -> int:
    """Run `hedgerow members` against a gateway."""
    server = gateway.process.parts.coap
    port = server.coaps_port if identity else server.coap_port
    key = ["--psk-file", str(gateway.folder.parent / "psk"), "--psk-identity", identity]
    command = ["members", f"127.0.0.1:{port}", *(key if identity else ()), *arguments]
    return await asyncio.to_thread(cli.main, command)


async def test_who_has_the_right_takes_a_lost_gateway_out_of_the_records_of_all(
    line: list[FleetGateway], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = line
    assert await hedgerow(a, "--json") == 0
    told = {one["id"]: one["is_present"] for one in json.loads(capsys.readouterr().out)}
    assert told == {"gw-a": True, "gw-b": True, "gw-c": False}
    refusals = {"": "4.01", "operator": "4.03 psk:operator (operator) may not DELETE this"}
    for identity, refusal in refusals.items():
        assert await hedgerow(a, "--forget", "gw-c", identity=identity) == 1
        assert refusal in capsys.readouterr().err
    for present, refusal in (("gw-a", "4.09"), ("gw-b", "4.09"), ("gw-x", "4.04")):
        assert await hedgerow(a, "--forget", present, identity="boss") == 1
        assert refusal in capsys.readouterr().err
    assert members(b) == {"gw-a", "gw-b", "gw-c"}

    assert await hedgerow(a, "--forget", "gw-c", identity="boss") == 0
    assert capsys.readouterr().out == "gw-c is taken out of the fleet's records\n"
    await until(lambda: members(a) == members(b) == {"gw-a", "gw-b"})
    trail = (a.folder / "state" / "audit.jsonl").read_text().splitlines()
    (noted,) = [row for row in map(json.loads, trail) if row["what"] == "member taken out"]
    assert (noted["who"], noted["name"]) == ("psk:boss", "gw-c")
    assert await hedgerow(a) == 0
    assert "gw-b     -/-    127.0.0.1  in the tree" in capsys.readouterr().out

    await c.start(neighbours=[f"127.0.0.1:{b.port}"])  # it was found after all
    await until(lambda: members(a) == {"gw-a", "gw-b", "gw-c"})
