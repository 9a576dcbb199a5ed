"""A release comes as what differs from the one that runs, and counts if it is whole to the byte."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from loaded_file import loaded

from gateway.releases import archive
from gateway.releases.archive import ArchiveError, WantedArchive

PROJECT = Path(__file__).parents[4]
PACKING = loaded(PROJECT / "deploy/ansible/roles/gateway/files/pack_wheels.py")
OTHERS_BYTES = 4_000_000
"""Of the wheels of other projects, which no delta holds."""
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 28, 31, 34)]
DELTA_BYTES_MAX = OTHERS_BYTES // 100

pytestmark = pytest.mark.peer("zstd", "zstd")


def wheel(modules: dict[str, str]) -> bytes:
    """The project's, as a build with a fixed time stamp makes it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in modules.items():
            file.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def release(folder: Path, changed: str = "") -> Path:
    """The archive of a release of which one module may differ."""
    drawn = random.Random(1)
    wheels = folder / f"wheels{changed}"
    wheels.mkdir(parents=True)
    # Wheels' names of many platforms are longer than a first tar's 100 characters.
    (wheels / f"other-1-cp311-cp311-{'.'.join(PLATFORMS)}.whl").write_bytes(
        drawn.randbytes(OTHERS_BYTES)
    )
    modules = {f"gateway/m{number}.py": drawn.randbytes(3000).hex() for number in range(200)}
    modules["gateway/m7.py"] += changed
    (wheels / "hedgerow-0.1.0-py3-none-any.whl").write_bytes(wheel(modules))
    made = folder / f"release{changed}.tar"
    PACKING.packed(wheels, made)
    return made


def delta_of(base: Path, new: Path) -> Path:
    made = new.with_suffix(".zst")
    subprocess.run(
        ["zstd", "--quiet", "-9", f"--patch-from={base}", str(new), "-o", str(made)], check=True
    )
    return made


def wanted(path: Path) -> WantedArchive:
    found = archive.told(path)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("releases")


@pytest.fixture(scope="module")
def old(folder: Path) -> Path:
    return release(folder)


@pytest.fixture(scope="module")
def new(folder: Path) -> Path:
    return release(folder, "# changed")


@pytest.fixture(scope="module")
def delta(old: Path, new: Path) -> Path:
    return delta_of(old, new)


def test_a_change_of_one_module_takes_a_hundredth_of_what_the_archive_takes(
    old: Path, new: Path, delta: Path, tmp_path: Path
) -> None:
    made = tmp_path / "wheels.tar"
    archive.rebuild(old, delta, made, wanted(new))
    assert made.read_bytes() == new.read_bytes()
    assert delta.stat().st_size < DELTA_BYTES_MAX


def test_the_same_wheels_are_the_same_archive_whenever_and_by_whom_they_are_packed(
    tmp_path: Path,
) -> None:
    first = release(tmp_path / "first")
    folder = tmp_path / "second/wheels"
    second = release(tmp_path / "second")
    for path in folder.iterdir():
        os.utime(path, (1, 1))
        path.chmod(0o600)
    PACKING.packed(folder, second)
    assert first.read_bytes() == second.read_bytes()


def refused(base: Path, delta: Path, made: Path, size: int, sha256: str) -> str:
    with pytest.raises(ArchiveError) as caught:
        archive.rebuild(base, delta, made, WantedArchive(size, sha256))
    assert list(made.parent.iterdir()) == []
    return str(caught.value)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    return tmp_path / "made/wheels.tar"


def test_a_delta_of_another_base_makes_nothing(
    new: Path, delta: Path, made: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.tar"
    other.write_bytes(random.Random(2).randbytes(OTHERS_BYTES))
    told = wanted(new)
    refused(other, delta, made, told.size, told.sha256)


def test_an_archive_that_is_whole_and_not_the_one_that_was_told_makes_nothing(
    old: Path, new: Path, delta: Path, made: Path
) -> None:
    assert "with the digest" in refused(old, delta, made, wanted(new).size, "0" * 64)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_delta_that_is_cut_off_makes_nothing(
    old: Path, new: Path, delta: Path, made: Path, tmp_path: Path, share: float
) -> None:
    cut = tmp_path / "cut.zst"
    data = delta.read_bytes()
    cut.write_bytes(data[: int(len(data) * share)])
    told = wanted(new)
    refused(old, cut, made, told.size, told.sha256)


def test_a_delta_that_makes_more_than_was_told_is_ended_there(
    old: Path, made: Path, tmp_path: Path
) -> None:
    bomb = tmp_path / "bomb.zst"
    zeros = tmp_path / "zeros"
    with zeros.open("wb") as file:
        file.truncate(64_000_000)
    subprocess.run(["zstd", "--quiet", str(zeros), "-o", str(bomb)], check=True)
    assert bomb.stat().st_size < OTHERS_BYTES
    assert "makes more than the 4000000 bytes" in refused(old, bomb, made, OTHERS_BYTES, "0" * 64)


@pytest.mark.parametrize("window", [0xA8, 0xF8], ids=["2 GB", "2 TB"])
def test_a_delta_that_wants_the_machines_memory_does_not_get_it(
    old: Path, made: Path, tmp_path: Path, window: int
) -> None:
    # RFC 8878, section 3.1.1: the magic number, a descriptor, and the window's size.
    hungry = tmp_path / "hungry.zst"
    hungry.write_bytes(bytes.fromhex("28b52ffd00") + bytes([window]) + bytes(64))
    assert "zstd ended with" in refused(old, hungry, made, OTHERS_BYTES, "0" * 64)


def test_sizes_that_no_archive_has_are_refused_before_anything_runs(
    old: Path, delta: Path, made: Path
) -> None:
    for size in (0, archive.BYTES_MAX + 1):
        assert f"an archive of {size} bytes" in refused(old, delta, made, size, "0" * 64)
    larger = delta.stat().st_size - 1
    assert f"at most {larger} are taken" in refused(old, delta, made, larger, "0" * 64)


def test_the_command_says_what_a_delta_can_begin_with_and_makes_the_next_archive(
    old: Path, new: Path, delta: Path, tmp_path: Path
) -> None:
    running = tmp_path / "releases/1-old"
    running.mkdir(parents=True)
    (tmp_path / "venv").symlink_to(running)
    assert told_by(tmp_path, "base") == "releases: 1-old is not installed in " + str(running.parent)
    (running / "installed").touch()
    assert json.loads(told_by(tmp_path, "base")) is None  # it is of before archives were kept
    (running / "wheels.tar").write_bytes(old.read_bytes())
    base = wanted(old)
    assert json.loads(told_by(tmp_path, "base")) == {
        "release": "1-old",
        "size": base.size,
        "sha256": base.sha256,
    }
    made, told = tmp_path / "made.tar", wanted(new)
    sizes = ("--size", str(told.size), "--sha256", told.sha256)
    assert told_by(tmp_path, "rebuild", "1-old", str(delta), str(made), *sizes) == ""
    assert wanted(made) == told


def told_by(root: Path, *arguments: str) -> str:
    """Run the `releases` command as a playbook does on a Pi, and return its output."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "releases", "--root", str(root), *arguments],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "gateway")},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).strip()


def test_an_empty_archive_and_one_beyond_the_limit_begin_no_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "BYTES_MAX", 3)
    file = tmp_path / "wheels.tar"
    assert archive.told(file) is None
    for data, is_base in ((b"", False), (b"abc", True), (b"abcd", False)):
        file.write_bytes(data)
        assert (archive.told(file) is not None) is is_base
    file.write_bytes(b"abc")
    # FIPS 180-2, appendix B.1.
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert archive.told(file) == WantedArchive(3, digest)


def test_a_delta_may_be_as_long_as_the_archive_that_it_makes_and_not_longer(
    tmp_path: Path, made: Path
) -> None:
    base, new = tmp_path / "base", tmp_path / "new"
    base.write_bytes(b"base")
    new.write_bytes(bytes(1000))
    data, told = delta_of(base, new).read_bytes(), wanted(new)
    padded = tmp_path / "padded.zst"
    for length in (told.size + 1, told.size):
        # RFC 8878, section 3.1.2: a frame that is skipped.
        more = length - len(data) - 8
        padded.write_bytes(
            data + bytes.fromhex("502a4d18") + more.to_bytes(4, "little") + bytes(more)
        )
        if length > told.size:
            why = refused(base, padded, made, told.size, told.sha256)
            assert why == f"{padded} has 1001 bytes: at most 1000 are taken"
    archive.rebuild(base, padded, made, told)
    assert made.read_bytes() == new.read_bytes()
