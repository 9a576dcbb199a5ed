"""A machine that systemd boots runs the gateway that ``hedgerow init`` wrote, through power cuts.

It is the slice of the booted tests that CI runs: the system has this machine's programs, so that
nothing is fetched, and files of its own for all the rest. `make test-deploy` boots whole Debians.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import bed
import pytest
from bed import Pi
from commands import run, until
from missing_peer import skip_or_fail_in_ci

from benchmarks.mesh.namespaces import Namespace

PROJECT = Path(__file__).parents[2]
HEDGEROW = str(Path(sys.prefix) / "bin" / "hedgerow")
ACCOUNTS = """\
root:x:0:0::/root:/bin/sh
hedgerow:x:990:990::/var/lib/hedgerow:/usr/sbin/nologin
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
"""
GROUPS = "root:x:0:\nhedgerow:x:990:\nnogroup:x:65534:\n"
NOT_NEEDED = ("dbus.service", "dbus.socket", "systemd-logind.service", "console-getty.service")
"""Services of a person who logs in: they would want accounts of their own."""
TOPIC = "kept/here"


@pytest.fixture
def pi(tmp_path: Path) -> Iterator[Pi]:
    """A booted system that has no gateway yet."""
    if (why := bed.why_not()) is not None:
        skip_or_fail_in_ci(why)
    if any(PROJECT.is_relative_to(hidden) for hidden in ("/tmp", "/var/tmp", "/run")):
        pytest.skip(f"{PROJECT}: systemd gives each service a /tmp of its own, so none runs there")
    with ExitStack() as stack:
        root = tmp_path / "root"
        make_readable(root, Path("/etc/systemd"))
        units = root / "etc" / "systemd" / "system"
        units.mkdir(parents=True)
        for name in NOT_NEEDED:
            (units / name).symlink_to("/dev/null")
        (root / "etc" / "machine-id").write_text("")
        (root / "etc" / "passwd").write_text(ACCOUNTS)
        (root / "etc" / "group").write_text(GROUPS)
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        for shown in sorted({Path("/usr"), PROJECT, Path(sys.prefix), Path(sys.base_prefix)}):
            place = root / shown.relative_to("/")
            if not place.exists():  # not within what is shown already
                make_readable(root, shown)
                run("mount", "--bind", "-o", "ro", shown, place)
                stack.callback(run, "umount", place)
        run("chmod", "-R", "a+rX", root / "etc")
        space = Namespace("booted")
        stack.callback(space.remove)
        made = Pi("gw-here", "127.0.0.1", root, space, tmp_path)
        stack.callback(made.switch_off)
        made.boot()
        yield made


def make_readable(root: Path, place: Path) -> None:
    """Make a folder of the system, with all above it, that each of its users may enter."""
    root.mkdir(exist_ok=True)
    root.chmod(0o755)
    made = root
    for part in place.parts[1:]:
        made /= part
        made.mkdir(exist_ok=True)
        made.chmod(0o755)


def main_process(pi: Pi) -> str:
    """Return the number of the gateway's process, as systemd knows it."""
    return pi.run("systemctl", "show", "--property=MainPID", "--value", "hedgerow").strip()


def serves(pi: Pi) -> bool:
    """Return whether the gateway has told systemd that it serves."""
    return pi.says("systemctl", "is-active", "hedgerow") == "active"


def test_a_gateway_serves_after_a_reload_a_kill_and_a_power_cut_with_what_it_acknowledged(
    pi: Pi,
) -> None:
    log_in = ("--user", "operator", "--password-file", "/etc/hedgerow/operator.password")
    told = pi.run(HEDGEROW, "init", "--yes").splitlines()
    for program in ("chown", "systemctl"):  # what it says that has systemd run the gateway
        pi.run(*next(line.split() for line in told if line.split()[:1] == [program]))
    assert serves(pi), pi.journal()
    pi.run(HEDGEROW, "pub", "-q", "1", "-r", "-t", TOPIC, "-m", "before", *log_in)

    first = main_process(pi)
    pi.run("systemctl", "reload", "hedgerow")
    pi.run(HEDGEROW, "status")
    assert main_process(pi) == first, "a reload is no other process"

    pi.run("kill", "-9", first)
    until("systemd starts it again", lambda: serves(pi) and main_process(pi) != first)

    pi.cut_power()
    pi.boot()
    until("the gateway comes with the boot", lambda: serves(pi))
    assert "before" in pi.run(HEDGEROW, "sub", "-t", TOPIC, "--count", "1", *log_in)
