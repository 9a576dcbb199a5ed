"""A gateway's directory is found by multicast on its link (RFC 9176, section 4.1)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_ways_to_neighbours import wire

from benchmarks.mesh.namespaces import Namespace

LIMIT_S = 120
_ASK = """
import json, socket, struct, sys
from coap_engine.codec import NON, CoapMessage, decode

group, source, token = sys.argv[1:]
index = socket.if_nameindex()[1][0]
query = ((11, b".well-known"), (11, b"core"), (15, b"rt=core.rd*"))
v6 = ":" in group
sock = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(20)
if v6:
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    sock.bind((source, 0))
    to = (group, 5683, 0, index)
else:
    mreqn = struct.pack("=4s4si", bytes(4), bytes(4), index)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, mreqn)
    sock.bind((source, 0))
    to = (group, 5683)
sock.sendto(CoapMessage(NON, 1, 7, token.encode(), query).encode(), to)
if token == "far":
    sys.exit()
data, sender = sock.recvfrom(2048)
answer = decode(data)
print(json.dumps([answer.token.decode(), answer.payload.decode(), sender[0], sender[1]]))
"""


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    made = [Namespace(f"cd{n}") for n in range(2)]
    yield made
    for space in made:
        space.remove()


async def ask(space: Namespace, group: str, source: str, token: str) -> list[object] | None:
    """Ask a group from an address; the token and payload of the answer, and who gave it."""
    process = await asyncio.create_subprocess_exec(
        *space.command(sys.executable, "-c", _ASK, group, source, token),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out) if out else None


@pytest.mark.soak("answers take the leisure of 5 s; on loopback they are tried with less")
async def test_a_directory_is_found_on_the_link_over_both_versions_of_ip_and_not_from_elsewhere(
    spaces: list[Namespace], tmp_path: Path
) -> None:
    here, there = spaces
    wire(here, there, ("10.67.1.1/24", "10.67.1.2/24"), ("fd67::1/64", "fd67::2/64"))
    there.ip("address", "add", "10.99.9.9/24", "dev", f"to{here.name[-5:]}")
    here.ip("route", "add", "10.99.9.0/24", "dev", f"to{there.name[-5:]}")
    (tmp_path / "tree.key").write_text("ab" * 32)
    config = tmp_path / "gateway.toml"
    config.write_text(
        f"""
[gateway]
id = "gw"
state_dir = "{tmp_path}/state"
[mqtt]
port = 0
[coap]
host = ["0.0.0.0", "::"]
multicast = true
[tree]
key_file = "{tmp_path}/tree.key"
discovery = false
tls = "off"
[console]
enabled = false
"""
    )
    log = tmp_path / "log.txt"
    with log.open("wb") as told:
        process = await asyncio.create_subprocess_exec(
            *here.command(
                sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)
            ),
            stderr=told,
        )
    try:
        async with asyncio.timeout(LIMIT_S):
            while "gw is up" not in log.read_text():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        await ask(there, "224.0.1.187", "10.99.9.9", "far")
        four, six, local = await asyncio.gather(
            ask(there, "224.0.1.187", "10.67.1.2", "four"),
            ask(there, "ff02::fd", "fd67::2", "six"),
            ask(there, "ff02::fd", "::", "any"),
        )
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    assert four is not None and six is not None and local is not None
    assert (four[0], four[2:]) == ("four", ["10.67.1.1", 5683])
    assert (six[0], six[2:]) == ("six", ["fd67::1", 5683])
    assert (local[0], local[3]) == ("any", 5683)
    for answer in (four, six, local):
        assert "</rd>" in str(answer[1])
    assert "Traceback" not in log.read_text()
