"""Goal: clients that others wrote read, write and observe a gateway two and four hops away.

Method: five gateways in a line, in one process; clients talk to the first. What a hop is counts
links: gw-2 is two away, gw-4 four.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiocoap
import pytest
from aiocoap.numbers.codes import Code
from missing_peer import skip_or_fail_in_ci
from remote_chain import started
from remote_clients import changes

NODE = Path(__file__).parent / "node_coap"
LIMIT_S = 60
LIBCOAP = pytest.mark.peer("coap-client-notls", "libcoap3-bin")
AWAY = pytest.mark.parametrize("target", ["gw-2", "gw-4"])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port at which gw-0 takes CoAP."""
    process, ports = started(tmp_path_factory.mktemp("chain"), "flood")
    yield ports[0]
    process.communicate("", LIMIT_S)


def libcoap(*arguments: str) -> str:
    """Run libcoap's client; return what it prints."""
    done = subprocess.run(
        ["coap-client-notls", "-B", "30", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return (done.stdout + done.stderr).strip()


@LIBCOAP
@AWAY
def test_libcoap_reads_and_writes_by_the_long_name(port: int, target: str) -> None:
    valve = f"coap://127.0.0.1:{port}/q/-/-/{target}/sensors/valve"
    assert json.loads(libcoap(valve))[0]["bn"] == f"{target}/"
    for value in ("1", "0"):
        assert libcoap("-m", "put", "-t", "0", "-e", value, valve) == ""
        assert libcoap("-A", "0", valve) == f"{value}.0"
    assert libcoap("-m", "put", "-t", "0", "-e", "7", valve).startswith("4.00")


@LIBCOAP
@AWAY
def test_libcoap_has_the_first_gateway_as_its_proxy(port: int, target: str) -> None:
    proxy = ("-P", f"coap://127.0.0.1:{port}")
    assert libcoap("-A", "0", *proxy, f"coap://{target}/sensors/valve") == "0.0"
    away = int(target.removeprefix("gw-"))
    for too_few in range(1, away + 1):
        there = libcoap("-H", str(too_few), *proxy, f"coap://{target}/sensors/valve?n={too_few}")
        assert there.startswith("5.08")
    enough = libcoap("-H", str(away + 1), "-A", "0", *proxy, f"coap://{target}/sensors/valve?n=0")
    assert enough == "0.0"
    assert libcoap(*proxy, "coap://example.net/sensors/valve").startswith("5.05")


@LIBCOAP
def test_a_hop_limit_counts_the_way_of_an_observation_too(port: int) -> None:
    valve = f"coap://127.0.0.1:{port}/q/-/-/gw-4/sensors/valve"
    assert libcoap("-H", "1", "-s", "30", "-A", "0", f"{valve}?h=1") == "5.08 gw-0"
    assert libcoap("-H", "4", "-s", "30", "-A", "0", f"{valve}?h=4") == "5.08 gw-0 gw-4"
    with observing("-H", "5", valve) as told:
        told("0.0")


@contextmanager
def observing(*arguments: str) -> Iterator[Callable[[str], None]]:
    """Observe with libcoap's client; what is given waits for a value, as text."""
    command = ["coap-client-notls", "-B", "60", "-s", "60", "-w", "-A", "0", *arguments]
    observer = subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE, text=True)

    def told(value: str) -> None:
        assert observer.stdout is not None
        while (line := observer.stdout.readline()).strip() != value:  # a reading may come again
            assert line, f"{value} was not told"

    try:
        yield told
    finally:
        observer.terminate()
        observer.communicate(timeout=LIMIT_S)


@LIBCOAP
def test_libcoap_observes_four_hops_away(port: int) -> None:
    valve = f"coap://127.0.0.1:{port}/q/-/-/gw-4/sensors/valve"
    with observing(valve) as told:
        told("0.0")
        for value in ("1", "0"):
            libcoap("-m", "put", "-t", "0", "-e", value, valve)
            told(f"{value}.0")


@AWAY
async def test_aiocoap_registers_in_blocks_reads_in_blocks_and_follows_the_location(
    port: int, target: str
) -> None:
    client = await aiocoap.Context.create_client_context(transports=["simple6"])
    base = f"coap://127.0.0.1:{port}"

    async def ask(
        code: Code, path: str, payload: bytes = b"", **options: object
    ) -> aiocoap.Message:
        message = aiocoap.Message(code=code, uri=f"{base}/{path}", payload=payload)
        for name, value in options.items():
            setattr(message.opt, name, value)
        return await client.request(message).response

    links = ",".join(f'</many/{number}>;rt="t{number}"' for number in range(800)).encode()
    try:
        rd = f"q/-/-/{target}/rd?ep=many&base=coap://h"
        made = await ask(Code.POST, rd, links, content_format=40)
        assert made.code == Code.CREATED
        location = "/".join(made.opt.location_path)
        assert location.startswith(f"q/-/-/{target}/rd/")
        whole = await ask(Code.GET, location)
        assert whole.payload == links
        known = await ask(Code.GET, location, etags=[whole.opt.etag])
        assert (known.code, known.payload) == (Code.VALID, b"")
        assert (await ask(Code.DELETE, location)).code == Code.DELETED
        assert (await ask(Code.GET, location)).code == Code.NOT_FOUND
        found = await ask(
            Code.FETCH, f"q/-/-/{target}/sensors", b'[{"n":"valve"}]', content_format=320
        )
        assert json.loads(found.payload)[0]["n"] == "valve"
        large = await ask(Code.PUT, f"q/-/-/{target}/sensors/valve", bytes(70_000))
        assert large.code == Code.REQUEST_ENTITY_TOO_LARGE
    finally:
        await client.shutdown()


@AWAY
def test_node_coap_reads_and_observes(port: int, target: str) -> None:
    if shutil.which("node") is None or not (NODE / "node_modules" / "coap").is_dir():
        missing = f"Node's coap is not installed: npm ci --prefix {NODE.name}"
        skip_or_fail_in_ci(missing)

    def node(**asked: object) -> list[str]:
        return ["node", str(NODE / "client.js"), json.dumps({"port": port, **asked})]

    path = f"/q/-/-/{target}/sensors/valve"
    observer = subprocess.Popen(
        node(method="GET", path=path, accept=0, observe=True),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert observer.stdin is not None
    assert observer.stdout is not None
    told = changes(base64.b64decode(json.loads(line)["payload"]) for line in observer.stdout)
    try:
        assert next(told) == b"0.0"
        for value in (b"1", b"0"):
            payload = base64.b64encode(value).decode()
            put = node(method="PUT", path=path, format=0, payload=payload)
            done = subprocess.run(put, capture_output=True, text=True, timeout=LIMIT_S, check=True)
            assert json.loads(done.stdout)["code"] == "2.04"
            assert next(told) == value + b".0"
    finally:
        observer.stdin.close()
        observer.wait(LIMIT_S)


@LIBCOAP
@pytest.mark.parametrize("mode", ["topic"])
def test_requests_go_to_their_target_alone_in_other_modes_too(tmp_path: Path, mode: str) -> None:
    process, ports = started(tmp_path, mode)
    try:
        valve = f"coap://127.0.0.1:{ports[0]}/q/-/-/gw-4/sensors/valve"
        assert libcoap("-A", "0", valve) == "0.0"
        status = json.loads(libcoap(f"coap://127.0.0.1:{ports[2]}/status"))
        assert status["direct"]["passed_on"] >= 2  # more where an answer took its time
        status = json.loads(libcoap(f"coap://127.0.0.1:{ports[0]}/status"))
        assert status["direct"]["sent"] >= 1
        assert status["direct"]["flooded"] == 0
    finally:
        process.communicate("", LIMIT_S)
