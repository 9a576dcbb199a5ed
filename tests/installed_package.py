"""A package that stands on the path as pip would have installed it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(folder: Path, name: str, group: str, points: Mapping[str, str]) -> None:
    """Write what tells of an installed package; its modules are the caller's.

    Args:
        folder: that is to be on the path; it is made where it is not there.
        name: of the distribution.
        group: of its entry points.
        points: them, by name.

    """
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = (f"{point} = {value}\n" for point, value in points.items())
    (about / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}")
