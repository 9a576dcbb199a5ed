"""A dashboard over tables of a fleet that there is not, on a port of this machine."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from argon2 import PasswordHasher

from cloud_ingest.dashboard.entrance import Entrance
from cloud_ingest.dashboard.map_tiles import MapTiles
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.server import Server
from cloud_ingest.query.lake import Lake
from gateway.broker.access.passwords import Passwords
from gateway.trust.policy import policy_file
from gateway.trust.policy.policy import Policy, PolicyRules

LIMIT_S = 60.0
CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
ACCESS = """
version = 1
[principals]
"console:olga" = ["operator"]
"console:rita" = ["reader"]
"console:nina" = []
"console:otto" = ["reader"]
[[rules]]
who = ["console:otto"]
at = ["harbour", "-"]
allow = ["POST /dashboard/acknowledgements"]
"""
USERS = ("olga", "rita", "nina", "otto")


@dataclass
class Served:
    """A dashboard that listens.

    Attributes:
        base: its address, without a slash at the end.
        server: it.
        models: what it shows.

    """

    base: str
    server: Server
    models: Models

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self.base.rpartition(":")[2])


class Visitor:
    """A browser without a page.

    Args:
        session: of aiohttp.
        base: the dashboard's address.

    """

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self._base = base

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        """Status and document."""
        async with self.session.get(f"{self._base}/api/{path}", params=query) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, document: Any, **headers: str) -> tuple[int, Any]:
        """Status and document."""
        sent = {"Content-Type": "application/json"} | headers
        async with self.session.post(
            f"{self._base}/api/{path}", data=json.dumps(document), headers=sent
        ) as answer:
            return answer.status, await answer.json()

    async def log_in(self, user: str, password: str | None = None) -> int:
        """With the user's name as password, unless it is another."""
        told = {"user": user, "password": password or user}
        return (await self.post("login", told))[0]


def entrance(has_users: bool) -> Entrance:
    """Make an entrance that lets in `USERS`, or whoever is on this machine."""
    if not has_users:
        return Entrance(Policy(PolicyRules(default_roles=frozenset({"reader"}))), None)
    lines = "\n".join(f"{user}:{CHEAP.hash(user)}" for user in USERS)
    told = policy_file.parse(ACCESS, "access.toml")
    return Entrance(Policy(told), Passwords.parse(lines, "passwords"))


@asynccontextmanager
async def dashboard(
    tables: Path,
    has_users: bool = False,
    tls: ssl.SSLContext | None = None,
    tiles: MapTiles | None = None,
) -> AsyncIterator[Served]:
    """Serve tables."""
    models = Models(Lake(tables))
    server = Server(models, entrance(has_users), tls, tiles)
    port = await server.start("127.0.0.1", 0)
    scheme = "http" if tls is None else "https"
    try:
        yield Served(f"{scheme}://127.0.0.1:{port}", server, models)
    finally:
        await server.stop()


async def complete(served: Served) -> None:
    """Wait until all that the tables have is told."""
    async with asyncio.timeout(LIMIT_S):
        while not (served.models.revision and served.models.is_complete):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def visitor(served: Served) -> AsyncIterator[Visitor]:
    """Somebody with cookies of its own."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Visitor(session, served.base)
