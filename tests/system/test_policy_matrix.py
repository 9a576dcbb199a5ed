"""Goal: whoever asks, however, here or through another gateway, gets what the policy says.

Method: two linked gateways with one policy. Each principal tries each action over each protocol at
each place; what has to come of it is worked out by `policy_oracle`.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiocoap
import pytest
from aiocoap.numbers.codes import Code
from argon2 import PasswordHasher
from authority import Authority, Issued
from dtls_clients import CertificateClientContext, DtlsPeer
from mqtt_peer import Peer
from policy_oracle import NAMES, PLACES, PUBLIC, everybody, file, may

from gateway.coap.oscore.context import OscoreContext
from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import SenderNumbers
from gateway.coap_client import CoapClient
from gateway.mqtt import PingReq, PingResp, Publish
from gateway.process.configuration import config
from gateway.process.running.drain import Drain
from gateway.process.running.gateway_process import GatewayProcess

LIMIT_S = 60.0
KEY, PASSWORD = b"0123456789abcdef", b"open sesame"
STRANGER_AT = "127.0.0.9"
LINKS = b"</temp>;rt=temperature"


@dataclass(frozen=True)
class CoapAction:
    """Something that is asked for over CoAP.

    Attributes:
        verb: in the words of the policy.
        target: likewise.
        method: of the request.
        path: of the request, with a query; a # in it is a number of its own.
        payload: of the request.
        done: the codes of who may.

    """

    verb: str
    target: str
    method: str
    path: str
    payload: bytes = b""
    done: tuple[str, ...] = ("2.05",)


COAP_ACTIONS = (
    CoapAction("GET", "/sensors/valve", "GET", "/sensors/valve"),
    CoapAction("GET", "/sensors/secret", "GET", "/sensors/secret"),
    CoapAction("PUT", "/sensors/valve", "PUT", "/sensors/valve", b"1", ("2.04",)),
    CoapAction("GET", "/.well-known/core", "GET", "/.well-known/core"),
    CoapAction("GET", "/status", "GET", "/status"),
    CoapAction("GET", "/rd-lookup/ep", "GET", "/rd-lookup/ep?ep=nobody"),
    CoapAction("POST", "/rd", "POST", "/rd?ep=e#&base=coap://e.example&lt=60", LINKS, ("2.01",)),
    CoapAction("clients", "", "GET", "/clients"),
    CoapAction("disconnect", "", "POST", "/clients?id=nobody", b"", ("4.04",)),
    CoapAction("membership", "", "DELETE", "/members?id=nobody", b"", ("4.04",)),
    CoapAction("drain", "", "POST", "/drain", b"", ("2.04",)),
)
TOPICS = ("water/1", "secret/1", "hidden/1", *(f"campus/south/{name}/t" for name in NAMES))
FILTERS = ("#", "water/#", "secret/#", "hidden/#", *(f"+/+/{name}/#" for name in NAMES))


class Pair:
    """Two gateways, the second of which dials the first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self._issued = self.authority.issue("localhost", is_server=True)
        hasher = PasswordHasher(1, 8, 1)
        oscore = "".join(
            f'[{name}]\nmaster_secret = "{KEY.hex()}"\nsender_id = "01"\n'
            f'recipient_id = "{10 + number:02x}"\n'
            for number, name in enumerate(NAMES)
        )
        for name, text in (
            ("tree.key", "ab" * 32),
            ("psk", "".join(f"{name}:{KEY.hex()}\n" for name in NAMES)),
            ("passwords", "".join(f"{name}:{hasher.hash(PASSWORD)}\n" for name in NAMES)),
            ("oscore.toml", oscore),
            ("access.toml", file()),
        ):
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(text)
        self.processes: dict[str, GatewayProcess] = {}
        self.listeners: dict[str, dict[str, str]] = {}

    async def start(self, name: str, *neighbours: str) -> None:
        domain, group, _ = PLACES[name].split("/")
        path = self.folder / f"{name}.toml"
        path.write_text(
            f"""
[gateway]
id = "{name}"
domain = "{domain}"
group = "{group}"
state_dir = "{name}"
status_interval_s = 0
[mqtt]
port = 0
[coap]
port = 0
dtls_port = 0
psk_file = "psk"
oscore_file = "oscore.toml"
certificate_file = "{self._issued.certificate}"
key_file = "{self._issued.key}"
client_ca_file = "{self.authority.file}"
public = {list(PUBLIC)!r}
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
neighbours = {list(neighbours)!r}
[access]
password_file = "passwords"
policy_file = "access.toml"
[[sensors]]
type = "switch"
name = "valve"
[[sensors]]
type = "switch"
name = "secret"
"""
        )
        process = GatewayProcess(config.load(path, config.GatewaySettings))
        await process.start()
        self.processes[name] = process
        coap = process.parts.coap
        assert process.parts.console.address is not None
        self.listeners[name] = {
            "coap": f"127.0.0.1:{coap.coap_port}",
            "coaps": f"127.0.0.1:{coap.coaps_port}",
            "console": process.parts.console.address,
        }

    async def linked(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            while any(len(list(one.parts.members.known)) < 2 for one in self.processes.values()):
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        for process in self.processes.values():
            await process.stop()


@pytest.fixture
async def drained(monkeypatch: pytest.MonkeyPatch) -> list[Drain]:
    """Those that were told to drain, which they do not: the others go on with them."""
    found: list[Drain] = []

    def start(drain: Drain) -> None:
        found.append(drain)

    monkeypatch.setattr(Drain, "start", start)
    return found


@pytest.fixture
async def pair(tmp_path: Path, drained: list[Drain]) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    await made.start("gw-a")
    await made.start("gw-b", f"127.0.0.1:{made.processes['gw-a'].mqtt_port}")
    await made.linked()
    yield made
    await made.stop()


# -- CoAP ------------------------------------------------------------------------------------------


class OscoreDevice:
    """aiocoap's client with the context of one name."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        keys = OscoreKeys("gateway", KEY, bytes([10 + NAMES.index(name)]), b"\x01")
        self._security = OscoreContext(keys, SenderNumbers(folder, ["gateway"], lambda _: 0), b"")
        self._security.recipient_replay_window.initialize_empty()
        self._base = f"coap://127.0.0.1:{port}"

    async def open(self) -> None:
        transports = ["oscore", "simple6"]
        self._context = await aiocoap.Context.create_client_context(transports=transports)
        self._context.client_credentials[f"{self._base}/*"] = self._security

    async def ask(self, method: str, path: str, payload: bytes, content_format: int) -> str:
        message = aiocoap.Message(
            code=getattr(Code, method), uri=self._base + path, payload=payload
        )
        if payload:
            message.opt.content_format = content_format
        async with asyncio.timeout(LIMIT_S):
            answer = await self._context.request(message).response
        return str(answer.code.dotted)

    async def close(self) -> None:
        await self._context.shutdown()


class PlainPeer(asyncio.DatagramProtocol):
    """A peer without a proof at an address of one's own, which says where it is when asked."""

    ECHO = 252

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._answers: asyncio.Queue[Any] = asyncio.Queue()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._answers.put_nowait(aiocoap.Message.decode(data))

    async def ask(self, method: str, path: str, payload: bytes, content_format: int) -> str:
        answer = await self._send(method, path, payload, content_format)
        if answer.opt.echo is not None:
            answer = await self._send(method, path, payload, content_format, answer.opt.echo)
        return str(answer.code.dotted)

    async def _send(
        self, method: str, path: str, payload: bytes, form: int, echo: bytes | None = None
    ) -> Any:
        number = next(self._numbers)
        message = aiocoap.Message(code=getattr(Code, method), payload=payload)
        message.set_request_uri(f"coap://x{path}", set_uri_host=False)
        message.opt.content_format = form if payload else None
        message.opt.echo = echo
        message.mid, message.mtype, message.token = number, aiocoap.CON, bytes([number])
        self._transport.sendto(message.encode())
        async with asyncio.timeout(LIMIT_S):
            while (answer := await self._answers.get()).token != message.token:
                pass
        return answer

    async def close(self) -> None:
        self._transport.close()


class PskPeer:
    """A peer with a key, over DTLS."""

    def __init__(self, name: str, at: str) -> None:
        self._client = CoapClient(psk_identity=name, psk_key=KEY)
        self._at = at

    async def ask(self, method: str, path: str, payload: bytes, content_format: int) -> str:
        given: dict[str, Any] = {"payload": payload, "content_format": content_format}
        answer = await self._client.request(
            method, f"coaps://{self._at}{path}", **(given if payload else {})
        )
        return answer.code

    async def close(self) -> None:
        await self._client.close()


class CertificatePeer:
    """A peer with a certificate, over one DTLS session."""

    def __init__(self, shown: Issued, authority: Authority, at: str) -> None:
        self._numbers = itertools.count(1)
        port = int(at.rpartition(":")[2])
        self._peer = DtlsPeer(CertificateClientContext(shown, authority), port)

    async def open(self) -> None:
        await self._peer.handshake()

    async def ask(self, method: str, path: str, payload: bytes, content_format: int) -> str:
        number = next(self._numbers)
        message = aiocoap.Message(code=getattr(Code, method), payload=payload)
        message.set_request_uri(f"coaps://x{path}", set_uri_host=False)
        message.opt.content_format = content_format if payload else None
        message.mid, message.mtype, message.token = number, aiocoap.CON, bytes([number])
        self._peer.send(message.encode())
        while True:
            answer = aiocoap.Message.decode(await self._peer.next())
            if answer.mtype is aiocoap.CON:
                taken = aiocoap.Message(code=aiocoap.EMPTY)
                taken.mid, taken.mtype = answer.mid, aiocoap.ACK
                self._peer.send(taken.encode())
            if answer.token == message.token:
                return str(answer.code.dotted)

    async def close(self) -> None:
        self._peer.close()


AnyPeer = OscoreDevice | PlainPeer | PskPeer | CertificatePeer


async def peer_of(pair: Pair, kind: str, name: str, gateway: str) -> AnyPeer:
    at = pair.listeners[gateway]
    host, _, port = at["coap"].rpartition(":")
    if kind == "psk":
        return PskPeer(name, at["coaps"])
    if kind == "cert":
        roles = [] if name == "nobody" else [name]
        shown = pair.authority.issue(name, roles=roles)
        shower = CertificatePeer(shown, pair.authority, at["coaps"])
        await shower.open()
        return shower
    if kind == "oscore":
        device = OscoreDevice(pair.folder / f"numbers-{gateway}-{name}", name, int(port))
        await device.open()
        return device
    local = ("127.0.0.1" if kind == "local" else STRANGER_AT, 0)
    _, peer = await asyncio.get_running_loop().create_datagram_endpoint(
        PlainPeer, local_addr=local, remote_addr=(host, int(port))
    )
    return peer


async def test_over_coap_here_and_through_another_gateway(pair: Pair, drained: list[Drain]) -> None:
    numbers = itertools.count(1)
    wrong: list[str] = []
    tried, drains = 0, 0
    for kind, name in everybody():
        for entry in PLACES:
            peer = await peer_of(pair, kind, name, entry)
            ways = [(entry, "")] + ([("gw-b", "gw-a")] if entry == "gw-a" else [])
            for (gateway, via), action in itertools.product(ways, COAP_ACTIONS):
                before = f"/q/{PLACES[gateway]}" if via else ""
                path = before + action.path.replace("#", f"{next(numbers)}")
                form = 40 if action.payload == LINKS else 0
                code = await peer.ask(action.method, path, action.payload, form)
                is_right = may(kind, name, action.verb, action.target, gateway, via)
                refused = "4.03" if name else "4.01"
                expected = action.done if is_right else (refused,)
                tried += 1
                drains += is_right and action.verb == "drain"
                if code not in expected:
                    wrong.append(f"{kind}:{name} {action} at {gateway} via {via or '-'}: {code}")
            await peer.close()
    assert not wrong, "\n".join(wrong)
    assert len(drained) == drains > 0
    assert tried == (3 * len(NAMES) + 2) * 3 * len(COAP_ACTIONS)


# -- MQTT ------------------------------------------------------------------------------------------


async def connected(pair: Pair, name: str, gateway: str) -> Peer:
    port = pair.processes[gateway].mqtt_port
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port), 5)
    client_id = f"{name}-{gateway}-{id(peer)}"
    assert await peer.connect(client_id, username=name, password=PASSWORD) == 0
    return peer


async def received(peer: Peer) -> set[str]:
    """The topics that came before the answer to a ping."""
    peer.send(PingReq())
    found: set[str] = set()
    while not isinstance(packet := await peer.next(), PingResp):
        assert isinstance(packet, Publish), packet
        found.add(packet.topic)
    return found


async def test_over_mqtt_at_each_gateway_and_from_one_to_the_other(pair: Pair) -> None:
    wrong: list[str] = []
    subscribers: dict[str, Peer] = {}
    for name, gateway in itertools.product(NAMES, PLACES):
        publisher, subscriber = [await connected(pair, name, gateway) for _ in range(2)]
        for topic_filter in FILTERS:
            reason = await subscriber.subscribe(topic_filter, 0)
            if (reason < 0x80) != may("user", name, "subscribe", topic_filter, gateway):
                wrong.append(f"{name} subscribe {topic_filter} at {gateway}: {reason:#x}")
        await received(subscriber)
        for topic in TOPICS:
            reason = await publisher.publish(topic)
            if (reason < 0x80) != may("user", name, "publish", topic, gateway):
                wrong.append(f"{name} publish {topic} at {gateway}: {reason:#x}")
        publisher.close()
        if gateway == "gw-b":
            subscribers[name] = subscriber
        else:
            subscriber.close()
    witness, sender = await connected(pair, "admin", "gw-b"), await connected(pair, "admin", "gw-a")
    await witness.subscribe("end")
    for peer in subscribers.values():  # what they themselves have sent
        await received(peer)
    for topic in (*TOPICS, "end"):
        assert await sender.publish(topic) in (0, 0x10)
    assert (await witness.next()).topic == "end"
    for name, peer in subscribers.items():
        wanted = {t for t in (*TOPICS, "end") if may("user", name, "deliver", t, "gw-b")}
        got = await received(peer)
        if got != wanted:
            wrong.append(f"{name} at gw-b received {got ^ wanted}")
    assert not wrong, "\n".join(wrong)
    for peer in (*subscribers.values(), witness, sender):
        peer.close()


# -- console ---------------------------------------------------------------------------------------


async def page(address: str, path: str, name: str = "", local: str = "127.0.0.1") -> int:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(local, 0))
    proof = base64.b64encode(name.encode() + b":" + PASSWORD).decode()
    field = f"Authorization: Basic {proof}\r\n" if name else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n".encode())
    async with asyncio.timeout(LIMIT_S):
        answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


async def test_at_the_console(pair: Pair) -> None:
    wrong: list[str] = []
    visitors = [("console", name, STRANGER_AT) for name in NAMES]
    visitors += [("local", "", "127.0.0.1"), ("stranger", "", STRANGER_AT)]
    for (kind, name, local), gateway in itertools.product(visitors, PLACES):
        address = pair.listeners[gateway]["console"]
        status = await page(address, "/metrics", name, local)
        refused = 403 if name else 401
        expected = 200 if may(kind, name, "console", "/metrics", gateway) else refused
        if status != expected:
            wrong.append(f"{kind}:{name} /metrics at {gateway}: {status}")
        assert await page(address, "/healthz", name, local) == 200
    assert not wrong, "\n".join(wrong)
