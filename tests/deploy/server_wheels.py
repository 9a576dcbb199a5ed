"""Wheels that a booted Debian installs without internet, as `cloud_wheels_dir` has them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bed import KEPT_IN
from commands import run
from fleet import PROJECT

PYTHON = "313"
"""Of Debian trixie."""
MACHINE = os.uname().machine
LISTS = PROJECT / "deploy" / "ansible" / "roles" / "cloud" / "files"


def server_wheels(folder: Path) -> Path:
    """A folder of them, made by pip or taken from where it was kept.

    Args:
        folder: where it is made.

    """
    wheels = Path(os.environ.get(KEPT_IN) or folder) / f"wheels-cp{PYTHON}-{MACHINE}"
    if wheels.exists():
        return wheels
    made = wheels.with_suffix(".part")
    made.mkdir(parents=True, exist_ok=True)
    for name in ("build.txt", "requirements.txt"):  # of PySpark PyPI has the source alone
        download(LISTS / name, made)
    made.rename(wheels)
    return wheels


def download(requirements: Path, folder: Path) -> None:
    """Have pip fetch what a list names, for the Python of Debian trixie on this kind of machine."""
    tags = [f"--platform=manylinux_2_{minor}_{MACHINE}" for minor in range(17, 42)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--implementation", "cp", "--python-version", PYTHON, f"--abi=cp{PYTHON}"]
    command += ["--abi=abi3", "--abi=none", *tags, f"--platform=manylinux2014_{MACHINE}"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    run(*command, timeout_s=1200)
