"""Small files of a state folder: read whole and right, or set aside, and never overwritten then.

A power cut, a failing card or another hand leaves files that are empty, cut, full of zeros, of
another version or of another program. Whoever reads one goes on without it then, and the log says
what is not known because of that. The file itself is renamed beside its place (`set_aside`).

A value that one flipped bit has made another value reads as well as the right one. So a file has a
check beside its content, in an extended attribute, which goes with it through a rename: an earlier
release reads the same content, and what it writes has no check. The check counts only while the
file has the time of its last change that stood there when it was written: another hand may write.

That a file was there at all is noted at the folder, likewise: one that is missing is told of, too.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgpack

from gateway.base import replaced_file

MAX_BYTES: Final = 64 << 20
"""More is no file of ours."""
READS: Final = 3
"""A disk that gives nothing is asked so often: it may fail once."""
MAX_ASIDE: Final = 8
"""Of one file, kept beside it: the oldest goes."""
_ASIDE: Final = ".damaged-"
_CHECK: Final = "user.hedgerow.check"
_THERE: Final = "user.hedgerow.there."
_MODE: Final = 0o600
_DAMAGE: Final = frozenset(
    (errno.EIO, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EBADMSG, errno.EUCLEAN)
)
"""The errors of reading where the file itself is at fault. Another error may pass, or is an
operator's to mend, as missing permissions are: then nothing is set aside."""
_NOT_DECODED: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    msgpack.UnpackException,
)

_log = logging.getLogger(__name__)

T = TypeVar("T")


class DamagedFileError(ValueError):
    """A file is there, and what it says can't be used.

    Args:
        path: where it stands; the message begins with it.
        why: what is wrong with it.
        data: its content, as far as it could be read.

    """

    def __init__(self, path: Path, why: str, data: bytes = b"") -> None:
        super().__init__(f"{path}: {why}")
        self.why = why
        self.data = data


class KeptFile:
    """One file that a gateway or collector keeps from one start to the next.

    Args:
        path: where it stands.
        without: what is not known without it, and who tells it again: for the log.
        is_durable: whether it is on the disk when it is written.

    """

    def __init__(self, path: Path, without: str, *, is_durable: bool = False) -> None:
        self.path = path
        self._without = without
        self._is_durable = is_durable

    def read(
        self, decode: Callable[[bytes], T], salvage: Callable[[bytes], T] | None = None
    ) -> T | None:
        """Return what the file says, or None where it says nothing that can be used.

        Args:
            decode: makes a value of its content, or raises an error of values.
            salvage: makes one of what is left of damaged content; for parts that prove themselves.

        Raises:
            OSError: it can't be read now, or set aside; nothing has changed, and it names the file.

        """
        try:
            return self.look(decode)
        except FileNotFoundError:
            self.miss()
            return None
        except DamagedFileError as damage:
            self.give_up(damage.why)
            return None if salvage is None else salvage(damage.data)

    def look(self, decode: Callable[[bytes], T]) -> T:
        """Return what the file says, and leave it where it is, whatever that is.

        Raises:
            FileNotFoundError: there is none.
            DamagedFileError: it says nothing that can be used.
            OSError: it can't be read now; it names the file.

        """
        data, is_right = self._read_again()
        if not data:
            raise DamagedFileError(self.path, "empty")
        if not is_right:
            raise DamagedFileError(self.path, "its content is not what was written", data)
        try:
            found = decode(data)
        except _NOT_DECODED as error:
            why = str(error) or type(error).__name__
            raise DamagedFileError(self.path, why, data) from error
        self.is_kept()
        return found

    def remove(self) -> None:
        """Delete the file, whose content counts no more.

        Raises:
            OSError: it can't be deleted.

        """
        self.path.unlink(missing_ok=True)
        _forget_there(self.path)

    def give_up(self, why: str) -> None:
        """Set the file aside, and say so.

        Raises:
            OSError: it can't be renamed.

        """
        aside = set_aside(self.path)
        _forget_there(self.path)
        _log.error("%s: %s; set aside as %s: %s", self.path, why, aside.name, self._without)

    def miss(self) -> None:
        """Say that the file is missing, if it ever was there."""
        if self.was_there():
            _forget_there(self.path)
            _log.error("%s: missing, and it was there: %s", self.path, self._without)

    def was_there(self) -> bool:
        """Return whether the file was ever read or written, as the folder has it."""
        try:
            return bool(os.getxattr(self.path.parent, _THERE + self.path.name))
        except OSError:
            return False

    def is_kept(self) -> None:
        """Note at the folder that the file is there."""
        if not self.was_there():
            with contextlib.suppress(OSError):
                os.setxattr(self.path.parent, _THERE + self.path.name, b"1")

    def write(self, data: bytes) -> None:
        """Write the file anew, as a whole.

        Raises:
            OSError: it can't be written; it names the file, and the old one stands.

        """
        replaced_file.replace(
            self.path, data, is_durable=self._is_durable, mode=_MODE, note=_check_of(data)
        )
        self.is_kept()

    def _read_again(self) -> tuple[bytes, bool]:
        left = READS
        while True:
            left -= 1
            try:
                return self._read()
            except OSError as error:
                if not is_at_fault(error):
                    raise
                if not left:
                    raise DamagedFileError(self.path, error.strerror or str(error)) from error

    def _read(self) -> tuple[bytes, bool]:
        """Return its content, and whether that is what was written, as far as it can be known."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with naming(self.path), os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_BYTES + 1)
            try:
                check = os.getxattr(descriptor, _CHECK)
            except OSError:  # of an earlier release, or of a disk that keeps none
                check = b""
            changed_ns = os.fstat(descriptor).st_mtime_ns
        checksum, _, written_ns = check.partition(b" ")
        is_ours = written_ns == b"%d" % changed_ns
        is_right = not is_ours or checksum == _checksum(data)
        return data, is_right and len(data) <= MAX_BYTES


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have an error of reading name the file: one of a file that is open does not.

    Raises:
        OSError: in place of one that names nothing, of the same kind.

    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def is_at_fault(error: OSError) -> bool:
    """Return whether a file itself is why it can't be read; another error may pass."""
    return error.errno in _DAMAGE


def set_aside(path: Path, *beside: str) -> Path:
    """Rename a file that can't be used, so that nobody overwrites it, and return its new path.

    Args:
        path: of the file; `MAX_ASIDE` of it are kept, then the oldest goes.
        beside: endings of further files that belong to it, and go with it where they are there.

    Raises:
        OSError: it can't be renamed.

    """
    there = _aside(path)
    for number in sorted(there)[: max(0, len(there) - MAX_ASIDE + 1)]:
        for old in (there[number], *(Path(f"{there[number]}{ending}") for ending in beside)):
            with contextlib.suppress(OSError):  # it may be a folder
                old.unlink(missing_ok=True)
    aside = path.with_name(f"{path.name}{_ASIDE}{max(there, default=0) + 1}")
    path.rename(aside)
    for ending in beside:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{aside}{ending}")
    return aside


def _aside(path: Path) -> dict[int, Path]:
    pattern = re.compile(re.escape(path.name + _ASIDE) + r"(\d{1,9})")
    found = ((pattern.fullmatch(each.name), each) for each in path.parent.iterdir())
    return {int(name[1]): each for name, each in found if name is not None}


def _checksum(data: bytes) -> bytes:
    return b"%08x" % zlib.crc32(data)


def _check_of(data: bytes) -> Callable[[int], None]:
    def note(descriptor: int) -> None:
        value = b"%s %d" % (_checksum(data), os.fstat(descriptor).st_mtime_ns)
        with contextlib.suppress(OSError):  # a disk that keeps none: then nothing is checked
            os.setxattr(descriptor, _CHECK, value)

    return note


def _forget_there(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.removexattr(path.parent, _THERE + path.name)
