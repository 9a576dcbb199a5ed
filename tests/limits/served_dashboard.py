"""A dashboard in a process of its own, as an attacker of its port finds it.

Run as a program it serves the tables of a folder, of which there are none, until its input ends.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dashboard_server import dashboard

ANSWER_S = 60.0


class ServedDashboard:
    """A dashboard that runs.

    Attributes:
        process: it.
        address: where it listens.

    """

    def __init__(self, folder: Path) -> None:
        command = (sys.executable, __file__, str(folder))
        tests = Path(__file__).parents[1]
        around = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tests), str(tests.parent)))}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=around)
        assert self.process.stdout is not None
        self.address = ("127.0.0.1", int(self.process.stdout.readline()))

    def page(self) -> int:
        """The status of its page, for somebody at another address of this machine."""
        host, port = self.address
        with urllib.request.urlopen(f"http://{host}:{port}/", timeout=ANSWER_S) as answer:
            return int(answer.status)


@contextmanager
def served(folder: Path) -> Iterator[ServedDashboard]:
    """A dashboard until the end of the block."""
    one = ServedDashboard(folder)
    try:
        yield one
    finally:
        one.process.communicate(timeout=ANSWER_S)


async def _serve(folder: Path) -> None:
    async with dashboard(folder, has_users=True) as at:
        sys.stdout.write(f"{at.port}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
