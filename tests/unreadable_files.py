"""Files that can't be read for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


class Unreadable:
    """Files whose name has an ending can't be read, so many times."""

    def __init__(self, patch: pytest.MonkeyPatch, ending: str, number: int, times: int) -> None:
        self.left = times
        real = Path.open

        def opened(path: Path, mode: str = "r", *more: Any, **options: Any) -> Any:
            if "r" in mode and path.name.endswith(ending) and self.left:
                self.left -= 1
                raise OSError(number, "not now", str(path))
            return real(path, mode, *more, **options)

        patch.setattr(Path, "open", opened)  # `Path.read_bytes` calls it too
