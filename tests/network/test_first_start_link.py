"""Goal: a first start is met by neighbours, and by nobody behind a router."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_ways_to_neighbours import wire

from benchmarks.mesh.namespaces import Namespace

LIMIT_S = 120
_ASK = """
import socket, ssl, sys

host, source = sys.argv[1:]
context = ssl._create_unverified_context()
try:
    own = (source, 0) if source else None
    raw = socket.create_connection((host, 9641), timeout=4, source_address=own)
except OSError as error:
    sys.exit(f"no connection: {error}")
with context.wrap_socket(raw) as asked:
    head = ("GET /api/v1/setup HTTP/1.1", "Host: localhost", "Connection: close", "", "")
    asked.sendall("\\r\\n".join(head).encode())
    answer = b"".join(iter(lambda: asked.recv(4096), b""))
print(answer.split(b" ")[1].decode(), answer.rpartition(b"\\r\\n")[2].decode())
"""


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    made = [Namespace(f"fs{n}") for n in range(3)]
    yield made
    for space in made:
        space.remove()


async def ask(space: Namespace, host: str, source: str = "") -> str:
    """Ask the page of a host; return the answer, empty where no connection comes about."""
    process = await asyncio.create_subprocess_exec(
        *space.command(sys.executable, "-c", _ASK, host, source),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(LIMIT_S):
        return (await process.communicate())[0].decode()


async def reaches(space: Namespace, there: Namespace, host: str) -> bool:
    """Return whether a way leads to a host, for a listener whose answers go as far as they may."""
    with there.entered():
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, 0), family=family)
    with listening:
        with space.entered():
            asked = socket.socket(family)
        with asked:
            asked.settimeout(LIMIT_S)
            await asyncio.to_thread(asked.connect, (host, listening.getsockname()[1]))
            return True


async def test_a_neighbour_is_served_and_who_is_behind_a_router_gets_no_connection(
    spaces: list[Namespace], tmp_path: Path
) -> None:
    here, router, far = spaces
    wire(here, router, ("10.68.1.7/24", "10.68.1.1/24"), ("fd68::7/64", "fd68::1/64"))
    wire(router, far, ("10.69.1.1/24", "10.69.1.9/24"), ("fd69::1/64", "fd69::9/64"))
    router.ip("address", "add", "10.68.1.20/24", "dev", f"to{here.name[-5:]}")
    for space, via4, via6 in ((here, "10.68.1.1", "fd68::1"), (far, "10.69.1.1", "fd69::1")):
        space.ip("route", "add", "default", "via", via4)
        space.ip("-6", "route", "add", "default", "via", via6)
    for name in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        await (
            await asyncio.create_subprocess_exec(*router.command("sysctl", "-qw", f"{name}=1"))
        ).wait()
    process = await asyncio.create_subprocess_exec(
        *here.command(
            sys.executable, "-m", "gateway.tools.cli", "first-start", str(tmp_path / "e")
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        said = ""
        async with asyncio.timeout(LIMIT_S):
            while not ("10.68.1.7" in said and "fd68::7" in said and "[fe80" in said):
                line = await process.stdout.readline()
                assert line, said
                said += line.decode()
        assert (await ask(router, "10.68.1.7", "10.68.1.20")).startswith("200 ")
        assert "from a router" in await ask(router, "10.68.1.7", "10.68.1.1")
        assert await reaches(far, here, "10.68.1.7")
        assert await reaches(far, here, "fd68::7")
        assert await ask(far, "10.68.1.7") == ""
        assert await ask(far, "fd68::7") == ""
        # One who hides behind the router: its own address is what is seen.
        router.nft(
            "table inet hiding {\n chain out {\n  type nat hook postrouting priority 100;\n"
            "  ip saddr 10.69.1.9 masquerade\n }\n}\n"
        )
        assert "200" not in await ask(far, "10.68.1.7")
        here.ip("address", "add", "10.70.1.7/24", "dev", f"to{router.name[-5:]}")
        async with asyncio.timeout(LIMIT_S):
            while "10.70.1.7" not in said:
                said += (await process.stdout.readline()).decode()
    finally:
        process.kill()
        await process.wait()
