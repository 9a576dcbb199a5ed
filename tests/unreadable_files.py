"""Files that can't be read for a while."""

from __future__ import annotations

from pathlib import Path

import pytest


class Unreadable:
    """Files whose name has an ending can't be read, so many times."""

    def __init__(self, patch: pytest.MonkeyPatch, ending: str, number: int, times: int) -> None:
        self.left = times
        read = Path.read_bytes

        def read_bytes(path: Path) -> bytes:
            if path.name.endswith(ending) and self.left:
                self.left -= 1
                raise OSError(number, "not now", str(path))
            return read(path)

        patch.setattr(Path, "read_bytes", read_bytes)
