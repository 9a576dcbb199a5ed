"""A small file of the state folder is read right, or set aside as it was, and that is told."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.kept_file import MAX_ASIDE, KeptFile, naming, set_aside
from gateway.coap.oscore.devices import OscoreDevices
from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import NumbersError, SenderNumbers

WITHOUT = "others will tell"
THERMOMETER = OscoreKeys("t", bytes(16), b"\x01", b"\x02")


def a_file(folder: Path) -> KeptFile:
    return KeptFile(folder / "numbers", WITHOUT)


def rot(path: Path, data: bytes) -> None:
    """Give a file other content as a disk does, which notes no change."""
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]


def test_it_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        a_file(tmp_path).write(b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "numbers").stat().st_mode) == 0o600


def test_what_was_written_is_read_and_a_file_that_never_was_is_no_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = a_file(tmp_path)
    assert file.read(int) is None
    file.write(b"12")
    assert file.read(int) == 12
    assert not errors(caplog)


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_disk_that_fails_once_or_twice_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    file, opened = a_file(tmp_path), os.open
    file.write(b"12")
    left = fails

    def failing(path: object, *more: int) -> int:
        nonlocal left
        if path == file.path and left:
            left -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return opened(str(path), *more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing)
        assert file.read(int) == (12 if fails < 3 else None)


def test_an_error_of_a_file_that_is_open_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    file.write(b"12")

    def fail(*_: object) -> object:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", fail)
        with pytest.raises(OSError, match="numbers"):
            file.read(int)
    assert file.read(int) == 12


@given(at=st.integers(0, 7), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_although_the_content_reads_as_well(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    file = a_file(tmp_path_factory.mktemp("flipped"))
    file.write(b"12345678")
    other = bytearray(b"12345678")
    other[at] ^= 1 << bit
    rot(file.path, bytes(other))
    assert file.read(bytes) is None
    assert file.path.with_name("numbers.damaged-1").read_bytes() == other


def test_what_an_earlier_release_or_another_hand_has_written_is_read(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.write(b"12")
    file.path.write_bytes(b"13")  # in place: the check stays, and is of before
    os.utime(file.path, ns=(0, 0))
    assert file.read(int) == 13
    file.path.unlink()
    file.path.write_bytes(b"14")
    assert file.read(int) == 14


def test_a_file_that_was_there_and_is_missing_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_file(tmp_path).write(b"12")
    (tmp_path / "numbers").unlink()
    assert a_file(tmp_path).read(int) is None
    assert a_file(tmp_path).read(int) is None
    assert errors(caplog) == [f"{tmp_path}/numbers: missing, and it was there: {WITHOUT}"]


def test_a_file_of_an_earlier_release_that_was_read_once_is_missed_when_it_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "numbers").write_bytes(b"12")
    assert a_file(tmp_path).read(int) == 12
    (tmp_path / "numbers").unlink()
    assert a_file(tmp_path).read(int) is None
    assert errors(caplog) == [f"{tmp_path}/numbers: missing, and it was there: {WITHOUT}"]


def test_a_folder_in_the_place_of_a_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "numbers").mkdir()
    assert a_file(tmp_path).read(int) is None
    assert (tmp_path / "numbers.damaged-1").is_dir()


def test_an_error_that_may_pass_is_raised_and_sets_nothing_aside(tmp_path: Path) -> None:
    class NoDescriptors(KeptFile):
        def _read(self) -> tuple[bytes, bool]:
            raise OSError(errno.EMFILE, "Too many open files", str(self.path))

    a_file(tmp_path).write(b"12")
    with pytest.raises(OSError, match="Too many open files"):
        NoDescriptors(tmp_path / "numbers", WITHOUT).read(int)
    assert a_file(tmp_path).read(int) == 12


def test_an_error_of_the_disk_sets_the_file_aside(tmp_path: Path) -> None:
    class Failing(KeptFile):
        def _read(self) -> tuple[bytes, bool]:
            raise OSError(errno.EIO, "Input/output error", str(self.path))

    a_file(tmp_path).write(b"12")
    assert Failing(tmp_path / "numbers", WITHOUT).read(int) is None
    assert (tmp_path / "numbers.damaged-1").read_bytes() == b"12"


def test_of_one_file_a_bounded_number_is_kept_aside_and_none_is_overwritten(
    tmp_path: Path,
) -> None:
    for number in range(MAX_ASIDE + 3):
        (tmp_path / "db").write_text(str(number))
        (tmp_path / "db-wal").write_text(str(number))
        set_aside(tmp_path / "db", "-wal", "-shm")
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    newest = [str(number) for number in range(3, MAX_ASIDE + 3)]
    assert [kept[f"db.damaged-{int(one) + 1}"] for one in newest] == newest
    assert [kept[f"db.damaged-{int(one) + 1}-wal"] for one in newest] == newest
    assert len(kept) == 2 * MAX_ASIDE


@pytest.mark.parametrize("damaged", ["numbers", "numbers.copy"])
def test_numbers_of_oscore_go_on_from_the_copy_that_is_whole(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "numbers"
    first = SenderNumbers(path, ["t"], lambda _: 7).first("t")
    (tmp_path / damaged).write_bytes(b"")
    assert SenderNumbers(path, ["t"], lambda _: 7).first("t") > first + 4_000


@pytest.mark.parametrize("is_missing", [False, True])
def test_without_the_numbers_of_oscore_no_device_is_served_and_nothing_else_is_kept_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_missing: bool
) -> None:
    OscoreDevices(tmp_path).contexts_of([THERMOMETER])
    both = [tmp_path / "oscore-numbers", tmp_path / "oscore-numbers.copy"]
    for path in both:
        path.unlink() if is_missing else path.write_bytes(b"")
    for _ in range(2):  # a further start begins no numbers either
        devices = OscoreDevices(tmp_path)
        devices.contexts = devices.contexts_of([THERMOMETER])
        assert not devices.contexts
        with pytest.raises(NumbersError):
            SenderNumbers(both[0], [], lambda _: 0)
    assert "no device is served over OSCORE. Give each of them new keys" in errors(caplog)[0]
    assert [path.exists() for path in both] == [not is_missing] * 2


@pytest.mark.parametrize(
    ("raised", "filename"),
    [
        (OSError(errno.EIO, "error"), "state"),
        (OSError(errno.EACCES, "denied", "other"), "other"),
        (OSError("of a library, with a text alone"), None),
    ],
)
def test_an_error_of_reading_names_the_file_unless_it_names_another_or_is_of_no_kind(
    raised: OSError, filename: str | None
) -> None:
    with pytest.raises(OSError, match=str(raised.args[-1])) as failed, naming(Path("state")):
        raise raised
    assert (failed.value.errno, failed.value.filename) == (raised.errno, filename)
    assert (failed.value is raised) is (filename != "state")
