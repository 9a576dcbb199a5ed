"""Modules of ours that plays, scripts and units start by name are there: no import shows it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = (
    "alerts|benchmarks|cloud_ingest|coap_engine|dtls|gateway"
    "|record_formats|resource_directory|tree_handler"
)
STARTED = re.compile(rf"-m[\s,\"'\\-]+((?:{PACKAGES})(?:\.[a-z_0-9]+)*)")
"""``-m MODULE`` in a line of a shell, in a list of YAML, and over lines of one."""
KINDS = (".yml", ".yaml", ".j2", ".sh", ".service", ".toml", ".md", ".py", ".in", "")


def named() -> dict[str, set[str]]:
    """Return each module that a tracked file starts, and which files do."""
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    found: dict[str, set[str]] = {}
    for name in files:
        path = ROOT / name
        if path.suffix not in KINDS or not path.is_file() or name.startswith("docs/decisions/"):
            continue
        for module in STARTED.findall(path.read_bytes().decode(errors="ignore")):
            found.setdefault(module, set()).add(name)
    return found


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_each_module_that_is_started_by_name_is_there() -> None:
    found = named()
    assert any(name.endswith("rotate_keys.yml") for name in found["gateway.tools.cli"])
    assert any(name.startswith("deploy/ansible/roles/card/") for name in found["gateway.tools.cli"])
    missing = {module: sorted(names) for module, names in found.items() if not is_there(module)}
    assert missing == {}
