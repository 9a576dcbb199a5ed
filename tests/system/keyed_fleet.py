"""Gateways with certificates of one authority, each a process, in TLS on all its faces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import fleet_keys
from brokers import _Process
from chain import CONVERGE_S, HELLO_S
from mqtt_peer import Peer
from ports import free_port

TRIES = 5
AT = "%Y-%m-%d %H:%M:%S,%f"


class KeyedGateway(_Process):
    """A gateway with files of its own, as an operator copies them from the authority's folder.

    Args:
        folder: for its files.
        name: its id.
        neighbours: ports where others take links.
        service: where it follows the fleet's certificates, if it does.

    """

    def __init__(
        self, folder: Path, name: str, neighbours: tuple[int, ...] = (), service: str = ""
    ) -> None:
        super().__init__(free_port(), folder / "state", " is up: ")
        folder.mkdir()
        self.name, self.folder = name, folder
        self.dtls_port, self.console_port = free_port(), free_port()
        self.psk = folder / "psk"
        (folder / "tree.key").write_text("ab" * 32)
        (folder / "tree.key").chmod(0o600)
        self.psk.touch(0o600)
        self.passwords = folder / "passwords"
        self.passwords.touch(0o600)
        dialled = json.dumps([f"127.0.0.1:{port}" for port in neighbours])
        follows = f'[keys]\nservice = "{service}"\ninterval_s = 1.0\n' if service else ""
        self.config = folder / "gateway.toml"
        self.config.write_text(
            f"""
[gateway]
id = "{name}"
state_dir = "state"
[mqtt]
port = "off"
tls_port = {self.port}
certificate_file = "gateway.pem"
key_file = "gateway.key.pem"
client_certificate = "required"
client_ca_file = "ca.pem"
client_crl_file = "revoked.pem"
[coap]
port = "off"
dtls_port = {self.dtls_port}
psk_file = "psk"
[console]
port = {self.console_port}
[tree]
key_file = "tree.key"
discovery = false
neighbours = {dialled}
hello_s = {HELLO_S}
repair_interval_s = 0.5
[log]
durability = "write"
[access]
password_file = "passwords"
{follows}"""
        )

    def command(self) -> list[str]:
        return [*fleet_keys.HEDGEROW, "run", "--config", str(self.config)]

    def take(self, authority: Path, *names: str) -> None:
        """Copy files of the authority, under the names that they have here."""
        for name in names:
            source = authority / name.replace("gateway", self.name)
            target = self.folder / name
            fresh = target.with_suffix(".new")
            fresh.touch(0o600)
            fresh.write_bytes(source.read_bytes())
            fresh.replace(target)

    def take_all(self, authority: Path) -> None:
        self.take(authority, "ca.pem", "revoked.pem", "gateway.key.pem", "gateway.pem")

    async def reload(self) -> None:
        """SIGHUP, and wait until it is done."""
        count = self.count("are read again")
        self.send_signal(signal.SIGHUP)
        await self.told("are read again", count + 1)

    def count(self, text: str) -> int:
        return sum(text in line for line in self.lines)

    def said(self, pattern: str) -> list[str]:
        """The lines with something of a regular expression."""
        return [line for line in self.lines if re.search(pattern, line)]

    async def told(self, text: str, count: int = 1) -> None:
        """Wait for so many lines with a text."""
        await until(lambda: self.count(text) >= count, self)

    @asynccontextmanager
    async def client(self, authority: Path, name: str, client_id: str) -> AsyncIterator[Peer]:
        """A client with a certificate, connected.

        As any client it tries again: who has not been let in when access is read anew, or a
        neighbour's list is taken, has to begin again, and that may be at any time.
        """
        for _ in range(TRIES):
            with contextlib.suppress(ConnectionResetError):
                peer = await self.connection(authority, name)
                if (code := await peer.connect(client_id)) >= 0:
                    break
        else:
            raise AssertionError("\n".join(self.lines))
        assert code == 0, "\n".join(self.lines)
        yield peer
        peer.close()

    async def connection(self, authority: Path, name: str) -> Peer:
        """A client with a certificate that has not said who it is."""
        context = ssl.create_default_context(cafile=str(authority / "ca.pem"))
        context.load_cert_chain(authority / f"{name}.pem", authority / f"{name}.key.pem")
        try:
            streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        except OSError as error:
            error.add_note("\n".join(self.lines))
            raise
        return Peer(*streams, 5)

    def without_link_s(self, other: str) -> list[float]:
        """Return how long each time there was no link to another one, by the log."""
        found: list[float] = []
        ended: datetime | None = None
        for line in self.lines:
            if re.search(rf"link \d+ to {other} is down", line):
                ended = datetime.strptime(line[:23], AT)  # noqa: DTZ007  # a difference
            elif ended is not None and re.search(rf"link \d+ to {other} \(.*is up", line):
                found.append((datetime.strptime(line[:23], AT) - ended).total_seconds())  # noqa: DTZ007
                ended = None
        assert ended is None, "\n".join(self.lines)
        return found


async def until(holds: Callable[[], object], *gateways: KeyedGateway) -> None:
    """Wait until something holds."""
    try:
        async with asyncio.timeout(CONVERGE_S):
            while not holds():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError("\n".join(line for one in gateways for line in one.lines)) from None
