"""An arm64 Debian on whatever machine this is: its programs run under qemu's user mode.

Its packages are unpacked and not configured, which takes a quarter of a minute where their scripts
would take many under qemu; Python needs none of them. The kernel starts qemu for a program of the
other machine (binfmt_misc), so the root is entered by chroot as one of this machine is. The network
is this machine's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from commands import run

SUITE = "trixie"
KIND = "cp313-aarch64"
"""The tag of the wheels that this suite's Python takes."""
PACKAGES = "python3,python3-venv,dash,coreutils"
PROGRAMS = (
    ("mmdebstrap", "mmdebstrap"),
    ("arch-test", "arch-test"),
    ("qemu-aarch64-static", "qemu-user-static"),
    ("update-binfmts", "binfmt-support"),
    ("mosquitto_sub", "mosquitto-clients"),
    ("coap-client-openssl", "libcoap3-bin"),
)
"""Each program that is needed, and the Debian package that has it."""
BINFMT = Path("/proc/sys/fs/binfmt_misc")
IN_ROOT = "mount -t proc proc {root}/proc && exec chroot {root} "
IN_CHROOT = """#!/bin/sh
# Called as ssh is; the last argument is the command.
for command do :; done
exec unshare --mount sh -c '{inside}/bin/sh -c "$1"' sh "$command"
"""
PASSWD = "root:x:0:0:root:/root:/bin/sh\n"
SLOW_S = 1800.0
"""A program has this long: it runs a hundred times slower, and its neighbours as they like."""


def why_not() -> str | None:
    """Return why there can be no such root here, or None if there can."""
    if os.geteuid() != 0:
        return "only root can make and enter a root file system"
    for program, package in PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed: sudo apt-get install {package}"
    handler = BINFMT / "qemu-aarch64"
    if not handler.exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT], check=False)
        subprocess.run(["update-binfmts", "--enable", "qemu-aarch64"], check=False)
    if not handler.exists() or "F" not in handler.read_text().partition("flags:")[2].split()[0]:
        return f"this kernel starts no qemu for arm64 programs in another root: {handler}"
    return None


@dataclass(frozen=True)
class Arm64Root:
    """The root file system.

    Attributes:
        path: of it.

    """

    path: Path

    @classmethod
    def made_in(cls, folder: Path) -> Arm64Root:
        """Unpack one."""
        path = folder / "arm64"
        run(
            *("mmdebstrap", "--quiet", "--architectures=arm64", "--variant=extract"),
            *(f"--include={PACKAGES}", SUITE, path),
            timeout_s=900,
        )
        for name in ("bin", "sbin", "lib"):
            if not (path / name).exists():
                (path / name).symlink_to(f"usr/{name}")
        if not (path / "bin/sh").exists():
            (path / "bin/sh").symlink_to("dash")
        for name in ("proc", "root", "run", "tmp", "etc/ssl/certs"):
            (path / name).mkdir(parents=True, exist_ok=True)
        (path / "etc/passwd").write_text(PASSWD)
        # Python's pip loads it before it knows that it is not to ask anybody.
        authorities = Path("/etc/ssl/certs/ca-certificates.crt")
        shutil.copy(authorities, path / "etc/ssl/certs")
        return cls(path)

    @property
    def ssh(self) -> str:
        """A program that Ansible takes for ssh, and that runs a command in the root."""
        return IN_CHROOT.format(inside=IN_ROOT.format(root=self.path))

    def command(self, *command: str, **environment: str) -> list[str]:
        """Return the command line that runs a command in the root, as a process of its own."""
        script = IN_ROOT.format(root=self.path) + '"$@"'
        settings = {"PATH": "/usr/bin:/usr/sbin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        given = (f"{name}={value}" for name, value in (settings | environment).items())
        inside = ("/usr/bin/env", "--ignore-environment", *given, *command)
        return ["unshare", "--mount", "sh", "-c", script, "sh", *inside]

    def run(self, *command: str, **environment: str) -> str:
        """Run a command in the root; return what it prints.

        Raises:
            AssertionError: it failed.

        """
        return run(*self.command(*command, **environment), timeout_s=SLOW_S)
