"""Modules, names and paths of ours that a text names exist.

No import shows what a play, a page or a docstring names.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = (
    "alerts|benchmarks|cloud_ingest|coap_engine|dtls|gateway"
    "|record_formats|resource_directory|tree_handler"
)
STARTED = re.compile(rf"-m[\s,\"'\\-]+((?:{PACKAGES})(?:\.[a-z_0-9]+)*)")
"""``-m MODULE`` in a line of a shell, in a list of YAML, and over lines of one."""
REFERRED = re.compile(rf"`((?:{PACKAGES})(?:\.[A-Za-z_]\w*){{2,}})`")
"""A name in a docstring or a comment; shorter ones may be keys of the configuration."""
KEYS = "alerts."
"""Keys of the configuration have as many parts there."""
FOLDERS = f"{PACKAGES}|deploy|docs|light_dataclasses|tests"
PATHS = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/[\w./-]*\w)")
INSTALLED = re.compile(rf"(?:[}}*]|site-packages)/((?:{PACKAGES})/[\w/]+\.py)")
"""A module where a test looks for it in a machine that it has made."""
MADE = ("deploy/ansible/certificates", "deploy/ansible/relay", "gateway/tls")
"""Folders that an operator has there, and one that was there once."""
ASKED_OF = re.compile(r"-m (benchmarks(?:\.\w+)+)((?: \[?--?[\w-]+[^`)#]*)?)")
KINDS = (".yml", ".yaml", ".j2", ".sh", ".service", ".toml", ".md", ".py", ".in", "")


@cache
def tracked() -> tuple[str, ...]:
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    return tuple(name for name in files if (ROOT / name).is_file())


def pages() -> list[str]:
    left_out = ("docs/decisions/", "CHANGELOG")
    return [name for name in tracked() if name.endswith(".md") and not name.startswith(left_out)]


def named() -> dict[str, set[str]]:
    """Return each module that a tracked file starts, and which files do."""
    found: dict[str, set[str]] = {}
    for name in tracked():
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


def source_of(parts: list[str]) -> tuple[Path, list[str]] | None:
    """Return the file of the longest module that parts of a name name, and what is left of them."""
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file, parts[count:]
    return None


def test_each_name_of_ours_that_a_source_refers_to_is_there() -> None:
    referred = [
        (name, one)
        for name in tracked()
        if name.endswith(".py") and not name.startswith("tests/")
        for one in REFERRED.findall((ROOT / name).read_text())
        if not one.startswith(KEYS)
    ]
    assert len(referred) > 100
    missing = []
    for name, one in referred:
        found = source_of(one.split("."))
        if found is None or (
            found[1] and not re.search(rf"\b{found[1][0]}\b", found[0].read_text())
        ):
            missing.append(f"{name}: {one}")
    assert missing == []


def test_each_path_of_ours_that_a_page_a_play_or_a_script_names_is_there() -> None:
    naming = [*pages(), "Makefile", "pyproject.toml", "setup.py"]
    naming += [name for name in tracked() if name.startswith(("deploy/", ".ci/"))]
    named_paths = [
        (name, path)
        for name in dict.fromkeys(naming)
        for path in PATHS.findall((ROOT / name).read_bytes().decode(errors="ignore"))
    ]
    assert len(named_paths) > 100
    missing = [
        f"{name}: {path}"
        for name, path in named_paths
        # Tables name modules without their suffix, and several tests by how they begin.
        if not path.startswith(MADE)
        and not (ROOT / name).parent.joinpath(path).exists()
        and not any((ROOT / path).parent.glob(f"{Path(path).name}*"))
    ]
    assert missing == []


def test_each_option_of_a_benchmark_that_a_page_names_is_there() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "benchmarks").rglob("*.py"))
    asked = {
        (name, module, option)
        for name in pages()
        for module, words in ASKED_OF.findall((ROOT / name).read_text())
        for option in re.findall(r"--[a-z][\w-]*", words)
    }
    assert len(asked) > 10
    assert {one for one in asked if f'"{one[2]}"' not in sources} == set()


def test_each_module_that_a_test_looks_for_in_a_machine_is_there() -> None:
    named_paths = [
        (name, path)
        for name in tracked()
        if name.startswith(("tests/deploy/", "tests/system/"))
        for path in INSTALLED.findall((ROOT / name).read_bytes().decode(errors="ignore"))
    ]
    assert named_paths
    assert [f"{name}: {path}" for name, path in named_paths if not (ROOT / path).is_file()] == []
