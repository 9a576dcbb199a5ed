"""The classes of Spark that Java has loaded, kept for its next start.

Half of what a start costs is Java reading thousands of classes out of Spark's archives and checking
them. Java can keep them as it holds them in memory (class data sharing, JEP 350) and map that file
the next time. The session that finds no such file has Java write one as it ends.

The file is of one Java, one installed Spark and one class path. So it stands in the user's cache,
in a folder named after those, beside the home of Spark that makes the path the same each time. Java
itself refuses a file that does not fit, and loads classes as ever. Where the cache can't be used,
or could be written by another user, it is done without.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from cloud_ingest.job.java import Java, cache_folder

_FILE: Final = "classes.jsa"
_FRESH: Final = f"{_FILE}.new-"
_HOME: Final = "home"
_QUIET: Final = "-Xlog:cds*=off"
"""The option that keeps Java from saying on standard output which classes do not fit."""
_CHANGES_PATH: Final = ("spark.jars", "spark.driver.extra", "spark.driver.userClassPathFirst")
"""Beginnings of settings with which Java has other classes, or other options."""


class ClassArchive:
    """The classes of one session.

    Args:
        home: Spark's, whose path is part of what Java compares.
        file: where the classes are kept; None: they are not.
        fresh: where this session's Java writes them; None: it does not, for they are there, or
            another session does.

    """

    def __init__(self, home: Path, file: Path | None = None, fresh: Path | None = None) -> None:
        self.home = home
        self._file = file
        self._fresh = fresh

    @property
    def options(self) -> str:
        """Return the options that Java is started with."""
        if self._fresh is not None:
            return f'{_QUIET} "-XX:ArchiveClassesAtExit={self._fresh}"'
        if self._file is not None and self._file.exists():
            return f'{_QUIET} "-XX:SharedArchiveFile={self._file}"'
        return ""

    @property
    def is_written(self) -> bool:
        """Return whether Java writes its classes as it ends, which takes it some seconds."""
        return self._fresh is not None

    def keep(self) -> None:
        """Keep what Java has written, now that it has ended by itself.

        Archives of other versions go: each has some 160 MB.
        """
        if self._fresh is None or self._file is None:
            return
        with contextlib.suppress(OSError):
            # Java looks at no sum of it: what a power cut left half would end each start.
            with self._fresh.open("rb") as written:
                os.fsync(written.fileno())
            self._fresh.replace(self._file)
            for other in self._file.parent.parent.glob(f"spark-*/{_FILE}"):
                if other != self._file:
                    other.unlink()


@contextmanager
def class_archive(
    java: Java, conf: Mapping[str, str], scratch: Path, environment: Mapping[str, str]
) -> Iterator[ClassArchive]:
    """Give the archive of classes with which a session of this process starts.

    Args:
        java: that runs Spark.
        conf: settings of Spark that are not ours.
        scratch: a folder of the session alone.
        environment: says where the user's cache is.

    Raises:
        OSError: the session's own folder can't be written.

    """
    with contextlib.ExitStack() as stack:
        folder = None
        with contextlib.suppress(OSError, RuntimeError):  # a service's user may have no home
            folder = _own_folder(cache_folder(environment) / f"spark-{_key(java)}")
        if folder is None or any(key.startswith(_CHANGES_PATH) for key in conf):
            yield ClassArchive(_lean_home(scratch / _HOME))
            return
        home, file = folder / _HOME, folder / _FILE
        fresh = None
        is_kept = file.exists()
        if is_kept or stack.enter_context(_alone(folder / "writing")):
            for left in folder.glob(f"{_FRESH}*"):  # by the Java of a session that was killed
                with contextlib.suppress(OSError):  # a disk that is read only now keeps it
                    left.unlink()
            # That Java may write it still, so no other one writes there.
            fresh = None if is_kept else folder / f"{_FRESH}{secrets.token_hex(8)}"
        yield ClassArchive(home, file, fresh)


def _key(java: Java) -> str:
    """Return what an archive is of: paths, and when what stands there was installed."""
    root = Path(pyspark.__file__).parent
    places = (java.executable.resolve(), root / "version.py", root / "jars")
    told = [pyspark.__version__, *(f"{place} {place.stat().st_mtime_ns}" for place in places)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _own_folder(folder: Path) -> Path | None:
    """Return a folder with a home in it, if nobody else can write there.

    Raises:
        OSError: it can't be made.

    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        return None
    home = folder / _HOME
    if not home.exists():
        fresh = Path(tempfile.mkdtemp(dir=folder, prefix=f"{_HOME}-"))
        _lean_home(fresh)
        try:
            fresh.rename(home)
        except OSError:  # another session was faster
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Return whether this process alone is at it, until the end."""
    lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(lock)


def _lean_home(home: Path) -> Path:
    """Return the installed Spark without its archive of PySpark.

    Else each Python that Spark starts, one or more with each query, imports PySpark from the
    archive and compiles it anew, which takes longer than most triggers; now it finds the installed
    one.
    """
    home.mkdir(exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "python":
            (home / part.name).symlink_to(part)
    return home
