"""Small files that are written anew as a whole."""

from __future__ import annotations

from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees the old or the new one, never a part.

    Raises:
        OSError: it can't be written; the old one stands.

    """
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    fresh.rename(path)
