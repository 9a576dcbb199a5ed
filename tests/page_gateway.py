"""A gateway with a page, in this process, and who looks at it over HTTP."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from argon2 import PasswordHasher
from mqtt_peer import Peer

from gateway.mqtt import Version
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
USERS = ("vera", "olga", "anna", "nina")
"""A viewer, an operator, an administrator, and one who may do nothing."""
POLICY = """version = 1
[principals]
"console:vera" = ["reader"]
"console:olga" = ["operator"]
"console:anna" = ["admin"]
"console:nina" = []
"user:*" = ["operator"]
[[rules]]
who = ["console:vera"]
conceal = ["private/#"]
"""
LIMIT_S = 60.0


@dataclass
class PageGateway:
    """A gateway.

    Attributes:
        process: it.
        folder: its files.
        users: whether visitors log in.
        tls: what its visitors trust; None for HTTP.

    """

    process: GatewayProcess
    folder: Path
    users: bool
    tls: ssl.SSLContext | None = None

    @property
    def console(self) -> tuple[str, int]:
        """The address at which the console listens."""
        told = json.loads((self.folder / "state" / "listeners.json").read_text())
        host, _, port = str(told["console"]).rpartition(":")
        return host, int(port)

    @property
    def base(self) -> str:
        """The page's address."""
        host, port = self.console
        return f"{'http' if self.tls is None else 'https'}://{host}:{port}"

    @property
    def audit(self) -> list[dict[str, Any]]:
        """Its audit trail."""
        lines = (self.folder / "state" / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    async def client(self, name: str, user: str = "olga") -> Peer:
        """A client of its broker."""
        port = self.process.mqtt_port
        peer = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V5)
        proof = {"username": user, "password": user.encode()} if self.users else {}
        assert await peer.connect(name, **proof) == 0
        return peer


@dataclass
class Looker:
    """A browser without a page, or a script.

    Attributes:
        session: of aiohttp, with cookies of its own.
        base: the page's address.
        csrf: the word that changes need.
        headers: of each request.

    """

    session: aiohttp.ClientSession
    base: str
    csrf: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Any = None, **query: Any
    ) -> tuple[int, Any]:
        """Status and document."""
        sent = {"X-Hedgerow-CSRF": self.csrf} | self.headers | (headers or {})
        if method != "GET":
            sent.setdefault("Content-Type", "application/json")
        async with self.session.request(
            method,
            f"{self.base}/api/v1/{path}",
            params=query,
            data=None if body is None else json.dumps(body),
            headers=sent,
        ) as answer:
            data = await answer.read()
            if answer.content_type == "application/json":
                return answer.status, json.loads(data)
            return answer.status, data

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        """Status and document."""
        return await self.ask("GET", path, None, None, **query)

    async def log_in(self, user: str, password: str | None = None) -> int:
        """With the user's name as password, unless it is another."""
        told = {"user": user, "password": password or user}
        status, answer = await self.ask("POST", "login", told)
        self.csrf = answer.get("csrf", "")
        return status


def configuration(
    folder: Path,
    *,
    users: bool = True,
    more: str = "",
    console: str = "",
    mqtt: str = "",
    coap: str = "",
    policy: str = POLICY,
) -> Path:
    """Write the files of a gateway with a page; returns its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "tree.key"
    key.touch(mode=0o600)
    key.write_text("ab" * 32)
    (folder / "passwords").write_text("\n".join(f"{u}:{CHEAP.hash(u)}" for u in USERS) + "\n")
    (folder / "access.toml").write_text(policy)
    access = (
        f'password_file = "{folder}/passwords"\npolicy_file = "{folder}/access.toml"\n'
        if users
        else "anonymous = true\n"
    )
    file = folder / "gateway.toml"
    file.write_text(
        f"""
[gateway]
id = "gw"
domain = "campus"
group = "north"
state_dir = "{folder}/state"
[mqtt]
port = 0
{mqtt}
[coap]
port = 0
{coap}
[tree]
key_file = "{key}"
discovery = false
tls = "off"
[console]
port = 0
web = true
{console}
[access]
{access}
[[sensors]]
type = "switch"
name = "valve"
[[sensors]]
type = "host"
{more}
"""
    )
    return file


@asynccontextmanager
async def page_gateway(
    folder: Path,
    *,
    users: bool = True,
    more: str = "",
    console: str = "",
    mqtt: str = "",
    coap: str = "",
    policy: str = POLICY,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[PageGateway]:
    """Run one."""
    file = configuration(
        folder, users=users, more=more, console=console, mqtt=mqtt, coap=coap, policy=policy
    )

    def read() -> config.GatewaySettings:
        return config.load(file, config.GatewaySettings)

    process = GatewayProcess(read(), read=read)
    await process.start()
    try:
        yield PageGateway(process, folder, users, tls)
    finally:
        await process.stop()


@asynccontextmanager
async def looker(gateway: PageGateway, user: str = "") -> AsyncIterator[Looker]:
    """Somebody with cookies of its own, logged in if a user is named."""
    jar = aiohttp.CookieJar(unsafe=True)
    connector = aiohttp.TCPConnector(ssl=gateway.tls or False)
    async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session:
        made = Looker(session, gateway.base)
        if user:
            assert await made.log_in(user) == 200
        elif not gateway.users:
            made.csrf = (await made.get("me"))[1]["csrf"]
        yield made
