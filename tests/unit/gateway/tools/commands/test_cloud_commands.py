"""`hedgerow collector` and `hedgerow ingest`: there without Spark, and short about what lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.tools import cli

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
