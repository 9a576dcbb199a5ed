"""A first start in a process of its own, and browsers that ask it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from ports import free_port

CODE = "0123-4567-89AB"
LIMIT_S = 60.0
ASKED = {
    "name": "gw-hall",
    "place": "campus/north",
    "address": "127.0.0.1",
    "user": "anna",
    "password": "open sesame",
}


@dataclass
class FirstStart:
    """A process.

    Attributes:
        folder: where the gateway will be.
        port: of the page.
        process: it.
        said: what it has printed.

    """

    folder: Path
    port: int
    process: asyncio.subprocess.Process
    said: str = ""

    @property
    def base(self) -> str:
        """The page's address."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def audit(self) -> list[dict[str, Any]]:
        """The audit trail."""
        lines = (self.folder / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@dataclass
class Browser:
    """Somebody with cookies.

    Attributes:
        session: of aiohttp.
        base: the page's address.
        csrf: the word of changes.

    """

    session: aiohttp.ClientSession
    base: str
    csrf: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and document."""
        sent = {"X-Hedgerow-CSRF": self.csrf, "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        async with self.session.request(
            method, f"{self.base}/{path}", data=data, headers=sent
        ) as answer:
            content = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(content) if is_json else content

    async def enter(self, code: str = CODE, **more: Any) -> int:
        """Give the setup code."""
        status, told = await self.ask("POST", "api/v1/code", {"code": code, **more})
        self.csrf = told.get("csrf", self.csrf)
        return status


def command(folder: Path, card: Path, port: int) -> list[str]:
    """Return the command line of one, whose page is at a port."""
    program = [sys.executable, "-m", "gateway.tools.cli", "first-start", str(folder)]
    return [*program, "--card", str(card), "--page-port", str(port)]


@asynccontextmanager
async def first_start(folder: Path, card: Path | None = None) -> AsyncIterator[FirstStart]:
    """Run one until the end, or until it has ended itself."""
    if card is None:
        card = folder.parent / "card.txt"
        card.write_text(f'code = "{CODE}"\n')
    port, gateway = free_port(), free_port()
    process = await asyncio.create_subprocess_exec(
        *command(folder, card, port),
        "--port",
        str(gateway),
        stdout=asyncio.subprocess.PIPE,
    )
    own = FirstStart(folder, port, process)
    try:
        await until_said(own, r"page https://127\.0\.0\.1:")
        yield own
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_said(own: FirstStart, pattern: str) -> None:
    """Read what it prints until a line is there, or it has ended."""
    assert own.process.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        while not re.search(pattern, own.said):
            line = await own.process.stdout.readline()
            if not line:
                return
            own.said += line.decode()


@asynccontextmanager
async def browser(own: FirstStart) -> AsyncIterator[Browser]:
    """Somebody with cookies of its own, who takes any certificate."""
    jar = aiohttp.CookieJar(unsafe=True)
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session:
        yield Browser(session, own.base)
