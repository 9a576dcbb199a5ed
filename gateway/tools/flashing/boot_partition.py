"""Files on a FAT partition that is not mounted, by the programs of mtools.

They are told where the partition begins on the disk, so that neither the kernel nor root's rights
to mount are needed, and no desktop opens the card while it is being made.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from gateway.tools.flashing import needed_programs
from gateway.tools.flashing.errors import CardWriteError, ReadBackError

PROGRAMS = ("mcopy", "mdir", "mmd", "mtype", "mdel")
AUTOBOOT = "autoboot.txt"
"""On the first FAT partition it may name another one that a Pi starts from."""
_TIMEOUT_S = 600.0
_MOST_TEXT_BYTES = 1 << 20


def check_programs() -> None:
    """Check that mtools is there.

    Raises:
        RefusalError: it is not.

    """
    needed_programs.check(PROGRAMS, "mtools", brewed="mtools")


def autoboot_partition(text: str) -> int | None:
    """Return the partition that ``autoboot.txt`` has started, when it is not a try; None if none.

    Raspberry Pi documentation, autoboot.txt: sections are [all], [none] and [tryboot].
    """
    applies, found = True, None
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            applies = line == "[all]"
        elif applies and (value := re.fullmatch(r"boot_partition\s*=\s*(\d+)", line)):
            found = int(value[1])
    return found


class BootPartition:
    """The boot partition of a card.

    Args:
        card: the disk or the image's file.
        start_bytes: where it begins.

    """

    def __init__(self, card: Path, start_bytes: int) -> None:
        self._card = card
        self._drive = ("-i", f"{card}@@{start_bytes}")

    def names(self) -> set[str]:
        """Return the names in its first folder, in lower case.

        Raises:
            CardWriteError: it can't be read.

        """
        listed = self._run("mdir", ["-b", "-a", *self._drive, "::/"]).decode("utf-8", "replace")
        lines = (line.removeprefix("::/").rstrip("/").lower() for line in listed.splitlines())
        return {line for line in lines if line}

    def free_bytes(self) -> int:
        """Return how much more goes onto it.

        Raises:
            CardWriteError: it can't be read.

        """
        listed = self._run("mdir", ["-a", *self._drive, "::/"]).decode("utf-8", "replace")
        found = re.search(r"([\d ]+) bytes free", listed)
        if found is None:
            raise CardWriteError(f"{self._card}: mdir does not say what is free")
        return int(found[1].replace(" ", ""))

    def read_text(self, name: str) -> str:
        """Return a small file of text.

        Raises:
            CardWriteError: it can't be read.

        """
        data = self._run("mtype", [*self._drive, f"::/{name}"])
        return data[:_MOST_TEXT_BYTES].decode("utf-8", "replace")

    def make_folders(self, names: Iterable[str]) -> None:
        """Make the folders of files.

        Raises:
            CardWriteError: one can't be made.

        """
        made: set[str] = set()
        for name in names:
            for folder in reversed(PurePosixPath(name).parents[:-1]):
                if str(folder) not in made:
                    made.add(str(folder))
                    self._run("mmd", ["-D", "s", *self._drive, f"::/{folder}"])

    def write(self, name: str, data: bytes) -> None:
        """Write a file; one of that name is replaced. It passes by no other file of this machine.

        Raises:
            CardWriteError: it can't be written.

        """
        self._run("mcopy", ["-D", "o", "-o", *self._drive, "-", f"::/{name}"], data)

    def copy(self, name: str, source: Path) -> None:
        """Copy a large file.

        Raises:
            CardWriteError: it can't be read or written.

        """
        self._run("mcopy", ["-D", "o", "-o", *self._drive, str(source), f"::/{name}"])

    def verify(self, name: str, sha256: str) -> None:
        """Read a file back.

        Raises:
            ReadBackError: it is another one.
            CardWriteError: it can't be read.

        """
        data = self._run("mtype", [*self._drive, f"::/{name}"])
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ReadBackError(f"{self._card}: {name} was read back differently")

    def _run(self, program: str, arguments: Sequence[str], data: bytes = b"") -> bytes:
        # The caller's own settings of mtools don't count; the check is one of floppy disks.
        environment = {
            **os.environ,
            "MTOOLSRC": os.devnull,
            "MTOOLS_SKIP_CHECK": "1",
            "LC_ALL": "C.UTF-8",
        }
        try:
            done = subprocess.run(  # noqa: S603  # fixed programs, without a shell
                (program, *arguments),
                input=data,
                capture_output=True,
                check=False,
                timeout=_TIMEOUT_S,
                env=environment,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CardWriteError(f"{self._card}: {program}: {error}") from error
        if done.returncode != 0:
            why = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise CardWriteError(f"{self._card}: boot partition: {program}: {why or 'failed'}")
        return done.stdout
