"""The archive that a release is installed from, and what makes the next one of it: a delta.

A delta is what ``zstd --patch-from`` makes of two archives (zstd(1)). It comes from who may change
releases, over a network that may damage it, and may belong to another base. So it counts for
nothing until what it makes has the size and the digest that were told, and meanwhile it may take
as much memory and room as such an archive needs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

BYTES_MAX = 256 * 1024 * 1024
"""So large an archive may be; a release has some 20 MB, a compiled one some 30 MB."""
PROGRAM = "zstd"
_PIECE = 1024 * 1024
_SAID_MAX = 4096
_OWN_BYTES = 256 * 1024 * 1024
"""Of the program itself beside base and window: its code, its threads' stacks, its buffers."""


class ArchiveError(ValueError):
    """A delta makes nothing that counts; the message says why."""


@dataclass(frozen=True, slots=True)
class WantedArchive:
    """The archive that a delta has to result in.

    Attributes:
        size: of the archive, in bytes.
        sha256: of all of it, in hexadecimal digits.

    """

    size: int
    sha256: str


def told(archive: Path) -> WantedArchive | None:
    """Measure an archive; None where there is none that a delta can begin with.

    Raises:
        OSError: it can't be read.

    """
    try:
        file = archive.open("rb")
    except FileNotFoundError:
        return None
    with file:
        size = os.fstat(file.fileno()).st_size
        if not 0 < size <= BYTES_MAX:
            return None
        return WantedArchive(size, hashlib.file_digest(file, "sha256").hexdigest())


def has_program() -> bool:
    """Return whether this machine can take deltas."""
    return shutil.which(PROGRAM) is not None


def rebuild(base: Path, delta: Path, made: Path, wanted: WantedArchive) -> None:
    """Make an archive of the one that is here and a delta; it is there whole, or not at all.

    Args:
        base: the archive that the delta was made against.
        delta: what ``zstd --patch-from`` wrote.
        made: where the archive is to be; on the disk when this returns.
        wanted: what it has to be.

    Raises:
        ArchiveError: it is another one, or larger, or the base or the delta is no such file.
        OSError: the program can't be run, or a file can't be written.

    """
    if not 0 < wanted.size <= BYTES_MAX:
        raise ArchiveError(f"an archive of {wanted.size} bytes: at most {BYTES_MAX} are taken")
    for path, size_max in ((base, BYTES_MAX), (delta, wanted.size)):
        if (size := path.stat().st_size) > size_max:
            raise ArchiveError(f"{path} has {size} bytes: at most {size_max} are taken")
    part = made.with_name(f"{made.name}.part")
    try:
        with part.open("wb") as file:
            _unpack(base, delta, file, wanted)
            file.flush()
            os.fsync(file.fileno())
        part.rename(made)
    finally:
        part.unlink(missing_ok=True)


def _unpack(base: Path, delta: Path, file: IO[bytes], wanted: WantedArchive) -> None:
    # Base and window are each as large as the larger archive at most.
    memory = 2 * max(base.stat().st_size, wanted.size) + _OWN_BYTES
    command = ("prlimit", f"--as={memory}", PROGRAM, "--decompress", "--quiet", "--stdout")
    files = (f"--patch-from={base}", str(delta))
    with subprocess.Popen(  # noqa: S603  # of two paths, and no shell
        (*command, *files), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            digest = _copied(process.stdout, file, wanted.size)
        except BaseException:
            process.kill()
            raise
        said = process.stderr.read(_SAID_MAX).decode(errors="replace").strip()
        code = process.wait()
    if code:
        raise ArchiveError(f"{PROGRAM} ended with {code}: {said}")
    if digest != wanted.sha256:
        raise ArchiveError(f"the delta makes an archive with the digest {digest}: of another base")


def _copied(source: IO[bytes], target: IO[bytes], size_max: int) -> str:
    """Copy what comes, and return its SHA-256.

    Raises:
        ArchiveError: more comes than there may.

    """
    digest, size = hashlib.sha256(), 0
    while piece := source.read(_PIECE):
        size += len(piece)
        if size > size_max:
            raise ArchiveError(f"the delta makes more than the {size_max} bytes of the archive")
        digest.update(piece)
        target.write(piece)
    return digest.hexdigest()
