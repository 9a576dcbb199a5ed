"""Which build runs is told by the file that a hot module was loaded from."""

from __future__ import annotations

import pytest

from gateway import build, cli
from gateway.mqtt import publish
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
