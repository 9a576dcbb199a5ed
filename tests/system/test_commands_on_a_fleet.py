"""Goal: each command that asks the fleet has a whole answer on a fleet of any size.

Method: fifty gateways in one process, of which the first is asked over CoAP on loopback by the
commands as they are; with ``--soak`` a fleet of twelve processes, and all commands that ask, by the
parser's own list.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from asked_fleet import ACTUATOR, AskedFleet, AskedGateway
from chain import CONVERGE_S
from remote_fleet import Fleet, asking

from coap_engine import codes
from gateway.base import exit_codes
from gateway.coap.directory.fleet_lookup import FleetLookUps
from gateway.coap.operations.hierarchy import PATH as HIERARCHY
from gateway.coap.operations.hierarchy import HierarchyResource, HierarchyView
from gateway.coap.operations.status import PATH as STATUS
from gateway.coap.operations.status import StatusResource
from gateway.coap_client import CoapClient
from gateway.tools import cli
from gateway.tools.commands.parser import actions, subcommands
from resource_directory.digest import DirectoryDigest
from resource_directory.link_format import WebLink
from resource_directory.registry import Registry
from tests.policies import open_access
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

MANY = 50
SENSORS = 20
LIMIT_S = 60.0
PLACES = {
    "gw-root": ("", ""),
    **{f"gw-{n}": (f"d{n % 3}", f"g{n % 5}") for n in range(1, MANY)},
}


def asking_at(port: int, *arguments: str) -> list[str]:
    """A command that asks the gateway at a port: all name it in the same way."""
    return [*arguments, "--host", f"127.0.0.1:{port}"]


def status_of(number: int) -> dict[str, Any]:
    """As long as a gateway's of such a fleet is, which takes several blocks."""
    name = list(PLACES)[number]
    domain, group = PLACES[name]
    return {
        "id": name,
        "domain": domain,
        "group": group,
        "root": "gw-root",
        "parent": None if number == 0 else list(PLACES)[(number - 1) // 3],
        "cost_ms": 1.0,
        "mqtt_clients": number,
        "neighbours": [],
        "places": {one: "/".join(part or "-" for part in at) for one, at in PLACES.items()},
        "counters": {f"hedgerow_counter_{n}": number * n for n in range(250)},
    }


class ManyGateways:
    """Fifty of them, and what the commands print that ask the first."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.fleet = Fleet(places=PLACES, silent=())
        self._capsys = capsys
        for number, node in enumerate(self.fleet.nodes.values()):
            node.site.add_resource(STATUS, self._status(number))
        root = self.fleet.root
        view = HierarchyView("gw-root", root.members)
        root.site.add_resource(HIERARCHY, HierarchyResource(view, lambda _: True))

    async def run(self, *arguments: str) -> str:
        """Run a command, which has to succeed; returns what it printed."""
        asked = asking_at(self.fleet.served.coap_port, *arguments, "--timeout", f"{LIMIT_S}")
        async with asyncio.timeout(LIMIT_S):
            code = await asyncio.to_thread(cli.main, asked)
        out, err = self._capsys.readouterr()
        assert (code, err) == (0, "")
        return out

    @staticmethod
    def _status(number: int) -> StatusResource:
        """One that is another whenever it is asked, as counters are."""
        asked = [0]

        def status() -> dict[str, Any]:
            asked[0] += 1
            return {**status_of(number), "asked": asked[0]}

        return StatusResource(status, lambda _: True)


class Directories:
    """The registrations at each directory, as the first one asks for them."""

    def __init__(self) -> None:
        members = Membership()
        self._links: dict[str, bytes] = {}
        for number, (name, (domain, group)) in enumerate(PLACES.items(), 1):
            digest = DirectoryDigest()
            registry = Registry(listeners=(digest,))
            links = [WebLink(f"/sensors/{n}", (("rt", "temperature"),)) for n in range(SENSORS)]
            registry.register(name, links, 0.0, base=f"coap://10.0.0.{number}")
            members.update(
                MemberRecord(
                    id=name,
                    epoch=1,
                    version=1,
                    domain=domain,
                    group=group,
                    address=f"10.0.0.{number}",
                    mqtt_port=1883,
                    coap_port=5683,
                    capability=1.0,
                    offers=digest.take(),
                )
            )
            told = (f'<coap://10.0.0.{number}{one.href}>;rt="temperature"' for one in links)
            self._links[name] = ",".join(told).encode()
        self.look_ups = FleetLookUps("gw-root", members, open_access(), self._ask, self)

    async def _ask(self, record: MemberRecord, _asked: ResourceRequest) -> ResourceResponse:
        return ResourceResponse(codes.CONTENT, self._links[record.id], 40)

    def answer(self, *_: object) -> None:
        """A look-up in the first one's own directory alone is not asked for."""

    def subscribe(self, *_: object) -> Callable[[], None]:
        """Nobody observes."""
        return lambda: None

    def in_reach(self, _gateway_id: str) -> bool:
        return True


@pytest.fixture
async def many(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[ManyGateways]:
    made = ManyGateways(capsys)
    directories = Directories()
    async with asking(made.fleet, further=(directories.look_ups,)):
        yield made


async def test_the_tree_of_fifty_gateways_is_told_whole(many: ManyGateways) -> None:
    told = json.loads(await many.run("tree", "--json"))
    assert (set(told["gateways"]), told["silent"]) == (set(PLACES), {})
    assert told["roots"] == ["gw-root"]
    drawn = await many.run("tree")
    assert all(f"{name}  " in drawn for name in PLACES)


async def test_the_hierarchy_of_fifty_gateways_is_told_whole(many: ManyGateways) -> None:
    told = json.loads(await many.run("hierarchy", "--json"))
    assert {one["id"] for one in told["gateways"]} == set(PLACES)
    drawn = await many.run("hierarchy")
    assert all(name in drawn for name in PLACES)


async def test_one_resource_of_fifty_gateways_is_read_of_each(many: ManyGateways) -> None:
    out = await many.run("get", "/q/*/*/*/status", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert sorted(one["gateway"] for one in told) == sorted(PLACES)
    assert {one["code"] for one in told} == {"2.05"}
    assert {json.loads(one["payload"])["id"] for one in told} == set(PLACES)


async def test_one_of_fifty_gateways_is_read_and_set_by_its_name(many: ManyGateways) -> None:
    assert await many.run("put", "/q/d1/g1/gw-31/probe", "7") == ""
    assert many.fleet.nodes["gw-31"].probe.value == b"7"
    assert await many.run("get", "/q/d1/g1/gw-31/probe") == "7\n"
    assert await many.run("observe", "/q/d1/g1/gw-31/probe", "--count", "1") == "7\n"


async def test_what_is_registered_at_fifty_gateways_is_found_whole(many: ManyGateways) -> None:
    found = json.loads(await many.run("discover", "--rt", "temperature", "--json"))
    assert found["missing"]["count"] == 0
    assert len(found["resources"]) == MANY * SENSORS


TWELVE = [Place("", ""), *(Place(f"d{n % 3}", f"g{n % 2}") for n in range(11))]
LINE_MAX = 1 << 20
WAYS = ("--watch", "--forget", "--kick", "--id", "--count", "--every", "--scope", "--rt")
"""Options that have a command do another thing than without them, or find other things."""


def commands_that_ask() -> set[str]:
    """All that ask a running gateway: each with each of its actions, and with each of `WAYS`."""
    found: set[str] = set()
    for name, command in subcommands(cli.command_line()).items():
        options = actions(command)
        if not {"gateway", "psk_file", "host"} & {one.dest for one in options}:
            continue
        words = [one.choices for one in options if one.choices and not one.option_strings]
        found.update(f"{name} {word}" for word in (words[0] if words else ()))
        found.update(() if words else (name,))
        if name not in ("pub", "sub"):
            found.update(
                f"{name} {way}" for one in options for way in one.option_strings if way in WAYS
            )
    return found


ASKED: set[str] = set()
"""The commands that were asked, as `commands_that_ask` names them."""


def note(name: str, *arguments: str) -> None:
    """Remember that a command was asked."""
    ASKED.add(name)
    ASKED.update(f"{name} {one}" for one in arguments)


async def begun(*arguments: str, **settings: Any) -> asyncio.subprocess.Process:
    """A command that runs, and what it prints can be read."""
    command = (sys.executable, "-m", "gateway.tools.cli", *arguments)
    return await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, **settings
    )


async def watched(near: AskedGateway, lines: int, *arguments: str) -> list[str]:
    """So many lines of a command that ends with Ctrl-C alone."""
    note(*arguments)
    process = await begun(
        *asking_at(near.coap_port, *arguments), stderr=asyncio.subprocess.DEVNULL, limit=LINE_MAX
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            found = [(await _line_of(process)).decode() for _ in range(lines)]
        assert all(found), arguments
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(LIMIT_S):
            code = await process.wait()
    assert code == exit_codes.INTERRUPTED, arguments
    return found


async def hedgerow(near: AskedGateway, *arguments: str) -> str:
    """Run a command, which has to succeed; return what it prints."""
    note(*arguments)
    process = await begun(*asking_at(near.coap_port, *arguments), stderr=asyncio.subprocess.PIPE)
    out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, ""), arguments
    return out.decode()


async def registered(at: AskedGateway) -> None:
    """Have an endpoint in a gateway's directory."""
    async with CoapClient() as client:
        uri = at.uri("/rd?ep=lamp&base=coap://lamp.example")
        answer = await client.request("POST", uri, payload=b"</light>", content_format=40)
    assert answer.code == "2.01"


async def published_and_kicked(at: AskedGateway) -> None:
    """Publish to a subscriber, see it among the clients, and close its connection."""
    mqtt = ("--host", "127.0.0.1", "--port", str(at.port))
    note("sub")
    listening = await begun(
        "sub", "-t", "a/b", "-i", "listener", *mqtt, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        names = set[str]()
        while "listener" not in names:
            told = json.loads(await hedgerow(at, "clients", "--json"))
            names = {one["id"] for one in told if one["is_connected"]}
        listener = json.loads(await hedgerow(at, "clients", "show", "listener", "--json"))
        assert listener["is_connected"]
        heard = asyncio.create_task(_line_of(listening))
        while not heard.done():
            code = await _run("pub", "-t", "a/b", "-m", "hello", *mqtt)
            assert code == 0
            await asyncio.wait((heard,), timeout=0.2)
        assert b"hello" in heard.result()
        assert "disconnected" in await hedgerow(at, "clients", "--kick", "listener", "--forget")
    finally:
        if listening.returncode is None:
            listening.terminate()
        await listening.wait()


async def _line_of(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


async def _run(*arguments: str) -> int:
    note(*arguments)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.tools.cli", *arguments
    )
    return await process.wait()


async def called(near: AskedGateway, other: AskedGateway) -> None:
    """Each method of `call`, at the gateway that is asked and at another one."""
    for at in (near, other):
        path = f"{at.name}:/sensors/{ACTUATOR}"
        for method, body in (("fetch", "a"), ("patch", "b"), ("ipatch", "c")):
            assert await hedgerow(near, "call", method, path, body) == f"{body}\n"
        await hedgerow(near, "call", "post", path, f"for-{near.name}")
        job = f"{path}/for-{near.name}"
        assert await hedgerow(near, "call", "delete", job) == "ended\n"


async def found_by_its_id(near: AskedGateway, other: AskedGateway) -> None:
    """Commands that ask one gateway ask another one that is named, through it."""
    at = ("--at", other.name, "--json")
    assert json.loads(await hedgerow(near, "status", *at))["id"] == other.name
    assert json.loads(await hedgerow(near, "hierarchy", *at))["id"] == other.name
    assert json.loads(await hedgerow(near, "top", "--once", *at))["gateway"]["id"] == other.name
    assert isinstance(json.loads(await hedgerow(near, "clients", "list", *at)), list)
    names = {one["name"] for one in json.loads(await hedgerow(near, "sensors", "list", *at))}
    assert names
    own = json.loads(await hedgerow(near, "status", "--at", near.name, "--json"))
    assert own["id"] == near.name


async def watched_by_commands(near: AskedGateway, names: set[str]) -> None:
    """Each command that shows something again and again tells of all of them each time."""
    again = ("--watch", "0.1", "--json")
    for told in await watched(near, 2, "tree", *again):
        assert set(json.loads(told)["gateways"]) == names
    for told in await watched(near, 2, "hierarchy", *again):
        assert {one["id"] for one in json.loads(told)["gateways"]} == names
    for told in await watched(near, 2, "status", *again):
        assert json.loads(told)["id"] == near.name
    for told in await watched(near, 2, "clients", *again):
        assert isinstance(json.loads(told), list)
    kept = {
        json.loads(one)["ep"]
        for one in await watched(near, 1, "rd", "watch", "--every", "1", "--json")
    }
    assert kept
    await watched(near, 1, "observe", f"/sensors/{ACTUATOR}", "--every", "0.1", "--json")
    found = json.loads(
        await hedgerow(near, "discover", "--rt", "counted", "--scope", "all", "--json")
    )
    assert found["missing"]["count"] == 0


async def doctor(at: AskedGateway) -> str:
    """Run `hedgerow doctor` on a gateway's own machine; return what it finds."""
    note("doctor")
    process = await begun(
        "doctor", "--config", str(at.config), "--json", stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert err == b""
    return out.decode()


async def forgotten(near: AskedGateway, gone: AskedGateway) -> None:
    """Take one out of the records of all that has ended, and see that nobody knows it."""
    async with asyncio.timeout(4 * CONVERGE_S):
        while True:
            listed = json.loads(await hedgerow(near, "members", "--json"))
            if not {one["id"]: one["is_present"] for one in listed}.get(gone.name):
                break
    if gone.name in {one["id"] for one in listed}:
        assert "taken out" in await hedgerow(near, "members", "--forget", gone.name)
    listed = json.loads(await hedgerow(near, "members", "--json"))
    assert gone.name not in {one["id"] for one in listed}


@pytest.mark.soak("twelve processes; fifty gateways in one are asked the same in CI")
async def test_every_command_that_asks_has_a_whole_answer_on_twelve_processes(
    tmp_path: Path,
) -> None:
    names = {f"gw-{number}" for number in range(len(TWELVE))}
    async with AskedFleet(tmp_path, TWELVE) as fleet:
        near, far = fleet.gateways[0], fleet.gateways[-1]

        async def known() -> set[str]:
            told = json.loads(await hedgerow(near, "hierarchy", "--json"))
            return {one["id"] for one in told["gateways"]}

        async with asyncio.timeout(4 * CONVERGE_S):
            while await known() != names:
                await asyncio.sleep(0.2)
            found: set[str] = set()
            while len(found) < len(names):  # the directories' digests come after the members
                offered = json.loads(await hedgerow(near, "discover", "--json"))
                found = {name for name in names if name in json.dumps(offered)}
        for at in (near, far):
            told = json.loads(await hedgerow(at, "tree", "--json"))
            assert (set(told["gateways"]), told["silent"]) == (names, {})
            drawn = await hedgerow(at, "tree")
            assert all(f"{name}  " in drawn for name in names)
            listed = json.loads(await hedgerow(at, "members", "--json"))
            assert {one["id"] for one in listed} == names
            assert json.loads(await hedgerow(at, "status", "--json"))["id"] == at.name
            assert isinstance(json.loads(await hedgerow(at, "clients", "--json")), list)
            assert json.loads(await hedgerow(at, "rd", "list", "--json"))
            assert json.loads(await hedgerow(at, "rd", "search", "--json"))
            assert ACTUATOR in await hedgerow(at, "sensors", "list")
            read = await hedgerow(at, "get", f"*/{ACTUATOR}", "--json")
            codes = {one["gateway"]: one["code"] for one in map(json.loads, read.splitlines())}
            assert codes == dict.fromkeys(names, "2.05")
            added = await hedgerow(at, "sensors", "add", "type=switch", "name=extra", "--json")
            assert json.loads(added)["names"] == ["extra"]
            removed = await hedgerow(at, "sensors", "remove", "extra", "--json")
            assert json.loads(removed)["names"] == ["extra"]
            await called(at, near if at is far else far)
            await registered(at)
            (listed_,) = json.loads(await hedgerow(at, "rd", "list", "ep=lamp", "--json"))
            assert listed_["ep"] == "lamp"
            assert "lamp is removed" in await hedgerow(at, "rd", "remove", "ep=lamp")
            await published_and_kicked(at)
        await hedgerow(near, "put", f"{far.name}/{ACTUATOR}", "3")
        await hedgerow(far, "put", f"{near.name}/{ACTUATOR}", "4")
        assert (list(far.effects), list(near.effects)) == ([3], [4])
        observed = await hedgerow(
            near, "observe", f"{far.name}/{ACTUATOR}", "--count", "1", "--json"
        )
        assert json.loads(json.loads(observed)["payload"])[0]["v"] == 3
        await found_by_its_id(near, far)
        await watched_by_commands(near, names)
        assert json.loads(await doctor(near))["is_well"]
        assert f"{far.name} is drained" in await hedgerow(far, "drain")
        await forgotten(near, far)
    assert commands_that_ask() <= ASKED, "a command is not tried on twelve processes"
