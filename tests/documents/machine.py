"""A machine of a page's own: an empty home, addresses, and Hedgerow installed as a package.

It is a set of namespaces (mount, network, processes), so that pages may name ports, addresses and
folders such as /etc/hedgerow verbatim. What still runs in it ends with it. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 150
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.9")
SEPARATE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_OWN = ("/etc", "/srv", "/var/lib", "/var/spool")
"""Folders whose changes stay within."""


def why_not() -> str | None:
    """Return why there can be no such machine here, or None if there can."""
    if os.geteuid() != 0:
        return "a machine of namespaces needs root: run it with sudo"
    for program, package in (
        ("unshare", "util-linux"),
        ("nsenter", "util-linux"),
        ("ip", "iproute2"),
    ):
        if shutil.which(program) is None:
            return f"{program} is not installed: sudo apt-get install {package}"
    tried = subprocess.run([*SEPARATE, "true"], capture_output=True, text=True, check=False)
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else None


@dataclass(frozen=True)
class Done:
    """The end of a script.

    Attributes:
        code: its exit code.
        output: all that it printed.

    """

    code: int
    output: str


class Machine:
    """One machine, until it is left.

    Args:
        folder: an empty one, for its disk.
        installation: the virtual environment in which Hedgerow is installed.

    """

    def __init__(self, folder: Path, installation: Path) -> None:
        self.home = folder / "home"
        self.etc = folder / "etc"
        self.programs = folder / "programs"
        self.installation = installation
        self._folder = folder
        self._init = 0
        self._environment = {
            "HOME": str(self.home),
            "PATH": f"{self.programs}:{installation}/bin:/usr/local/bin:/usr/sbin:/usr/bin",
            "LANG": "C.UTF-8",
            "LOGNAME": "root",
            # Spark's first session on a machine leaves its classes there, which takes a while.
            "XDG_CACHE_HOME": str(Path.home() / ".cache"),
        } | {
            name: os.environ[name] for name in ("JAVA_HOME", "HEDGEROW_JAVA") if name in os.environ
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Make it, and end all that runs in it."""
        self.home.mkdir()
        self.programs.mkdir()
        shutil.copytree("/etc", self.etc, symlinks=True, ignore_dangling_symlinks=True)
        for name in _OWN[1:]:
            (self._folder / name[1:]).mkdir(parents=True)
        mounts = "; ".join(f"mount --bind {self._folder}{name} {name}" for name in _OWN)
        addresses = "; ".join(f"ip address add {one}/32 dev lo" for one in ADDRESSES)
        made = f"set -e; {mounts}; ip link set lo up multicast on; {addresses}; echo made; "
        process = subprocess.Popen(
            [*SEPARATE, "sh", "-c", made + "exec sleep infinity"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said == "made\n", said
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            self._init = int(children)
            yield
        finally:
            process.kill()
            process.wait()

    def run(
        self, script: str, *, where: Path, typed: str = "", more: Mapping[str, str] = {}
    ) -> Done:
        """Have bash run a script to its end.

        Args:
            script: commands; the first that fails ends it.
            where: the folder in which it starts.
            typed: standard input.
            more: variables of the environment.

        """
        ended = subprocess.run(
            self._command(script, where),
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment | dict(more),
            timeout=LIMIT_S,
            check=False,
        )
        return Done(ended.returncode, ended.stdout)

    def begin(
        self, line: str, *, where: Path, output: Path, more: Mapping[str, str] = {}
    ) -> subprocess.Popen[bytes]:
        """Start a command that goes on; what it prints goes to a file."""
        with output.open("wb") as file:
            return subprocess.Popen(
                self._command(line, where),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self._environment | dict(more),
            )

    def _command(self, script: str, where: Path) -> list[str]:
        enter = ["nsenter", f"--target={self._init}", "--mount", "--net", "--pid"]
        text = f"umask 022 && cd '{where}' && set -e -o pipefail\n{script}"
        return [*enter, "bash", "--noprofile", "--norc", "-c", text]


def until(holds: object, what: str) -> None:
    """Wait until a function without arguments returns something true.

    Raises:
        AssertionError: it does not within the limit; the message says what was awaited.

    """
    assert callable(holds)
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
