"""The command that Ansible and the Pi's own units call: ``python3 -m releases``.

try RELEASE --within-s S    let a release run, on trial; --ring N: in which ring of a roll-out
confirm RELEASE             have it stay, if its listeners answer: a CONNECT, and a ping over CoAP
return --why WHY            let the one before run again, if one is on trial
resume                      at a boot, before the service
watch                       until the trial is over
status                      what runs, what is on trial, how the last trial ended: as JSON
listeners                   ask each listener, over TLS with the gateway's own certificate
base                        what a delta can begin with, the archive of what runs: as JSON
rebuild BASE DELTA ARCHIVE --size S --sha256 D
                            make an archive of the one of release BASE and a delta
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from . import archive
from .archive import ArchiveError, WantedArchive
from .asking import OwnListeners
from .folder import ReleaseFolder
from .guard import ReleaseGuard
from .trial import ServiceEnds, TrialError

ROOT = Path("/opt/hedgerow")
CONFIG = Path("/etc/hedgerow/hedgerow.toml")
ANSWERS_S = 30.0
"""The time in which all listeners answer once."""
UNIT = "hedgerow.service"
GUARD_UNIT = "hedgerow-trial.service"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SYSTEMCTL_S = 30.0
_RESTARTS, _STATE, _SINCE = "NRestarts", "ActiveState", "StateChangeTimestampMonotonic"


class SystemdService:
    """The service as systemd runs it (systemctl(1))."""

    def boot_id(self) -> str:
        """Return the kernel's."""
        return _BOOT_ID.read_text().strip()

    def ends(self) -> ServiceEnds | None:
        """Return what it says of how the service ended; None where it does not say.

        ``failed`` is one that is not started again, since it ended as a wrong configuration has it
        end (``RestartPreventExitStatus``): `ServiceEnds.failed_at` is when, in microseconds.
        """
        asked = [f"--property={name}" for name in (_RESTARTS, _STATE, _SINCE)]
        try:
            told = self._systemctl("show", *asked, UNIT)
        except OSError as error:
            sys.stderr.write(f"releases: {error}\n")
            return None
        of = dict(line.partition("=")[::2] for line in told.splitlines())
        count, since = of.get(_RESTARTS, ""), of.get(_SINCE, "")
        if not count.isdigit() or not since.isdigit():
            return None
        return ServiceEnds(int(count), int(since) if of.get(_STATE) == "failed" else None)

    def restart(self) -> None:
        """Have it started again, and wait for nothing.

        Raises:
            OSError: systemd does not do it.

        """
        self._systemctl("restart", "--no-block", UNIT)

    def start_guard(self) -> None:
        """Start the unit of `ReleaseGuard.watch`.

        Raises:
            OSError: systemd does not do it.

        """
        self._systemctl("start", "--no-block", GUARD_UNIT)

    def _systemctl(self, *arguments: str) -> str:
        """Return what it says.

        Raises:
            OSError: it can't be run, is not ready in time, or refuses.

        """
        command = ("/usr/bin/systemctl", *arguments)
        what = " ".join(command)
        try:
            done = subprocess.run(  # noqa: S603  # arguments are our own
                command, capture_output=True, text=True, timeout=_SYSTEMCTL_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"{what}: {error}") from error
        if done.returncode:
            raise OSError(f"{what}: {done.stderr.strip()}")
        return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(prog="releases", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--config", type=Path, default=CONFIG, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    tried = commands.add_parser("try")
    tried.add_argument("release")
    tried.add_argument("--within-s", type=float, default=600.0)
    tried.add_argument("--ring", type=int)
    confirmed = commands.add_parser("confirm")
    confirmed.add_argument("release")
    confirmed.add_argument("--answers-s", type=float, default=ANSWERS_S)
    commands.add_parser("return").add_argument("--why", default="it was sent back")
    rebuilt = commands.add_parser("rebuild")
    rebuilt.add_argument("base")
    rebuilt.add_argument("delta", type=Path)
    rebuilt.add_argument("archive", type=Path)
    rebuilt.add_argument("--size", type=int, required=True)
    rebuilt.add_argument("--sha256", required=True)
    for name in ("resume", "watch", "status", "base", "listeners"):
        commands.add_parser(name)
    options = parser.parse_args(arguments)
    folder = ReleaseFolder(options.root)
    listeners = OwnListeners(options.config, getattr(options, "answers_s", ANSWERS_S))
    try:
        return _done(options, folder, ReleaseGuard(folder, SystemdService(), listeners))
    except (TrialError, ArchiveError, OSError) as error:
        sys.stderr.write(f"releases: {error}\n")
        return 1


def _done(options: argparse.Namespace, folder: ReleaseFolder, guard: ReleaseGuard) -> int:
    match options.command:
        case "try":
            guard.try_release(options.release, options.within_s, options.ring)
        case "confirm":
            guard.confirm(options.release)
        case "return":
            before = guard.send_back(options.why)
            sys.stdout.write(f"{before} runs again\n" if before else "nothing is on trial\n")
        case "resume":
            guard.resume()
        case "watch":
            guard.watch()
        case "listeners":
            return _asked(OwnListeners(options.config, ANSWERS_S))
        case "base":
            current = folder.current()
            found = archive.told(folder.archive(current)) if archive.has_program() else None
            base = None if found is None else {"release": current, **asdict(found)}
            sys.stdout.write(json.dumps(base) + "\n")
        case "rebuild":
            wanted = WantedArchive(options.size, options.sha256)
            archive.rebuild(folder.archive(options.base), options.delta, options.archive, wanted)
        case _:
            trial = folder.trial()
            told = {
                "current": folder.current(),
                "trial": None if trial is None else asdict(trial),
                "last": folder.last(),
            }
            sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _asked(listeners: OwnListeners) -> int:
    found = listeners.complaints(())
    sys.stderr.write("".join(f"releases: {one}\n" for one in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
