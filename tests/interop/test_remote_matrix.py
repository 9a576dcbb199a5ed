"""Goal: three clients that others wrote read, write, observe, send and get in blocks, have a
gateway as their proxy and ask many at once, each over two links and over four.

Method: the line of five gateways of `test_remote_chain`; that gw-2 is two links away and gw-4 four,
a test there shows by the Hop-Limit that it takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from remote_chain import started
from remote_clients import LIMIT_S, LINKS, TEXT, Aiocoap, Client, Libcoap, Node, RefusedError

AWAY = pytest.mark.parametrize("target", ["gw-2", "gw-4"])
CLIENTS = pytest.mark.parametrize(
    "client",
    [
        pytest.param(
            Libcoap, id="libcoap", marks=pytest.mark.peer("coap-client-notls", "libcoap3-bin")
        ),
        pytest.param(Aiocoap, id="aiocoap"),
        pytest.param(Node, id="node"),
    ],
    indirect=True,
)
pytestmark = [CLIENTS, AWAY]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port at which gw-0 takes CoAP."""
    process, ports = started(tmp_path_factory.mktemp("chain"), "flood")
    yield ports[0]
    process.communicate("", LIMIT_S)


@pytest.fixture
def client(request: pytest.FixtureRequest, port: int) -> Client:
    made: Client = request.param(port)
    return made


def valve(target: str) -> str:
    return f"/q/-/-/{target}/sensors/valve"


def test_reads_what_it_has_written(client: Client, target: str) -> None:
    for value in (b"1", b"0"):
        assert client.ask("PUT", valve(target), value, form=TEXT) == b""
        assert client.ask("GET", valve(target), accept=TEXT) == value + b".0"
    with pytest.raises(RefusedError, match=r"4\.00"):
        client.ask("PUT", valve(target), b"7", form=TEXT)
    with pytest.raises(RefusedError, match=r"4\.04"):
        client.ask("GET", f"/q/-/-/{target}/sensors/nothing")


def test_observes(client: Client, target: str) -> None:
    with client.observing(valve(target)) as told:
        assert told() == b"0.0"
        for value in (b"1", b"0"):
            client.ask("PUT", valve(target), value, form=TEXT)
            assert told() == value + b".0"


def test_sends_in_blocks_and_gets_in_blocks(client: Client, target: str) -> None:
    name = type(client).__name__
    links = ",".join(f'</many/{number}>;rt="t{number}"' for number in range(400)).encode()
    client.ask("POST", f"/q/-/-/{target}/rd?ep={name}&base=coap://h", links, form=LINKS)
    found = client.ask("GET", f"/q/-/-/{target}/rd-lookup/ep?ep={name}").decode()
    registration = found[1 : found.index(">")]
    path = registration if registration.startswith("/q/") else f"/q/-/-/{target}{registration}"
    assert client.ask("GET", path) == links
    client.ask("DELETE", path)
    with pytest.raises(RefusedError, match=r"4\.04"):
        client.ask("GET", path)


def test_has_the_gateway_as_its_proxy(client: Client, target: str) -> None:
    there = f"coap://{target}/sensors/valve"
    for value in (b"1", b"0"):
        assert client.ask("PUT", "", value, form=TEXT, proxy_uri=there) == b""
        assert client.ask("GET", "", accept=TEXT, proxy_uri=there) == value + b".0"
    with pytest.raises(RefusedError, match=r"5\.05"):
        client.ask("GET", "", proxy_uri="coap://example.net/sensors/valve")


def test_asks_all_by_a_wildcard(client: Client, target: str) -> None:
    client.ask("PUT", valve(target), b"1", form=TEXT)
    try:
        records = json.loads(client.ask("GET", "/q/-/-/*/sensors/valve"))
    finally:
        client.ask("PUT", valve(target), b"0", form=TEXT)
    all_five = [f"gw-{number}" for number in range(5)]
    statuses = {one["n"]: one["vs"] for one in records if "vs" in one}
    assert statuses == {f"{each}/.status": "2.05" for each in all_five}
    values = {one["n"]: one["v"] for one in records if "v" in one}
    assert values == {f"{each}/valve": float(each == target) for each in all_five}
