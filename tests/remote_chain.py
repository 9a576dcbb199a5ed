"""Five gateways in a line, in one process: gw-0 to gw-4. Prints their CoAP ports as JSON, once.

Run it as `python tests/remote_chain.py FOLDER MODE`; it ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from fleet_gateway import Fleet, FleetGateway, until

COUNT = 5
SENSORS = '[[sensors]]\ntype = "switch"\nname = "valve"\n'


def started(folder: Path, mode: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Such a process, and the ports for CoAP."""
    tests = Path(__file__).parent
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(folder), mode],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (folder / "log.txt").read_text()
    return process, json.loads(line)


def knows_all(gateway: FleetGateway) -> bool:
    process = gateway.process
    return (
        len(process.parts.members.known) == COUNT
        and len(process.parts.node.locator.reached) == COUNT - 1
    )


async def main(folder: Path, mode: str) -> None:
    """Run them."""
    fleet = Fleet(folder)
    gateways = [fleet.gateway(f"gw-{number}", tls=False) for number in range(COUNT)]
    before: list[str] = []
    try:
        for one in gateways:
            one.coap = SENSORS
            await one.start(neighbours=before, mode=mode)
            before = [f"127.0.0.1:{one.port}"]
        await until(lambda: all(map(knows_all, gateways)))
        print(json.dumps([one.process.parts.coap.coap_port for one in gateways]), flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await fleet.stop()


if __name__ == "__main__":
    os.umask(0o077)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
