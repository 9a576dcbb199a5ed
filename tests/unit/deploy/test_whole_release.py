"""The mark of an installed release vouches for what is on the disk (whole_release.sh)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "gateway/tools/provisioning/whole_release.sh"


def step(name: str, release: Path) -> int:
    return subprocess.run([SCRIPT, name, release], check=False).returncode


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A small one, with the note that pip leaves of what it installed."""
    folder = tmp_path / "1.0-abc"
    packages = folder / "lib/python3.13/site-packages"
    for path, text in (
        (folder / "bin/hedgerow", "#!/bin/sh\n"),
        (packages / "gateway/cli.py", "print()\n"),
        (packages / "gateway/with space.py", ""),
        (
            packages / "hedgerow-1.0.dist-info/RECORD",
            "../../../bin/hedgerow,sha256=x,10\ngateway/cli.py,sha256=y,8\n"
            "gateway/with space.py,,0\n"
            "hedgerow-1.0.dist-info/RECORD,,\n",
        ),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_what_was_marked_is_whole_and_stays_so_while_python_runs_it(release: Path) -> None:
    assert step("check", release) == 1
    assert step("mark", release) == 0
    cache = release / "lib/python3.13/site-packages/gateway/__pycache__"
    cache.mkdir()
    (cache / "cli.pyc").touch()
    assert step("check", release) == 0


@pytest.mark.parametrize("file", ["bin/hedgerow", "lib/python3.13/site-packages/gateway/cli.py"])
def test_a_file_that_a_power_cut_emptied_or_took_is_found(release: Path, file: str) -> None:
    step("mark", release)
    (release / file).write_bytes(b"")
    assert step("check", release) == 1
    (release / file).unlink()
    assert step("check", release) == 1


@pytest.mark.parametrize("mark", ["", "0" * 64 + "  ./bin/hedgerow\n", "\0" * 100])
def test_a_mark_that_is_damaged_vouches_for_nothing(release: Path, mark: str) -> None:
    step("mark", release)
    (release / "installed").write_text(mark)
    (release / "bin/hedgerow").write_bytes(b"")
    assert step("check", release) == 1


def test_the_mark_of_an_earlier_version_is_taken_over_where_all_files_have_their_sizes(
    release: Path,
) -> None:
    (release / "installed").write_text("1.0-abc\n")
    assert step("check", release) == 0
    assert len((release / "installed").read_text().splitlines()) == 4
    (release / "installed").write_text("1.0-abc\n")
    (release / "bin/hedgerow").write_bytes(b"")
    assert step("check", release) == 1
    assert (release / "installed").read_text() == "1.0-abc\n"
