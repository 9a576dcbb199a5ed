"""Gateways of one fleet inside a test's process, each with a certificate of its authority."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from authority import Authority, Issued

from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess

LIMIT_S = 60


class FleetGateway:
    """One gateway, its files, and how to start it again with others.

    Args:
        folder: of the fleet.
        name: its id.
        issued: its certificate; None for links without TLS.
        authority: whose certificates it accepts.

    """

    def __init__(
        self, folder: Path, name: str, issued: Issued | None = None, authority: Path | None = None
    ) -> None:
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        (folder / "tree.key").write_text("ab" * 32)
        self.path = self.folder / "gateway.toml"
        self.name = name
        self.tree = ""
        self.plain_port = 0
        self.mqtt = ""
        self.coap = ""
        self.access = ""
        self.place = ""
        self.key_file = folder / "tree.key"
        self.issued = issued
        self._authority = authority
        self._process: GatewayProcess | None = None

    @property
    def process(self) -> GatewayProcess:
        assert self._process is not None
        return self._process

    @property
    def links(self) -> set[str]:
        """Return the gateways that it is linked to."""
        return {link.peer_id for link in self.process.parts.node.links.values()}

    @property
    def port(self) -> int:
        """The port at which it takes links."""
        return self.process.mqtt_ports["mqtt" if self.issued is None else "mqtts"]

    def refusals(self, kind: str) -> int:
        """Return how often it has refused something of this kind."""
        return self.process.parts.broker.core.refusals.counts[kind]

    def write(self, **tree: object) -> None:
        """Write its configuration with these fields of [tree]."""
        rows = {"discovery": False, "neighbours": [], "hello_s": 0.5, **tree}
        secure = ""
        if self.issued is not None:
            secure = (
                f'tls_port = 0\ncertificate_file = "{self.issued.certificate}"\n'
                f'key_file = "{self.issued.key}"\nclient_certificate = "optional"\n'
                f'client_ca_file = "{self._authority}"'
            )
        else:
            rows.setdefault("tls", "off")
        self.path.write_text(
            f"""
[gateway]
id = "{self.name}"
state_dir = "{self.folder}/state"
status_interval_s = 0
{self.place}
[mqtt]
port = {self.plain_port}
{secure}
{self.mqtt}
[coap]
port = 0
{self.coap}
[tree]
key_file = "{self.key_file}"
{chr(10).join(f"{key} = {_toml(value)}" for key, value in rows.items())}
[access]
anonymous = true
{self.access}
"""
        )

    def read(self) -> config.GatewaySettings:
        return config.load(self.path, config.GatewaySettings)

    async def start(self, **tree: object) -> None:
        self.write(**tree)
        self._process = GatewayProcess(self.read(), read=self.read)
        await self._process.start()

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.stop()


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.01)


class Fleet:
    """Gateways that are stopped when the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self._gateways: list[FleetGateway] = []

    def gateway(self, name: str, *, issued: Issued | None = None, tls: bool = True) -> FleetGateway:
        if tls and issued is None:
            issued = self.authority.issue(name, is_gateway=True)
        made = FleetGateway(self.folder, name, issued, self.authority.file)
        self._gateways.append(made)
        return made

    async def stop(self) -> None:
        for gateway in self._gateways:
            with contextlib.suppress(Exception):
                await gateway.stop()
