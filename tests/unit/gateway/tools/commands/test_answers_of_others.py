"""A command that a gateway answers otherwise than it should says so in a line, and ends.

So does one of another version, or what is no gateway and speaks CoAP.
"""

from __future__ import annotations

import asyncio

import pytest
from coap_partner import partner, tells

from gateway.base import exit_codes
from gateway.tools.cli import main

PATHS = (
    *("status", "hierarchy", "drain", "sensors", "sensors/pump", "clients", "members", "alerts"),
    *("rd-lookup/ep", "rd-lookup/res", "log"),
)
LISTS = ("clients", "members", "alerts", "sensors", "names", "neighbours", "gateways", "rules")
COMMANDS = (
    *("status", "hierarchy", "tree", "top --once", "top --once --fleet", "drain"),
    *("sensors list", "sensors add type=switch name=pump", "sensors change pump unit=V"),
    *("sensors remove pump", "rd list", "rd search", "rd remove ep=x", "discover", "get gw-a:/x"),
    *("clients list", "clients show x", "clients kick x", "members list", "members forget x"),
    *("alerts list", "alerts rules", "alerts show x", "alerts ack x", "alerts test"),
    *("alerts silence rule=disk-full", "alerts unsilence 1", "status --at gw-b"),
)
ANSWERS = (
    *({}, [], None, 5, "x", [5], {"id": 5}),
    {"id": "gw-a", "places": 5, **dict.fromkeys(LISTS, 5)},
    {"id": "gw-a", "places": {"gw-a": 5, "gw-b": []}, **{key: [5] for key in LISTS}},
    {"id": "gw-a", "places": {}, "boot_epoch": 1, **{key: [{}] for key in LISTS}},
)


@pytest.mark.drawn(60)
@pytest.mark.parametrize("told", ANSWERS, ids=repr)
@pytest.mark.parametrize("command", COMMANDS)
async def test_what_no_gateway_of_this_version_answers_is_told_in_a_line(
    command: str, told: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async with partner() as (made, address):
        made.paths |= dict.fromkeys(PATHS, tells(told))
        arguments = [*command.split(), "--host", address, "--timeout", "20"]
        code = await asyncio.to_thread(main, arguments)
    _, err = capsys.readouterr()
    assert code in (exit_codes.DONE, exit_codes.FAILED)
    assert all(line.startswith("hedgerow: ") for line in err.splitlines()), err
    assert "Traceback" not in err
