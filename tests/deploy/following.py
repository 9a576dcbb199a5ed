"""A Pi that follows a repository of its operator's, as one behind NAT does (docs/day-two.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed import OPERATOR, Pi
from commands import inside, run
from fleet import DeployedFleet

ENROLMENT = f"{OPERATOR}:8890"
PULL_S = 900.0
_AS = ("-c", "user.name=operator", "-c", "user.email=operator@example.org")
_BUILT = "build/\n*.egg-info/\n__pycache__/\n"


@dataclass(frozen=True)
class Repository:
    """The operator's checkout, whose branch ``stable`` the Pi follows.

    Attributes:
        folder: the checkout.

    """

    folder: Path

    def begin(self) -> None:
        """Make a repository of the folder."""
        self._git("init", "--quiet", "--initial-branch=stable")
        (self.folder / ".git/info/exclude").write_text(_BUILT)
        self.commit("First")

    def commit(self, what: str) -> None:
        """Have all that changed in a commit of its own."""
        self._git("add", "--all")
        self._git(*_AS, "commit", "--quiet", f"--message={what}")

    @property
    def url(self) -> str:
        """The URL at which `serve` has it."""
        return f"git://{OPERATOR}/{self.folder.name}"

    def serve(self) -> list[str]:
        """The command that serves it, on the operator's machine."""
        served = ("--export-all", "--reuseaddr", f"--listen={OPERATOR}")
        return ["git", "daemon", *served, f"--base-path={self.folder.parent}", str(self.folder)]

    def _git(self, *arguments: str) -> None:
        run("git", "-C", self.folder, *arguments)


@dataclass(frozen=True)
class Follower:
    """A Pi that pulls.

    Attributes:
        fleet: that it is of.
        name: its gateway's.
        repository: that it follows.

    """

    fleet: DeployedFleet
    name: str
    repository: Repository

    @property
    def pi(self) -> Pi:
        """The Pi."""
        return self.fleet.bed.pis[self.name]

    def pull(self) -> tuple[int, str]:
        """Do what the timer does once a day; return the exit code, and the unit's journal since."""
        since = self.pi.run("date", "+%F %T").strip()
        done = inside(self.pi.leader, ["systemctl", "start", "hedgerow-pull.service"], PULL_S)
        journal = self.pi.says(
            *("journalctl", "--unit=hedgerow-pull", f"--since={since}", "--no-pager", "-o", "cat")
        )
        return done.returncode, journal

    def releases(self) -> dict[str, Any]:
        """Return what the Pi says of its releases."""
        switch = "PYTHONPATH=/opt/hedgerow/switch"
        said = self.pi.run("env", switch, "python3", "-B", "-m", "releases", "status")
        told: dict[str, Any] = json.loads(said)
        return told

    def marks(self) -> int:
        """Return by how many releases the one that runs is ahead of the first (`next_release`)."""
        folder = self.pi.root / "opt/hedgerow/releases" / self.fleet.release(self.name)
        (module,) = folder.glob("lib/python3*/site-packages/gateway/__init__.py")
        return module.read_text().count("# one more release")


@contextmanager
def running(*command: str) -> Iterator[None]:
    """Have a command run meanwhile."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr) as process:
        try:
            yield
        finally:
            process.terminate()
