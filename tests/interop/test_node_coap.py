"""Goal: a CoAP client of another language uses a gateway as ours do.

Method: Node's `coap` package against a gateway's process, on loopback.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from coap_gateway import CoapGateway
from missing_peer import skip_or_fail_in_ci
from remote_clients import changes

FOLDER = Path(__file__).parent / "node_coap"
LIMIT_S = 60


@dataclass(frozen=True)
class Answer:
    """One response as the client printed it."""

    code: str
    payload: bytes
    location: list[str]

    @classmethod
    def read(cls, line: str) -> Answer:
        found = json.loads(line)
        return cls(found["code"], base64.b64decode(found["payload"]), found["location"])


class Node:
    """The client, and the gateway that it talks to."""

    def __init__(self, gateway: CoapGateway) -> None:
        self._gateway = gateway

    def ask(self, method: str, path: str, query: str = "", **more: Any) -> Answer:
        done = subprocess.run(
            self._command(method, path, query, more),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Answer.read(done.stdout)

    @contextlib.contextmanager
    def observing(self, path: str, query: str = "", **more: Any) -> Iterator[Iterator[Answer]]:
        process = subprocess.Popen(
            self._command("GET", path, query, {"observe": True, **more}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield changes(map(Answer.read, process.stdout))
        finally:
            process.stdin.close()
            process.wait(LIMIT_S)

    def _command(self, method: str, path: str, query: str, more: dict[str, Any]) -> list[str]:
        if isinstance(more.get("payload"), bytes):
            more = {**more, "payload": base64.b64encode(more["payload"]).decode()}
        asked = {"method": method, "port": self._gateway.port, "path": path, "query": query}
        return ["node", str(FOLDER / "client.js"), json.dumps(asked | more)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if shutil.which("node") is None or not (FOLDER / "node_modules" / "coap").is_dir():
        missing = f"Node's coap is not installed: npm ci --prefix {FOLDER.name}"
        skip_or_fail_in_ci(missing)
    gateway = CoapGateway(tmp_path_factory.mktemp("gateway"))
    try:
        yield Node(gateway)
    finally:
        gateway.stop()


def test_it_registers_is_found_updates_and_leaves(node: Node) -> None:
    made = node.ask("POST", "/rd", "ep=node-js&lt=600", format=40, payload=b"</t>;rt=js-thing")
    assert made.code == "2.01"
    location = "/" + "/".join(made.location)
    found = node.ask("GET", "/rd-lookup/res", "rt=js-thing")
    assert found.code == "2.05"
    assert found.payload.endswith(b'/t>;rt="js-thing"')
    assert node.ask("POST", location, "lt=700").code == "2.04"
    assert location.encode() in node.ask("GET", "/rd-lookup/ep", "lt=700&ep=node-js").payload
    assert node.ask("DELETE", location).code == "2.02"
    assert node.ask("GET", "/rd-lookup/res", "rt=js-thing").payload == b""


def test_it_observes_a_look_up(node: Node) -> None:
    with node.observing("/rd-lookup/ep", "et=observed") as answers:
        assert next(answers).payload == b""
        made = node.ask("POST", "/rd", "ep=seen&et=observed", format=40, payload=b"</a>")
        assert b'ep="seen"' in next(answers).payload
        node.ask("DELETE", "/" + "/".join(made.location))
        assert next(answers).payload == b""


def test_it_observes_and_switches_an_actuator(node: Node) -> None:
    with node.observing("/sensors/valve", accept=0) as answers:
        assert next(answers).payload == b"0.0"
        assert node.ask("PUT", "/sensors/valve", format=0, payload=b"1").code == "2.04"
        assert next(answers).payload == b"1.0"
        assert node.ask("PUT", "/sensors/valve", format=0, payload=b"0").code == "2.04"
        assert next(answers).payload == b"0.0"


def test_it_sends_and_gets_in_blocks(node: Node) -> None:
    links = ",".join(f'</sensors/{number}>;rt="js-{number}"' for number in range(300)).encode()
    made = node.ask("POST", "/rd", "ep=large&base=coap://h", format=40, payload=links)
    assert made.code == "2.01"
    location = "/" + "/".join(made.location)
    assert node.ask("GET", location).payload == links
    assert node.ask("GET", "/rd-lookup/res", "ep=large").payload.count(b"coap://h/sensors/") == 300
    assert node.ask("DELETE", location).code == "2.02"


def test_it_fetches_sensors_by_name(node: Node) -> None:
    answer = node.ask("FETCH", "/sensors", format=320, payload=b'[{"n":"valve"}]')
    assert answer.code == "2.05"
    (record,) = json.loads(answer.payload)
    assert (record["bn"], record["n"], record["v"]) == ("gw/", "valve", 0.0)


def test_it_is_told_what_is_wrong(node: Node) -> None:
    assert node.ask("GET", "/nowhere").code == "4.04"
    refused = node.ask("POST", "/rd", "ep=x&lt=0", format=40, payload=b"</a>")
    assert refused.code == "4.00"
    assert b"lt" in refused.payload
