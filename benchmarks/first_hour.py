"""The time from nothing to the first reading, and to three gateways in TLS.

python -m benchmarks.first_hour

It does what docs/first-gateway.md says, without systemd and in an empty folder: a fresh virtual
environment, `pip install` of the wheel of this tree with all packages from the index that pip is
configured for and none from pip's cache, `hedgerow init`, `hedgerow run`, a reading; then three
gateways by `hedgerow init --fleet`. It prints the seconds of each step and how many commands are
typed and choices made, and exits with 1 where either takes more than five minutes or shows no
reading.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[1]
LIMIT_S = 300.0
ONE_PORT, FLEET_PORT = 18_830, 18_840
LEFT_OUT = (".*", "build", "dist", "tests", "__pycache__", "*.so", "*.egg-info")
FLEET = ("gw-root", "gw-north", "gw-south")


class FailedError(Exception):
    """A step did not come to its end; the message has what it printed."""


@dataclass
class Account:
    """The cost of one way through the page.

    Attributes:
        title: its goal, in words.
        commands: the number of lines that are typed.
        choices: the number of things that the reader has to make up: names, for instance.
        steps_s: seconds by step.

    """

    title: str
    commands: int = 0
    choices: int = 0
    steps_s: dict[str, float] = field(default_factory=dict)

    @property
    def total_s(self) -> float:
        """Of all steps."""
        return sum(self.steps_s.values())

    @contextlib.contextmanager
    def step(self, name: str, *, commands: int = 1, choices: int = 0) -> Iterator[None]:
        """Count one step, and how long it takes."""
        self.commands += commands
        self.choices += choices
        began = time.monotonic()
        yield
        self.steps_s[name] = time.monotonic() - began

    def as_text(self) -> str:
        """Return a line for each step, and their sum."""
        steps = [f"  {seconds:6.1f} s  {name}" for name, seconds in self.steps_s.items()]
        total = f"  {self.total_s:6.1f} s  in all: {self.commands} commands, {self.choices} choices"
        return "\n".join([f"{self.title}:", *steps, total])


def run(*command: str | Path, where: Path | None = None) -> str:
    """Run a command to its end; what it printed.

    Raises:
        FailedError: it failed, or took too long.

    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{command}: longer than {LIMIT_S:.0f} s") from error
    if done.returncode:
        raise FailedError(f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def gateways(hedgerow: Path, *configurations: Path) -> Iterator[None]:
    """Have them run, and wait until each is up.

    Raises:
        FailedError: one ends before.

    """
    running: list[subprocess.Popen[str]] = []
    try:
        for configuration in configurations:
            command = [str(hedgerow), "run", "--config", str(configuration)]
            running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        for process in running:
            if process.stderr is None or not any(" is up: " in line for line in process.stderr):
                raise FailedError("a gateway ended before it was up")
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.communicate()


def until(shows: Callable[[], bool], what: str) -> None:
    """Wait for something to be shown.

    Raises:
        FailedError: it is not, in time.

    """
    deadline = time.monotonic() + LIMIT_S
    while not shows():
        if time.monotonic() > deadline:
            raise FailedError(f"not shown: {what}")


def reading(hedgerow: Path, configuration: Path, password_file: Path) -> None:
    """Wait for a sensor's reading at a subscriber."""
    user = ("--user", "operator", "--password-file", password_file)
    printed = run(hedgerow, "sub", "--config", configuration, "-t", "#", *user, "-C", "1")
    if "/host/" not in printed:
        raise FailedError(f"no reading: {printed}")


def one_gateway(folder: Path, wheel: Path) -> Account:
    """From nothing to the first reading, in an environment of its own."""
    account = Account("one gateway")
    own, made = folder / "venv", folder / "gateway"
    hedgerow = own / "bin" / "hedgerow"
    with account.step("python3 -m venv"):
        run(sys.executable, "-m", "venv", own)
    with account.step("pip install"):
        run(own / "bin" / "pip", "install", "--no-cache-dir", "--quiet", wheel, where=folder)
    with account.step("hedgerow init --yes"):
        run(hedgerow, "init", made, "--yes", "--port", str(ONE_PORT))
    with contextlib.ExitStack() as stack:
        with account.step("hedgerow run"):
            stack.enter_context(gateways(hedgerow, made / "hedgerow.toml"))
        with account.step("hedgerow sub: the first reading"):
            reading(hedgerow, made / "hedgerow.toml", made / "operator.password")
    return account


def three_gateways(folder: Path) -> Account:
    """Three in TLS, on the same installation."""
    account = Account("three gateways in TLS, from there")
    hedgerow, made = folder / "venv" / "bin" / "hedgerow", folder / "fleet"
    with account.step("hedgerow init --fleet", choices=len(FLEET)):
        run(hedgerow, "init", made, "--yes", "--port", str(FLEET_PORT), "--fleet", *FLEET)
    files = [made / name / "hedgerow.toml" for name in FLEET]

    def is_whole() -> bool:
        shown = run(hedgerow, "tree", "--config", files[-1])
        return all(name in shown for name in FLEET) and "no answer" not in shown

    with contextlib.ExitStack() as stack:
        with account.step("hedgerow run", commands=len(FLEET)):
            stack.enter_context(gateways(hedgerow, *files))
        with account.step("hedgerow tree: all three"):
            until(is_whole, "three gateways in hedgerow tree")
        with account.step("hedgerow sub: the first reading"):
            reading(hedgerow, files[-1], made / "operator.password")
    return account


def main() -> int:
    """Do both, and print what they cost."""
    with tempfile.TemporaryDirectory(prefix="first-hour-") as made:
        folder = Path(made)
        try:
            pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps")
            source = folder / "source"  # a copy: setuptools leaves folders beside what it builds
            shutil.copytree(PROJECT, source, ignore=shutil.ignore_patterns(*LEFT_OUT))
            run(*pip, "--wheel-dir", folder, source)
            (wheel,) = folder.glob("*.whl")
            accounts = one_gateway(folder, wheel), three_gateways(folder)
        except FailedError as error:
            print(error, file=sys.stderr)
            return 1
    for account in accounts:
        print(account.as_text())
    return int(any(account.total_s > LIMIT_S for account in accounts))


if __name__ == "__main__":
    sys.exit(main())
