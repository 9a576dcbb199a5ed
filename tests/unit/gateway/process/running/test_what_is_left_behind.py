"""A gateway keeps no cycle of references of those who come and go.

A gateway's collector looks at what has survived a full collection again only when there is much
more of it (`freed_memory`). What it alone could free would stay for that long, and clients, links
and requests come and go for years.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from held_objects import held_objects

pytestmark = pytest.mark.slow

PACKAGES = {"alerts", "coap_engine", "dtls", "gateway", "resource_directory", "tree_handler"}
RUNNING = {"Task", "coroutine", "frame", "traceback"}
TIMES = 5
MANY = 300
LIMIT_S = 60
CONNECT = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00"
SUBSCRIBE = b"\x82\x09\x00\x01\x00\x00\x03a/#\x01"
PUBLISH_AT_QOS_2 = b"\x34\x0a\x00\x03b/c\x00\x01\x00xy"
PUBREL = b"\x62\x02\x00\x01"
UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
GET = b"\x44\x01\x12\x34what\xb7sensors\x04room"
OBSERVE = b"\x44\x01\x12\x35what\x60\x57sensors\x04room"
OBSERVE_NO_MORE = b"\x44\x01\x12\x36what\x61\x01\x57sensors\x04room"
REGISTER = b"\x44\x02\x12\x37what\xb2rd\x45ep=n1\xff</t>"
DRIVER = """
from gateway.sensors.sensor import Actuator

class Valve(Actuator):
    at = 0.0

    def read(self):
        return self.at

    def write(self, value):
        self.at = value

    def handle_post(self, call):
        self.at += float(call.text())
"""
PUT = b"\x44\x03\x12\x39what\xb7sensors\x05valve\xff1"
PUT_IF_NONE_MATCH = b"\x44\x03\x12\x3awhat\x50\x67sensors\x05valve\xff2"
PUT_IF_MATCH = b"\x44\x03\x12\x3bwhat\x10\xa7sensors\x05valve\xff2"
POST = b"\x44\x02\x12\x3cwhat\xb7sensors\x05valve\xff3"
PRECONDITION_FAILED = 0x8C
LOOK_UP = b"\x44\x01\x12\x38what\xb9rd-lookup\x02ep"


@dataclass(frozen=True)
class Met:
    """A gateway and what a visitor has to know of it."""

    fleet: Fleet
    gateway: FleetGateway
    ports: dict[str, int]
    key: Path

    def connected(self, scheme: str, *, is_secure: bool = False) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.ports[scheme]), LIMIT_S)
        if not is_secure:
            return plain
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(plain)


@pytest.fixture
async def met(tmp_path: Path) -> AsyncIterator[Met]:
    fleet = Fleet(tmp_path)
    gateway = fleet.gateway("gw-a")
    key = tmp_path / "psk"
    key.touch(mode=0o600)
    key.write_text(f"operator:{'5a' * 16}\n")
    gateway.mqtt = "websocket_port = 0\nsecure_websocket_port = 0"
    gateway.coap = f'dtls_port = 0\npsk_file = "{key}"'
    gateway.place = f'domain = "campus"\ngroup = "north"\nsensors_dir = "{gateway.folder}"'
    gateway.access = (
        "[console]\nport = 0\nweb = true\n"
        '[[sensors]]\nname = "room"\ntype = "replay"\nseries = "irradiance"\ninterval_s = 3600\n'
        '[[sensors]]\nname = "valve"\ntype = "valve:Valve"\n'
    )
    (gateway.folder / "valve.py").write_text(DRIVER)
    await gateway.start()
    told = json.loads((gateway.folder / "state" / "listeners.json").read_text())
    addresses = {scheme: str(where[0]) for scheme, where in told["listeners"].items()}
    ports = {scheme: int(where.rpartition(":")[2]) for scheme, where in addresses.items()}
    yield Met(fleet, gateway, ports, key)
    await fleet.stop()


def ends(client: socket.socket) -> None:
    """Close, and wait until the gateway has closed too."""
    client.shutdown(socket.SHUT_WR)
    while client.recv(4096):
        pass
    client.close()


def mqtt_clients(met: Met) -> None:
    for scheme in ("mqtt", "mqtts"):
        for _ in range(TIMES):
            client = met.connected(scheme, is_secure=scheme == "mqtts")
            for packet, answer in (
                (CONNECT, 0x20),
                (SUBSCRIBE, 0x90),
                (PUBLISH_AT_QOS_2, 0x50),
                (PUBREL, 0x70),
            ):
                client.sendall(packet)
                assert client.recv(1)[0] == answer
                client.recv(4096)
            client.sendall(b"\xe0\x00")
            ends(client)


def mqtt_clients_that_are_none(met: Met) -> None:
    for scheme in ("mqtt", "mqtts", "ws", "wss"):
        for words in (b"\xff" * 8, b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b""):
            client = met.connected(scheme)
            client.sendall(words)
            ends(client)


def websockets(met: Met) -> None:
    for scheme in ("ws", "wss"):
        for _ in range(TIMES):
            client = met.connected(scheme, is_secure=scheme == "wss")
            client.sendall(UPGRADE)
            assert b" 101 " in client.recv(4096)
            client.sendall(bytes((0x82, 0x80 | len(CONNECT))) + bytes(4) + CONNECT)
            assert client.recv(1)[0] == 0x82
            ends(client)


def coap_clients(met: Met) -> None:
    for _ in range(TIMES):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(LIMIT_S)
            client.connect(("127.0.0.1", met.ports["coap"]))
            for request in (GET, OBSERVE, OBSERVE_NO_MORE, REGISTER, LOOK_UP):
                client.send(request)
                assert client.recv(4096)[1] >> 5 == 2
            for request in (PUT, POST, PUT_IF_MATCH, PUT_IF_NONE_MATCH):
                client.send(request)
                code = answer_to(client, request)
                refused = request == PUT_IF_NONE_MATCH
                assert code == PRECONDITION_FAILED if refused else code >> 5 == 2, code


def answer_to(client: socket.socket, request: bytes) -> int:
    """Return the code of the answer, which may come behind an empty acknowledgement."""
    while True:
        answer = client.recv(4096)
        if answer[1] and answer[4:8] == request[4:8]:
            return answer[1]


def clients_below_coap(met: Met) -> None:
    for number in range(TIMES):
        client = met.connected("mqtt")
        client.sendall(CONNECT)
        assert client.recv(1)[0] == 0x20
        client.recv(4096)
        for topic in (b"$coap/answer/#", b"$coap/observe/gw-a/sensors/room"):
            body = b"\x00\x01\x00" + len(topic).to_bytes(2, "big") + topic + b"\x00"
            client.sendall(bytes((0x82, len(body))) + body)
        for topic, payload in (
            (b"$coap/GET/gw-a/sensors/room", b""),
            (b"$coap/PUT/gw-a/sensors/valve", b"%d" % number),
            (b"$coap/GET/nowhere/at/all", b""),
        ):
            body = len(topic).to_bytes(2, "big") + topic + b"\x00" + payload
            client.sendall(bytes((0x30, len(body))) + body)
        client.sendall(b"\xc0\x00")  # a ping is answered behind all that
        client.recv(4096)
        ends(client)


def dtls_clients(met: Met) -> None:
    uri = f"coaps://127.0.0.1:{met.ports['coaps']}/sensors/room"
    for _ in range(2):
        assert hedgerow("get", uri, "--psk-file", str(met.key))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"\x16\xfe\xfd" + bytes(40), ("127.0.0.1", met.ports["coaps"]))


def viewers_of_the_page(met: Met) -> None:
    for path in ("/", "/metrics", "/healthz", "/api/sensors", "/nowhere"):
        viewer = http.client.HTTPConnection("127.0.0.1", met.ports["console"], timeout=LIMIT_S)
        viewer.request("GET", path)
        viewer.getresponse().read()
        viewer.close()
    for words in (b"GET /metrics HTTP/1.1\r\nHost", b"\xff\xff\r\n\r\n", b""):
        client = met.connected("console")
        client.sendall(words)
        ends(client)


def hedgerow(*arguments: str) -> bool:
    """Run a command; return whether it did what it was to do."""
    command = [sys.executable, "-m", "gateway.tools.cli", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S)
    return done.returncode == 0


def many_mqtt_clients(met: Met) -> None:
    """Have MANY come and go, each with a name of its own."""
    for number in range(MANY):
        client = met.connected("mqtt")
        name = b"client-%05d" % number
        client.sendall(bytes((0x10, 13 + len(name))) + CONNECT[2:-1] + bytes((len(name),)) + name)
        assert client.recv(1)[0] == 0x20
        ends(client)


async def a_neighbour(met: Met) -> None:
    """One in a process of its own is asked for a reading, and is killed."""
    other = met.fleet.gateway("gw-b")
    other.place = met.gateway.place.replace("north", "south", 1)
    other.access = met.gateway.access
    other.write(neighbours=[f"127.0.0.1:{met.ports['mqtts']}"])
    command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(other.path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            await until(lambda: "gw-b" in met.gateway.links)
            uri = f"coap://127.0.0.1:{met.ports['coap']}/q/campus/south/gw-b/sensors/room"
            async with asyncio.timeout(LIMIT_S):
                while not await asyncio.to_thread(hedgerow, "get", uri):
                    pass  # until it is known where the gateway is
        finally:
            process.send_signal(signal.SIGKILL)
    await until(lambda: not met.gateway.links)


def left_behind() -> Counter[str]:
    """Return what only the collector could free of ours, by its class."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    found = Counter(
        kind.__qualname__
        for kind in map(type, gc.garbage)
        if kind.__module__.partition(".")[0] in PACKAGES or kind.__qualname__ in RUNNING
    )
    gc.garbage.clear()
    return found


VISITORS: list[Callable[[Met], None]] = [
    mqtt_clients,
    mqtt_clients_that_are_none,
    websockets,
    coap_clients,
    clients_below_coap,
    dtls_clients,
    viewers_of_the_page,
]


async def test_what_comes_and_goes_leaves_nothing_that_only_the_collector_could_free(
    met: Met,
) -> None:
    gc.collect()
    gc.disable()  # else it might free what is looked for
    try:
        for visitor in VISITORS:
            await asyncio.to_thread(visitor, met)
            await until(lambda: not met.gateway.process.parts.broker.core.connections)
            assert not left_behind(), visitor.__name__
        await a_neighbour(met)
        assert not left_behind(), "a neighbour"
    finally:
        gc.enable()
        gc.garbage.clear()


async def test_a_broker_remembers_none_of_the_clients_that_came_and_went(met: Met) -> None:
    broker = met.gateway.process.parts.broker
    await asyncio.to_thread(mqtt_clients, met)  # what is made but once
    before = held_objects(broker)
    await asyncio.to_thread(many_mqtt_clients, met)
    await until(lambda: held_objects(broker) < before + MANY)
