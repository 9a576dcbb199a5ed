"""`--at` names another gateway of the fleet; what is no gateway is told in a line."""

from __future__ import annotations

import asyncio
import json

import pytest
from coap_partner import Behaviour, partner, says, tells

from gateway.tools.cli import command_line, main

STATUS = {
    "id": "gw-north",
    "version": "0.2.0",
    "up_s": 1.0,
    "places": {"gw-north": "campus/north", "gw-south": "campus/south"},
}
THERE = {"id": "gw-south", "version": "0.2.0", "up_s": 5.0}


async def hedgerow(
    capsys: pytest.CaptureFixture[str], *words: str, **paths: Behaviour
) -> tuple[int, str, str, list[str]]:
    """Run a command that asks a partner; its code, what it printed, and what was asked."""
    async with partner() as (made, address):
        made.paths |= {"status": tells(STATUS), "q/campus/south/gw-south/status": tells(THERE)}
        made.paths |= paths
        arguments = [*words, "--host", address, "--timeout", "20"]
        code = await asyncio.to_thread(main, arguments)
    told = capsys.readouterr()
    return code, told.out, told.err, made.asked


async def test_a_gateway_is_asked_through_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err, asked = await hedgerow(capsys, "status", "--at", "gw-south", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == THERE
    assert asked == ["status", "q/campus/south/gw-south/status"]


async def test_the_gateway_itself_is_asked_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err, asked = await hedgerow(capsys, "status", "--at", "gw-north", "--json")
    assert (code, err) == (0, "")
    assert asked == ["status", "status"]


async def test_an_id_that_nobody_has_is_told_with_the_near_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err, _ = await hedgerow(capsys, "clients", "--at", "gw-soth")
    assert code == 1
    assert err == "hedgerow: --at: gw-north knows no gateway 'gw-soth', did you mean gw-south?\n"


async def test_a_stranger_is_told_that_a_key_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    told = tells({"id": "gw-north"})
    code, _, err, _ = await hedgerow(capsys, "sensors", "list", "--at", "gw-south", status=told)
    assert code == 1
    assert err == "hedgerow: --at: gw-north does not tell whom it knows without --psk-file\n"


@pytest.mark.parametrize("command", ["status", "tree", "hierarchy", "clients", "members", "alerts"])
async def test_an_answer_that_is_no_json_is_told_in_a_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    garbage = says(b"\xff{")
    paths = dict.fromkeys(("status", "hierarchy", "clients", "members", "alerts"), garbage)
    code, out, err, _ = await hedgerow(capsys, command, **paths)
    assert (code, out) == (1, "")
    assert err.startswith("hedgerow: its answer is no JSON that can be read")
    assert err.count("\n") == 1


def test_only_commands_that_ask_one_gateway_name_another() -> None:
    with pytest.raises(SystemExit):
        command_line().parse_args(["tree", "--at", "gw-south"])


THERE_PREFIX = "q/campus/south/gw-south/"
ANSWERS = {
    "hierarchy": {},
    "drain": {},
    "sensors": {"sensors": [], "names": ["pump"]},
    "sensors/pump": {"names": ["pump"]},
    "clients": {"clients": [], "has_more": False, "was_connected": True, "is_forgotten": False},
    "members": {"members": [], "as_of": 0},
    "alerts": {"alerts": [], "rules": [], "silences": [], "ways": []},
}


@pytest.mark.parametrize(
    "command",
    [
        *("status", "hierarchy", "top --once", "drain"),
        *("sensors list", "sensors add type=switch name=pump", "sensors change pump unit=V"),
        *("sensors remove pump", "rd list", "rd search", "rd remove ep=x"),
        *("clients list", "clients show x", "clients kick x", "members list", "members forget x"),
        *("alerts list", "alerts rules", "alerts silence rule=disk-full", "alerts test"),
    ],
)
async def test_whatever_is_asked_of_another_one_the_gateway_between_only_tells_where_it_is(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is drained or forgotten here in its place, whatever the answers are."""
    paths = {THERE_PREFIX + path: tells(answer) for path, answer in ANSWERS.items()}
    words = [*command.split(), "--at", "gw-south"]
    _, _, _, (first, *others) = await hedgerow(capsys, *words, **paths)
    assert first == "status"
    assert others
    assert {path.startswith(THERE_PREFIX) for path in others} == {True}
