"""An archive is read to its last byte, within bounds, whoever made it (contents.py)."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.backups import contents
from gateway.backups.contents import RestoreError

CONFIG = '[gateway]\nid = "gw-south"\nstate_dir = "/var/lib/hedgerow"\n'
Add = Callable[[tarfile.TarFile], None]


def file(name: str, content: bytes = b"", mtime: int = 0) -> Add:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mtime = len(content), mtime
        tar.addfile(info, io.BytesIO(content))

    return add


def folder(name: str) -> Add:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type = tarfile.DIRTYPE
        tar.addfile(info)

    return add


GOOD = (
    folder("etc/hedgerow"),
    file("etc/hedgerow/hedgerow.toml", CONFIG.encode(), 100),
    file("etc/hedgerow/psk", b"Whxqht+dQJax1aZeCGLxmiAAAA", 100),
    folder("var/lib/hedgerow"),
    file("var/lib/hedgerow/log", b"x" * 3000, 700),
)


def archive(path: Path, *members: Add) -> Path:
    with tarfile.open(path / "backup.tar.gz", "w:gz") as tar:
        for add in members:
            add(tar)
    return path / "backup.tar.gz"


def test_what_an_archive_holds_is_told(tmp_path: Path) -> None:
    found = contents.survey(archive(tmp_path, *GOOD), 1 << 20)
    assert found.gateway == "gw-south"
    assert found.config == PurePosixPath("/etc/hedgerow")
    assert found.state == PurePosixPath("/var/lib/hedgerow")
    assert (found.files, found.newest_s, found.encrypted) == (5, 700, ("psk",))
    assert found.unpacked_bytes == len(CONFIG) + 26 + 3000


def _sparse(tar: tarfile.TarFile) -> None:
    info = tarfile.TarInfo("var/lib/hedgerow/sparse")
    info.pax_headers = {"GNU.sparse.size": str(1 << 50), "GNU.sparse.map": "0,0"}
    tar.addfile(info)


def _long_header(tar: tarfile.TarFile) -> None:
    info = tarfile.TarInfo("var/lib/hedgerow/x")
    info.pax_headers = {"comment": "x" * (1 << 20)}
    tar.addfile(info)


def _many_headers(tar: tarfile.TarFile) -> None:
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    for _ in range(3000):
        tar.addfile(info)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        (GOOD[:3], "lacks /var/lib/hedgerow"),
        ((GOOD[0], GOOD[3]), "is not unpacked"),
        (GOOD[1:], "no backup begins with"),
        ((folder("."), *GOOD), "no backup begins with"),
        ((*GOOD, file("etc/passwd")), "no backup has 'etc/passwd'"),
        ((*GOOD, file("var/lib/hedgerow/../../x")), "is not unpacked"),
        ((GOOD[0], file("etc/hedgerow/hedgerow.toml", b"x"), GOOD[3]), "names no gateway"),
        ((GOOD[0], folder("etc/hedgerow/hedgerow.toml"), GOOD[3]), "is a folder"),
        ((GOOD[0], file("etc/hedgerow/hedgerow.toml", b"gateway = 1"), GOOD[3]), "names no gatew"),
        ((GOOD[0], file("etc/hedgerow/hedgerow.toml", b"#" * (5 << 20)), GOOD[3]), "5242880 bytes"),
        ((*GOOD, file("var/lib/hedgerow/x", b"x" * (2 << 20))), "takes more than 1 MiB"),
        ((*GOOD, _sparse), "is not unpacked"),
        ((*GOOD, _long_header), "header of 104[0-9]+ bytes"),
        ((*GOOD, _many_headers), "damaged"),
    ],
)
def test_what_is_no_backup_or_means_harm_is_refused_by_a_word(
    tmp_path: Path, members: tuple[Add, ...], why: str
) -> None:
    with pytest.raises(RestoreError, match=why):
        contents.survey(archive(tmp_path, *members), 1 << 20)


def test_more_files_than_a_gateway_has_are_not_counted_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_FILES", 50)
    many = (file(f"var/lib/hedgerow/{number}") for number in range(100))
    with pytest.raises(RestoreError, match="more than 50 files"):
        contents.survey(archive(tmp_path, *GOOD, *many), 1 << 20)


def test_a_stream_that_never_ends_behind_the_last_file_is_left(tmp_path: Path) -> None:
    made = archive(tmp_path, *GOOD)
    made.write_bytes(made.read_bytes() + gzip.compress(bytes(8 << 20)))
    with pytest.raises(RestoreError, match="goes on behind its last file"):
        contents.survey(made, 1 << 20)


def test_a_header_with_a_length_below_nothing_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("var/lib/hedgerow/x").tobuf(tarfile.GNU_FORMAT)
    head = bytearray(info)
    head[124:136] = b"\xff" + b"\xff" * 3 + struct.pack(">q", -1024)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    plain = gzip.decompress(archive(tmp_path, *GOOD).read_bytes())
    end = plain.rstrip(b"\0")
    end += bytes(-len(end) % 512)
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(gzip.compress(end + bytes(head) + bytes(1024)))
    with pytest.raises(RestoreError):
        contents.survey(bad, 1 << 20)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.floats(0, 1), bit=st.integers(0, 7), cut=st.booleans())
def test_an_archive_that_is_cut_or_has_another_bit_anywhere_is_known(
    tmp_path: Path, at: float, bit: int, cut: bool
) -> None:
    members = (*GOOD, file("var/lib/hedgerow/random", os.urandom(5000)))
    whole = archive(tmp_path, *members).read_bytes()
    # What gzip's header says, the time and a name, counts for nothing.
    where = 21 + int(at * (len(whole) - 22))
    harmed = bytearray(whole[:where] if cut else whole)
    if not cut:
        harmed[where] ^= 1 << bit
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(bytes(harmed))
    with pytest.raises(RestoreError):
        contents.survey(bad, 1 << 20)


def test_what_is_kept_and_certificates_are_not_unpacked(tmp_path: Path) -> None:
    made = archive(tmp_path, *GOOD[:3], file("etc/hedgerow/tls/x", b"x"), *GOOD[3:])
    config, state = tmp_path / "config", tmp_path / "state"
    contents.extract(made, {"psk"}, config, state)
    assert [one.name for one in config.iterdir()] == ["hedgerow.toml"]
    assert (state / "log").read_bytes() == b"x" * 3000
