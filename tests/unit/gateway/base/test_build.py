"""The build that runs is told by the file from which a hot module was loaded."""

from __future__ import annotations

import os
import tomllib
from importlib.util import find_spec

import pytest
from compiled_sources import PROJECT, compiled_sources

from gateway.base import build
from gateway.mqtt import publish
from gateway.tools import cli
from tree_handler import batch


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("/x/tree_handler/batch.py", "interpreted"),
        ("/x/tree_handler/batch.cpython-311-x86_64-linux-gnu.so", "compiled"),
        ("/x/tree_handler/batch.cpython-313-aarch64-linux-gnu.so", "compiled"),
        ("", "interpreted"),
    ],
)
def test_a_build_is_known_by_the_file_of_a_module(file: str, told: str) -> None:
    assert build.build_of(file) == told


def test_what_is_told_is_what_runs() -> None:
    assert build.running() == build.build_of(batch.__file__) == build.build_of(publish.__file__)


def test_version_says_which_build_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith(f" ({build.running()})\n")


def test_each_module_that_runs_is_of_the_build_that_was_asked_for() -> None:
    asked = os.environ.get("HEDGEROW_BUILD", "interpreted")
    assert build.running() == asked
    for path in compiled_sources():
        module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        assert build.build_of(spec.origin) == asked, spec.origin


def test_what_stays_interpreted_is_there_and_has_a_reason() -> None:
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hedgerow"]["compiled"]
    for name, reason in table["interpreted"].items():
        assert (PROJECT / name).is_file()
        assert len(reason) > 20
