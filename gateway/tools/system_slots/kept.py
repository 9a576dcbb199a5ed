"""State that a new system takes over from the running one: who the machine is, and its users.

The gateway's configuration and state are on the data partition, and need no taking over.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gateway.tools.system_slots.slots import SystemSlotError

KEPT = (
    "etc/machine-id",
    "etc/hostname",
    "etc/hosts",
    "etc/localtime",
    "etc/timezone",
    "etc/ssh/ssh_host_*",
    "etc/ssh/sshd_config.d",
    "etc/sudoers.d",
    "etc/netplan",
    "etc/NetworkManager/system-connections",
    "etc/systemd/network",
    "etc/nftables.conf",
    "etc/cloud/cloud-init.disabled",
    # What is of this device in the unit: its devices, groups, credentials and limits.
    "etc/systemd/system/hedgerow.service",
    "etc/systemd/system/hedgerow.service.d",
    "var/lib/hedgerow-first-boot",
    "var/lib/chrony",
)
"""Paths below the root, with * for any part of a name; a folder is taken over as a whole."""
ACCOUNT_FILES = ("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/subuid", "etc/subgid")
PEOPLE_FROM, PEOPLE_TO = 1000, 59_999
"""The numbers of people's accounts in Debian (policy, section 9.2.2)."""


def take_over(old: Path, new: Path) -> None:
    """Copy what is kept, with owners and modes, and the accounts of people.

    Args:
        old: the root that runs.
        new: the root that is made.

    Raises:
        SystemSlotError: it can't be copied.
        OSError: an account's file can't be read or written.

    """
    people = people_in((old / "etc/passwd").read_text())
    groups = people_in((old / "etc/group").read_text())
    for name in ACCOUNT_FILES:
        before, after = old / name, new / name
        if before.exists() and after.exists():
            whose = groups if name in ("etc/group", "etc/gshadow") else people
            after.write_text(with_accounts(after.read_text(), before.read_text(), whose))
    _keep_memberships(old / "etc/group", new / "etc/group", people)
    for pattern in KEPT:
        for path in sorted(old.glob(pattern)):
            target = new / path.relative_to(old)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(path, target)


def people_in(text: str) -> frozenset[str]:
    """Return the names in ``passwd`` or ``group`` whose numbers are people's (passwd(5),
    group(5))."""
    lines = [line.split(":") for line in text.splitlines()]
    return frozenset(
        line[0]
        for line in lines
        if len(line) > 2 and line[2].isdigit() and PEOPLE_FROM <= int(line[2]) <= PEOPLE_TO
    )


def with_accounts(new: str, old: str, names: Iterable[str]) -> str:
    """Return a file of accounts with these lines of an older one; a line of the same name gives
    way.

    Args:
        new: its text.
        old: the older one's.
        names: whose lines are taken.

    """
    taken = {line.partition(":")[0]: line for line in old.splitlines()}
    wanted = {name: taken[name] for name in sorted(names) if name in taken}
    kept = [line for line in new.splitlines() if line.partition(":")[0] not in wanted]
    return "".join(f"{line}\n" for line in [*kept, *wanted.values()])


def with_memberships(new: str, old: str, people: Iterable[str]) -> str:
    """``group`` with the people who are in groups of the same name in an older one."""
    named = set(people)
    before = {line.split(":")[0]: line.split(":")[3].split(",") for line in old.splitlines()}
    lines = []
    for line in new.splitlines():
        fields = line.split(":")
        own = [one for one in fields[3].split(",") if one]
        added = [one for one in before.get(fields[0], ()) if one in named and one not in own]
        lines.append(":".join([*fields[:3], ",".join([*own, *added])]))
    return "".join(f"{line}\n" for line in lines)


def _keep_memberships(old: Path, new: Path, people: Iterable[str]) -> None:
    new.write_text(with_memberships(new.read_text(), old.read_text(), people))


def _copy(path: Path, target: Path) -> None:
    command = ("/bin/cp", "--archive", "--no-target-directory", "--", path, target)
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    if done.returncode != 0:
        raise SystemSlotError(f"{path}: {done.stderr.strip()}")
