"""`hedgerow collector` and `hedgerow ingest`: there without Spark, and short about what lacks."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from one_parser import hedgerow

from gateway.base import exit_codes
from gateway.tools import cli
from gateway.tools.commands import cloud

WITHOUT_SPARK = (
    "import sys; sys.modules['pyspark'] = None; from gateway.tools import cli; sys.exit(cli.main())"
)


def test_neither_is_loaded_before_it_is_asked_for() -> None:
    asked = (
        "import sys; from gateway.tools import cli; cli.command_line(); "
        "print({'pyspark', 'cloud_ingest.job.command', 'cloud_ingest.collector.command'}"
        " & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_ingest_needs_and_is_not_installed_is_named(tmp_path: Path) -> None:
    folders = ("--spool", str(tmp_path), "--tables", str(tmp_path / "tables"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, "ingest", *folders],
        capture_output=True,
        text=True,
        check=False,
    )
    expected = "hedgerow: pyspark is not installed: pip install 'hedgerow[cloud]'\n"
    assert (done.returncode, done.stderr) == (1, expected)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (
            ("ingest", "--spool", "nowhere", "--tables", "t"),
            "argument --spool: nowhere: no such folder",
        ),
        (("collector", "--config", "nowhere"), "nowhere: No such file or directory"),
    ],
)
def test_a_wrong_argument_is_one_line(
    arguments: tuple[str, ...], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err == f"hedgerow: {wrong}\n"


@pytest.mark.parametrize("package", ["pyspark.sql", "duckdb", "aiohttp.web", "deltalake"])
def test_a_package_of_the_extra_that_is_missing_is_named_with_what_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_module: str) -> ModuleType:
        raise ModuleNotFoundError(name=package)

    monkeypatch.setattr(cloud, "importlib", SimpleNamespace(import_module=missing))
    assert hedgerow("query", "SELECT 1", "--tables", ".") == exit_codes.FAILED
    why = f"{package} is not installed: pip install 'hedgerow[cloud]'"
    assert capsys.readouterr().err == f"hedgerow: {why}\n"


@pytest.mark.parametrize("package", ["cloud_ingest.query", "pysparkling", None])
def test_a_module_of_its_own_that_is_missing_is_no_matter_of_the_extra(
    package: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_module: str) -> ModuleType:
        raise ModuleNotFoundError(name=package)

    monkeypatch.setattr(cloud, "importlib", SimpleNamespace(import_module=missing))
    with pytest.raises(ModuleNotFoundError):
        hedgerow("query", "SELECT 1", "--tables", ".")


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["collector", "--config", "c.toml"], "cloud_ingest.collector.command"),
        (["ingest", "--spool", ".", "--tables", "."], "cloud_ingest.job.command"),
        (["dashboard", "--tables", "."], "cloud_ingest.dashboard.command"),
        (["query", "SELECT 1", "--tables", "."], "cloud_ingest.query.command"),
    ],
)
def test_each_command_runs_its_module_and_ends_with_its_exit_code(
    words: list[str], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def run_with(_options: argparse.Namespace, program: str) -> int:
        asked.append(program)
        return exit_codes.NO_JAVA

    def found(name: str) -> SimpleNamespace:
        asked.append(name)
        return SimpleNamespace(run_with=run_with)

    monkeypatch.setattr(cloud, "importlib", SimpleNamespace(import_module=found))
    assert hedgerow(*words) == exit_codes.NO_JAVA
    assert asked == [module, "hedgerow"]


def test_ways_for_alerts_that_are_wrong_are_named_with_their_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "ways.toml").write_text("nonsense = 1\n")
    words = ("ingest", "--spool", tmp_path, "--tables", tmp_path, "--ways", file)
    assert hedgerow(*words) == exit_codes.WRONG_USE
    assert capsys.readouterr().err.startswith(f"hedgerow: --ways: {file}: ")
