"""Files that can't be read for a while."""

from __future__ import annotations

import errno
import os
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


class Unopened:
    """Files of a name can't be opened: the process has no descriptor free, until `end`."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self.tries = 0
        self._is_over = False
        real = os.open

        def opened(path: Any, *more: Any, **options: Any) -> int:
            if Path(os.fsdecode(path)).name == name and not self._is_over:
                self.tries += 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
            return real(path, *more, **options)

        patch.setattr(os, "open", opened)

    def end(self) -> None:
        """They can be opened again."""
        self._is_over = True
