"""A root file system: by mmdebstrap, then by the roles of deploy/ansible, then cleaned.

What differs from one build to the next is taken away or made the same: caches, logs, keys that are
made at an installation, and compiled Python, which is made again without the time in it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.tools.provisioning.texts import SYSTEM_STATE_DIR
from gateway.tools.provisioning.unit import (
    FIRST_START_UNIT,
    OF_RELEASES,
    ServicePlan,
    first_start_unit,
    unit,
)
from gateway.tools.system_image import content
from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.order import ARCHITECTURES, ImageOrder

SERVICE_ID = 880
"""The number of the service's user and group in every image: their files outlive an upgrade."""
IN_CHROOT = """#!/bin/sh
# Called as ssh is; the last argument is the command.
for command do :; done
exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh -c "$1"' \\
    {root} "$command"
"""
_EMPTIED = ("var/cache", "var/log", "var/lib/apt/lists", "var/tmp", "tmp", "run", "root/.cache")
_REMOVED = (
    "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/subuid-", "etc/subgid-",
    "etc/ssh/ssh_host_*", "etc/resolv.conf", "etc/.pwd.lock", "var/lib/dbus/machine-id",
    "var/lib/dpkg/*-old", "var/lib/dpkg/lock*", "var/lib/dpkg/triggers/Lock",
    "var/lib/systemd/random-seed", "var/lib/apt/extended_states",
)  # fmt: skip
# Where data is mounted, and what a small Debian lacks that roles write to.
_FOLDERS = (
    *("data", "boot/firmware", "etc/hedgerow", "var/lib/hedgerow"),
    *("etc/sysctl.d", "etc/modules-load.d", "etc/default"),
)
_UNITS = (
    ("multi-user.target", "hedgerow-system.service"),
    ("multi-user.target", "hedgerow-data-grow.service"),
    ("multi-user.target", "hedgerow-ssh-keys.service"),
    ("multi-user.target", "hedgerow.service"),
    ("multi-user.target", FIRST_START_UNIT),
    *(
        (target, "hedgerow-system-deadline.timer")
        for target in ("sysinit.target", "emergency.target", "rescue.target")
    ),
)


class RootFileSystem:
    """A root that is being made.

    Args:
        order: what is to be built.
        folder: where it is made, beside what else is needed.

    """

    def __init__(self, order: ImageOrder, folder: Path) -> None:
        self._order = order
        self._folder = folder
        self.path = folder / "root"

    def bootstrap(self) -> None:
        """Make it of packages.

        Raises:
            ImageBuildError: mmdebstrap fails.

        """
        order = self._order
        packages = [*order.packages, *(order.base.kernel if order.has_kernel else ())]
        mirrors = order.mirrors or order.base.mirrors
        trusted = f"[signed-by={order.keyring}] " if order.keyring is not None else ""
        command: list[str | Path] = ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root"]
        command += [f"--architectures={order.architecture}", f"--include={','.join(packages)}"]
        # A hook of the firmware's package copies the kernel there, and wants it to be mounted.
        command += ["--essential-hook=mkdir -p $1/boot/firmware"]
        if order.keyring is not None:
            command += [f"--keyring={order.keyring}"]
        sources = "".join(f"deb {trusted}{one.format(suite=order.suite)}\n" for one in mirrors)
        command += [order.suite, self.path, "-"]
        self._run(command, data=sources)

    def provision(self) -> str:
        """Give it its files, its service's user, what the roles do, and the gateway.

        Returns:
            The archive of its wheels; empty without a gateway.

        Raises:
            ImageBuildError: a step fails.
            OSError: a file can't be written.

        """
        self._add_user()
        self._copy_files()
        for name in _FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)
        release = self._play()
        if release:
            self._write_unit()
        for target, name in _UNITS:
            if (self.path / "etc/systemd/system" / name).exists():
                wants = self.path / f"etc/systemd/system/{target}.wants"
                wants.mkdir(exist_ok=True)
                (wants / name).unlink(missing_ok=True)
                (wants / name).symlink_to(f"/etc/systemd/system/{name}")
        return release

    def clean(self) -> None:
        """Take away what differs from one build to the next.

        Raises:
            ImageBuildError: Python can't be compiled.
            OSError: a file can't be removed.

        """
        for name in _EMPTIED:
            folder = self.path / name
            for path in folder.iterdir() if folder.is_dir() else ():
                content.remove_tree(
                    path
                ) if path.is_dir() and not path.is_symlink() else path.unlink()
        for pattern in _REMOVED:
            for path in self.path.glob(pattern):
                path.unlink()
        for name, text in (("machine-id", ""), ("hostname", "hedgerow\n")):
            (self.path / "etc" / name).write_text(text)
        installed = self.path / "opt/hedgerow"
        if installed.exists():
            for cache in sorted(installed.rglob("__pycache__")):
                content.remove_tree(cache)
            self.chroot(
                "/usr/bin/env", "PYTHONHASHSEED=0", "/usr/bin/python3", "-m", "compileall", "-q",
                "-j1", "--invalidation-mode", "unchecked-hash", "/opt/hedgerow/releases",
            )  # fmt: skip
        content.remove_tree(self.path / "proc")
        (self.path / "proc").mkdir(mode=0o555)

    def chroot(self, *command: str) -> str:
        """Return what a command prints in it."""
        inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        return self._run(["unshare", "--mount", "sh", "-c", inside, self.path, *command])

    def _add_user(self) -> None:
        number = str(SERVICE_ID)
        self.chroot("/usr/sbin/groupadd", "--system", "--gid", number, "hedgerow")
        self.chroot(
            "/usr/sbin/useradd", "--system", "--uid", number, "--gid", number, "--no-create-home",
            "--home-dir", "/var/lib/hedgerow", "--shell", "/usr/sbin/nologin", "hedgerow",
        )  # fmt: skip

    def _copy_files(self) -> None:
        """Copy the project's own, with the modes that git has, whoever checked them out."""
        source = self._order.project / "deploy/image/root"
        shutil.copytree(source, self.path, dirs_exist_ok=True)
        for path in (source, *content.sorted_tree(source)):
            is_open = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            (self.path / path.relative_to(source)).chmod(0o755 if is_open else 0o644)

    def _write_unit(self) -> None:
        """For a gateway that is not known yet: `hedgerow flash` and site.yml bring another one."""
        command = ("/opt/hedgerow/venv/bin/hedgerow",)
        plan = ServicePlan(
            "of this device",
            command,
            "hedgerow",
            Path("/etc/hedgerow"),
            SYSTEM_STATE_DIR,
            OF_RELEASES,
        )
        condition = "[Unit]\nConditionPathExists=/etc/hedgerow/hedgerow.toml\n"
        text = unit(plan).replace("[Unit]\n", condition, 1)
        units = self.path / "etc/systemd/system"
        (units / "hedgerow.service").write_text(text)
        # It starts nothing without a file on the boot partition.
        (units / FIRST_START_UNIT).write_text(first_start_unit(plan))

    def _play(self) -> str:
        order, ssh = self._order, self._folder / "in-chroot"
        ssh.write_text(IN_CHROOT.format(root=self.path))
        ssh.chmod(0o755)
        about = self._folder / "release.json"
        variables = {
            "ansible_ssh_executable": str(ssh),
            "ansible_ssh_transfer_method": "piped",
            "ansible_remote_tmp": "/tmp/.ansible",  # noqa: S108  # in the root, where nobody is
            "gateway_source_dir": str(order.project),
            "gateway_compiled": order.is_compiled,
            "gateway_python": "/usr/bin/python3",
            "image_roles": list(order.roles),
            "image_kind": order.kind,
            "image_about": str(about),
        }
        hosts = self._folder / "inventory.json"
        hosts.write_text(json.dumps({"images": {"hosts": {"root": variables}}}))
        more = [] if order.variables is None else ["-e", f"@{order.variables.resolve()}"]
        self._run(
            [sys.executable, "-m", "ansible", "playbook", "-i", hosts, "image.yml", *more],
            folder=order.project / "deploy/ansible",
        )
        if not order.kind:
            return ""
        release = json.loads(about.read_text())["release"]
        return str(Path.home() / f".cache/hedgerow/wheelhouse/{release}.tar")

    def _run(
        self, command: Sequence[str | Path], data: str = "", folder: Path | None = None
    ) -> str:
        epoch = str(self._order.epoch_s)
        fixed = {"SOURCE_DATE_EPOCH": epoch, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        fixed |= {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(self._folder / "ansible")}
        try:
            done = subprocess.run(  # noqa: S603  # arguments are our own, without a shell
                command, input=data, capture_output=True, text=True, errors="replace", check=False,
                cwd=folder, env={**os.environ, **fixed},
            )  # fmt: skip
        except OSError as error:
            raise ImageBuildError(f"{command[0]}: {error.strerror or error}") from error
        if done.returncode != 0:
            told = "\n".join(part[-3000:] for part in (done.stdout, done.stderr) if part.strip())
            raise ImageBuildError(f"{Path(command[0]).name} ended with {done.returncode}: {told}")
        return done.stdout


def about(order: ImageOrder, version: str) -> str:
    """Return what an image says of itself."""
    told = {
        "version": version,
        "suite": order.suite,
        "architecture": order.architecture,
        "built_s": order.epoch_s,
    }
    assert order.architecture in ARCHITECTURES
    return json.dumps(told) + "\n"
