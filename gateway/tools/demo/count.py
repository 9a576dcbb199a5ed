"""Counts with Spark what arrived, and holds it against what was acknowledged and logged."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gateway.tools.demo.device import Notes
from gateway.tools.demo.fleet import COLLECTOR, ROOT, Fleet, FleetError
from gateway.tools.demo.patience import StalledError
from light_dataclasses import dataclass

TABLES = "tables"


@dataclass(frozen=True, slots=True)
class IngestCounts:
    """The results of the Spark job, of its account and of its excerpt."""

    account: dict[str, Any]
    fleet: dict[str, Any]
    excerpt: dict[str, Any]
    printed: str


async def settle(fleet: Fleet) -> None:
    """Stop a fleet, leaves first, when the collector has what each gateway had.

    Raises:
        FleetError: it does not get everything in time.

    """
    for name in (name for name in fleet.members if name != ROOT):
        await fleet.stop_gateway(name)

    async def has_nobody() -> bool:
        return not fleet.collector_status()["neighbours"]

    try:
        await fleet.patience().until(lambda: _is_fed_by_the_root(fleet))
        await fleet.stop_gateway(ROOT)  # which sends what it still has
        await fleet.patience().until(has_nobody)
    except StalledError as over:
        raise FleetError(f"the collector did not get everything {over}") from None
    await fleet.stop_collector()


async def count(fleet: Fleet, notes: Mapping[str, Notes], killed: Iterable[str]) -> IngestCounts:
    """Run the Spark job over a settled fleet's spool and settle the account.

    Args:
        fleet: a fleet that `settle` has stopped.
        notes: what the device at each gateway noted, by gateway.
        killed: gateways that were killed on the way.

    Raises:
        FleetError: the job or the account did not run.

    """
    tables, rows, noted = (fleet.folder / name for name in (TABLES, "fleet.json", "noted.json"))
    printed = await _python(
        "cloud_ingest.job.command",
        "--spool",
        str(fleet.spool_dir),
        "--tables",
        str(tables),
        "--json",
        str(rows),
    )
    acknowledged = [
        (sent.topic, sent.number, name) for name, one in notes.items() for sent in one.acknowledged
    ]
    noted.write_text(json.dumps(acknowledged))
    topics = {sent.topic for one in notes.values() for sent in one.sent}
    account, excerpt = await asyncio.gather(
        _python(
            "cloud_ingest.tables.account",
            "--tables",
            str(tables),
            "--noted",
            str(noted),
            *(f"--log={fleet.state_dir(name) / 'log'}" for name in fleet.members),
            *(f"--killed={name}" for name in killed),
            failed=1,
        ),
        _python(
            "cloud_ingest.tables.excerpt",
            "--tables",
            str(tables),
            *(f"--readings={topic}" for topic in sorted(topics)),
        ),
    )
    return IngestCounts(
        json.loads(account), json.loads(rows.read_text()), json.loads(excerpt), printed
    )


async def draw(fleet: Fleet, folder: Path) -> None:
    """Leave a copy of the dashboard over the tables that `count` has written.

    Args:
        fleet: whose tables they are.
        folder: made where there is none.

    Raises:
        FleetError: it could not be made.

    """
    tables = fleet.folder / TABLES
    await _python(
        "gateway.tools.cli", "dashboard", "--tables", str(tables), "--export", str(folder)
    )


async def _is_fed_by_the_root(fleet: Fleet) -> bool:
    """Return whether the collector has what the root had, and the tree feeds it."""
    status = await fleet.status(ROOT)
    if status is None:
        return False
    if not _has(fleet.collector_status().get("have", {}), status["have"]):
        return False
    now = await fleet.status(ROOT)
    return now is not None and any(
        neighbour["id"] == COLLECTOR and neighbour["forwarding"] for neighbour in now["neighbours"]
    )


def _has(have: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(have.get(epoch, 0) >= numbers for epoch, numbers in wanted.items())


async def _python(module: str, *arguments: str, failed: int = 0) -> str:
    """Run a module of the cloud side in a process of its own and return what it printed.

    ``failed`` is an exit code that is an answer too: it ran, and found something wrong.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode not in (0, failed) or not output:
        raise FleetError(f"{module} ended with {process.returncode}: {errors.decode()[-2000:]}")
    return output.decode()
