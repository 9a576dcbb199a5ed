"""The wheels that a server of the cloud side installs without internet (`cloud_wheels_dir`)."""

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
    tags = [f"--platform=manylinux_2_{minor}_{MACHINE}" for minor in range(17, 42)]
    for name in ("build.txt", "requirements.txt"):  # of PySpark PyPI has the source alone
        run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
            *("--implementation", "cp", "--python-version", PYTHON, f"--abi=cp{PYTHON}"),
            *("--abi=abi3", "--abi=none", *tags, f"--platform=manylinux2014_{MACHINE}"),
            *("--dest", str(made), "--requirement", str(LISTS / name)),
            timeout_s=1200,
        )
    made.rename(wheels)
    return wheels
