"""A Debian package of Hedgerow: what is in it, and what it does at its installation.

It brings a virtual environment whole, in /usr/lib/hedgerow: pip is not run on the machine. The
environment is of one Python, so there is a package for each Debian.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gateway.process.configuration import place
from gateway.tools import provisioning
from gateway.tools.cli import command_line
from gateway.tools.commands import completion, new_files
from gateway.tools.handbook import manual
from gateway.tools.provisioning.files import SYSTEM_USER
from gateway.tools.provisioning.texts import SYSTEM_STATE_DIR
from gateway.tools.provisioning.unit import (
    FIRST_START_UNIT,
    STARTER,
    STARTER_FILES,
    Environment,
    ServicePlan,
    first_start_unit,
    unit,
)

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
DEBIANS = {"cp311": 12, "cp313": 13}
"""The Debian release that has a Python, by the Python's ABI."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Debian's name of a machine's."""
HOME = new_files.PACKAGED
ENVIRONMENT = """\
home = /usr/bin
include-system-site-packages = true
version = {python}
"""
"""Debian's packages for pins and I2C are found behind the environment's own."""
PROGRAM = """\
#!{home}/bin/python3
import sys

from gateway.tools import provisioning
from gateway.tools.cli import main

sys.exit(main())
"""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/hedgerow",
    "fish": "usr/share/fish/vendor_completions.d/hedgerow.fish",
    "zsh": "usr/share/zsh/vendor-completions/_hedgerow",
}
"""The file in which each shell looks for completions."""


class PackageError(Exception):
    """There is no package for this, or what it is made of is not there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of machine that a package is for.

    Attributes:
        abi: of its Python, as wheels name it.
        machine: its processor, as wheels name it.

    """

    abi: str
    machine: str

    @classmethod
    def parse(cls, text: str) -> Kind:
        """Read one.

        Raises:
            PackageError: no Debian is of this kind.

        """
        abi, _, machine = text.partition("-")
        if abi not in DEBIANS or machine not in ARCHITECTURES:
            known = [f"{abi}-{machine}" for abi in DEBIANS for machine in ARCHITECTURES]
            raise PackageError(f"{text!r} is none of {', '.join(known)}")
        return cls(abi, machine)

    @property
    def python(self) -> str:
        """Its Python's version, as ``3.13``."""
        return f"{self.abi[2]}.{self.abi[3:]}"

    @property
    def architecture(self) -> str:
        """Debian's name of its processor."""
        return ARCHITECTURES[self.machine]

    def version(self, of_project: str) -> str:
        """Return the package's version: a later Debian's is the higher one, so an upgrade takes
        it."""
        return f"{of_project}+deb{DEBIANS[self.abi]}"


def build(wheels: Path, kind: Kind, folder: Path) -> Path:
    """Build a package.

    Args:
        wheels: all that are in it.
        kind: of machine.
        folder: the one in which the package is put.

    Raises:
        PackageError: the project's wheel is not there.
        subprocess.CalledProcessError: pip or dpkg-deb failed, and said why.

    """
    found = list(wheels.glob("hedgerow-*.whl"))
    if len(found) != 1:
        raise PackageError(f"{wheels}: one wheel of hedgerow is wanted there, not {len(found)}")
    version = kind.version(found[0].name.split("-")[1])
    with tempfile.TemporaryDirectory(prefix="hedgerow-deb-") as made:
        root = Path(made) / "root"
        root.mkdir()
        install_wheels(root, wheels, kind)
        fill(root, kind, version)
        readable_by_all(root)
        file = folder / f"hedgerow_{version}_{kind.architecture}.deb"
        fresh = file.with_suffix(".part")
        options = ("--root-owner-group", "-Zxz", "-z3", "--build")
        # Times of now would make each build another file.
        environment = {"SOURCE_DATE_EPOCH": "315619200"} | os.environ
        call = ["dpkg-deb", *options, str(root), str(fresh)]
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603
        fresh.rename(file)
    return file


def install_wheels(root: Path, wheels: Path, kind: Kind) -> None:
    """Unpack all wheels of a folder into the environment.

    By name and version: of a wheel that is named by its path, pip notes where it was.
    """
    packages = root / HOME.relative_to("/") / f"lib/python{kind.python}/site-packages"
    named = ["==".join(wheel.name.split("-")[:2]) for wheel in sorted(wheels.glob("*.whl"))]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", f"--find-links={wheels}", "--no-deps", "--no-compile"]
    command += [f"--target={packages}", "--only-binary=:all:", f"--python-version={kind.python}"]
    command += ["--implementation=cp", f"--abi={kind.abi}", "--abi=abi3", "--abi=none"]
    platforms = [f"manylinux_2_{minor}" for minor in range(17, 37)] + ["manylinux2014", "linux"]
    command += [f"--platform={platform}_{kind.machine}" for platform in platforms]
    subprocess.run([*command, *named], check=True)  # noqa: S603
    # Commands of all of them, by the path of the Python that ran pip.
    shutil.rmtree(packages / "bin", ignore_errors=True)


def fill(root: Path, kind: Kind, version: str) -> None:
    """Write all of a package that is no wheel.

    Args:
        root: the package's files as they will be on the machine.
        kind: of machine.
        version: of the package.

    """
    home = HOME.relative_to("/")
    write(root / home / "pyvenv.cfg", ENVIRONMENT.format(python=kind.python))
    write(root / home / "bin/hedgerow", PROGRAM.format(home=HOME), mode=0o755)
    (root / home / "bin/python3").symlink_to(f"/usr/bin/python{kind.python}")
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/hedgerow").symlink_to(HOME / "bin/hedgerow")
    for name in STARTER_FILES:
        text = resources.files(provisioning).joinpath(name).read_text()
        write(root / home / "interpreter" / name, text, mode=0o755)
    units = root / "usr/lib/systemd/system"
    write(units / "hedgerow.service", service())
    write(units / FIRST_START_UNIT, first_start_unit(planned()))
    # It starts nothing without a file on the boot partition.
    (units / "multi-user.target.wants").mkdir()
    (units / "multi-user.target.wants" / FIRST_START_UNIT).symlink_to(f"../{FIRST_START_UNIT}")
    for name in ("sysusers", "tmpfiles"):
        text = (HERE / f"hedgerow.{name}").read_text()
        write(root / f"usr/lib/{name}.d/hedgerow.conf", text)
    write(root / "etc/default/hedgerow", (HERE / "hedgerow.default").read_text())
    parser = command_line()
    for shell, path in COMPLETIONS.items():
        write(root / path, completion.script(shell, parser))
    for name, text in manual.pages(parser).items():
        write_compressed(root / f"usr/share/man/man1/{name}.1.gz", text)
    documents = root / "usr/share/doc/hedgerow"
    write(documents / "copyright", (HERE / "copyright").read_text())
    write_compressed(documents / "changelog.gz", (PROJECT / "CHANGELOG.md").read_text())
    installed = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file())
    write(root / "DEBIAN/control", control(kind, version, installed))
    write(root / "DEBIAN/conffiles", "/etc/default/hedgerow\n")
    for name in ("preinst", "postinst", "prerm", "postrm"):
        write(root / "DEBIAN" / name, (HERE / name).read_text(), mode=0o755)


def service() -> str:
    """Return the unit: what `hedgerow init` writes, with options of the operator's own.

    It starts nothing as long as the machine is no gateway.
    """
    text = re.sub(r"(?m)^(ExecStart=.*)$", r"\1 $HEDGEROW_OPTIONS", unit(planned()), count=1)
    options = "EnvironmentFile=-/etc/default/hedgerow\nExecStart="
    is_gateway = f"ConditionPathExists={place.SYSTEM}\n\n[Service]"
    return text.replace("ExecStart=", options, 1).replace("\n[Service]", is_gateway, 1)


def planned() -> ServicePlan:
    """Return the service of the package: its program, run as the gateway's user."""
    return ServicePlan(
        gateway_id="of this machine",
        command=(str(HOME / "bin/hedgerow"),),
        user=SYSTEM_USER,
        folder=place.SYSTEM.parent,
        state_dir=SYSTEM_STATE_DIR,
        environment=Environment(HOME, HOME / "interpreter" / STARTER),
    )


def control(kind: Kind, version: str, installed: int) -> str:
    """Return the control file for dpkg (deb-control(5)).

    Args:
        kind: of machine.
        version: of the package.
        installed: the bytes of its files.

    """
    return (
        (HERE / "control.in")
        .read_text()
        .format(
            version=version,
            architecture=kind.architecture,
            python=kind.python,
            installed_kib=-(-installed // 1024),
        )
    )


def readable_by_all(root: Path) -> None:
    """Give files and folders the modes of a package, whatever umask its builder has."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            is_run = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_run else 0o644)


def write(file: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, and the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def write_compressed(file: Path, text: str) -> None:
    """Write a file as gzip has it, without a name or a time (Debian Policy, section 12.1)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> int:
    """Build the package that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("kind")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    try:
        made = build(options.wheels, Kind.parse(options.kind), options.folder)
    except PackageError as error:
        sys.stderr.write(f"deb: {error}\n")
        return 2
    sys.stderr.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
