"""An image that is chosen by its name from a folder of downloads."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.tools.flashing.errors import RefusalError

_IMAGE = re.compile(r"(?P<name>.+?)(?:\.img(?:\.xz|\.gz)?|\.zip)")
_MOST_NAMED = 20


def find(folder: Path, wanted: str) -> Path:
    """Find the one image that a name means.

    A whole name counts before a part of one, with or without what its packing ends it with.

    Args:
        folder: holds images, as ``.img``, ``.img.xz``, ``.img.gz`` or ``.zip``.
        wanted: a name, or a part of one; capitals don't matter.

    Raises:
        RefusalError: the folder can't be read, or none or several of its images have the name; the
            message tells which there are.

    """
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise RefusalError(f"--images: {folder}: {error.strerror or error}") from error
    found = {name: match["name"] for name in names if (match := _IMAGE.fullmatch(name.lower()))}
    if not found:
        raise RefusalError(f"--images: {folder}: no image in it (.img, .img.xz, .img.gz or .zip)")
    own = wanted.lower()
    meant = [name for name, bare in found.items() if own in (name.lower(), bare)]
    meant = meant or [name for name in found if own and own in name.lower()]
    if len(meant) == 1:
        return folder / meant[0]
    if meant:
        raise RefusalError(
            f"--image: {wanted!r} is the name of several, so give more of it: {_listed(meant)}"
        )
    raise RefusalError(f"--image: {wanted!r}: {folder} has {_listed([*found])}")


def _listed(names: list[str]) -> str:
    left_out = len(names) - _MOST_NAMED
    more = f" and {left_out} more" if left_out > 0 else ""
    return ", ".join(names[:_MOST_NAMED]) + more
