"""The wheels that a server of the cloud side installs without internet (`cloud_wheels_dir`)."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from bed import KEPT_IN
from commands import run
from fleet import PROJECT

PYTHON = "313"
"""Of Debian trixie."""
MACHINE = os.uname().machine
_SPARK = "pyspark"


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
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["cloud"]]
    pip = (sys.executable, "-m", "pip")
    # PyPI has its source alone.
    (spark,) = (one for one in wanted if one.startswith(_SPARK))
    into = ("--wheel-dir", str(made))
    run(*pip, "wheel", "--quiet", "--no-deps", *into, spark, timeout_s=1200)
    tags = [f"--platform=manylinux_2_{minor}_{MACHINE}" for minor in range(17, 42)]
    run(
        *(*pip, "download", "--quiet", "--only-binary", ":all:", "--find-links", str(made)),
        *("--implementation", "cp", "--python-version", PYTHON, f"--abi=cp{PYTHON}"),
        *("--abi=abi3", "--abi=none", *tags, f"--platform=manylinux2014_{MACHINE}"),
        *("--dest", str(made), *wanted),
        timeout_s=1200,
    )
    made.rename(wheels)
    return wheels
