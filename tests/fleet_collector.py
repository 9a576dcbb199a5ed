"""A collector inside a test's process, beside the gateways of `fleet_gateway`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fleet_gateway import Fleet

from cloud_ingest.collector.command import Collector, CollectorSettings
from gateway.process.configuration import config


def settings(
    fleet: Fleet,
    *neighbours: int,
    tls: bool = True,
    durability: str = "sync",
    name: str = "collector",
    more: str = "",
    log: str = "",
    role: str = "collector",
) -> CollectorSettings:
    """Of a collector that dials gateways.

    Args:
        fleet: whose.
        neighbours: ports where gateways take links.
        tls: whether it has a certificate.
        durability: of its spool.
        name: its id.
        more: lines of [collector].
        log: lines of [log].
        role: of its certificate.

    """
    own = ""
    if tls:
        is_gateway = role == "gateway"
        issued = fleet.authority.issue(name, is_gateway=is_gateway, is_collector=not is_gateway)
        own = (
            f'certificate_file = "{issued.certificate}"\nkey_file = "{issued.key}"\n'
            f'ca_file = "{fleet.authority.file}"'
        )
    (fleet.folder / "tree.key").write_text("ab" * 32)
    path = fleet.folder / f"{name}.toml"
    path.write_text(
        f"""
[collector]
id = "{name}"
spool_dir = "{fleet.folder / "spool"}{name.removeprefix("collector")}"
{more}
{own}
[tree]
key_file = "{fleet.folder / "tree.key"}"
discovery = false
hello_s = 0.5
repair_interval_s = 0.2
neighbours = {[f"127.0.0.1:{port}" for port in neighbours]}
[log]
durability = "{durability}"
{log}
"""
    )
    return config.load(path, CollectorSettings)


@contextlib.asynccontextmanager
async def running(collector: Collector) -> AsyncIterator[asyncio.Task[None]]:
    """Run it; it is stopped when the test is through."""
    task = asyncio.create_task(collector.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def linked(collector: Collector) -> set[str]:
    """Return whom it is linked to."""
    return {neighbour["id"] for neighbour in collector.node.status()["neighbours"]}
