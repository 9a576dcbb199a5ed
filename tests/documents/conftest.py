"""Hedgerow as an installed package, and the machines on which the documents' pages are run."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

import pytest
from missing_peer import skip_or_fail_in_ci

# No package holds these under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

import machine
from pages import PROJECT

SOURCES = (
    "gateway",
    "tree_handler",
    "resource_directory",
    "dtls",
    "coap_engine",
    "cloud_ingest",
    "record_formats",
    "alerts",
    "light_dataclasses",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
)
SETUPTOOLS = 77


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a wheel of the project; other packages are those of this one."""
    why = machine.why_not()
    if why is None and int(version("setuptools").partition(".")[0]) < SETUPTOOLS:
        why = f"setuptools is older than {SETUPTOOLS}: .venv/bin/python -m pip install -e '.[dev]'"
    if why is not None:
        skip_or_fail_in_ci(why)
    folder = tmp_path_factory.mktemp("package")
    _copy_sources(folder / "source")
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    _run(sys.executable, "-c", build, where=folder / "source")
    (wheel,) = folder.glob("*.whl")
    made = folder / "venv"
    venv.create(made, symlinks=True)
    (packages,) = made.glob("lib/python*/site-packages")
    # Behind the wheel's own, and as a plain folder: what is installed here as editable is not seen.
    others = [
        path for path in sys.path if path.endswith("site-packages") and path not in (packages,)
    ]
    (packages / "others.pth").write_text("\n".join(others or site.getsitepackages()))
    install = ("-m", "pip", "--disable-pip-version-check", "--python", str(made / "bin" / "python"))
    _run(
        *(sys.executable, *install, "install", "--quiet", "--no-deps", "--no-index", str(wheel)),
        where=folder,
    )
    return made


def _copy_sources(target: Path) -> None:
    """Build in a copy: setuptools leaves folders beside what it builds."""
    target.mkdir()
    for name in SOURCES:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(
                source, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
            )
        else:
            shutil.copy(source, target)


def _run(*command: str, where: Path) -> None:
    ended = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
