"""Packs a folder of wheels into one archive: the same wheels are the same bytes, on any controller.

    pack_wheels.py FOLDER ARCHIVE

What differs by time or by user would have each controller's archive be another one, and a delta
against it be of no use to a Pi that has the archive of another controller.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path


def packed(folder: Path, archive: Path) -> None:
    """Pack the wheels; an archive that is there is whole.

    Args:
        folder: of the wheels.
        archive: to write.

    """
    part = archive.with_name(f"{archive.name}.part")
    with tarfile.open(part, "w", format=tarfile.GNU_FORMAT) as made:
        for wheel in sorted(folder.glob("*.whl"), key=lambda path: path.name):
            member = tarfile.TarInfo(wheel.name)
            member.size = wheel.stat().st_size
            with wheel.open("rb") as file:
                made.addfile(member, file)
    part.rename(archive)


if __name__ == "__main__":
    packed(Path(sys.argv[1]), Path(sys.argv[2]))
