"""Where a running gateway listens, in its state folder: the command line finds it there."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway import replaced_file

NAME = "listeners.json"

_log = logging.getLogger(__name__)


def write(state_dir: Path, listeners: Mapping[str, Any]) -> None:
    """Tell; a reader sees all of it or nothing.

    Raises:
        OSError: the folder can't be written to.

    """
    replaced_file.replace(state_dir / NAME, json.dumps(listeners).encode())


def read(state_dir: Path) -> dict[str, Any]:
    """What a running gateway told.

    Raises:
        OSError: none runs.
        ValueError: the file is no JSON.

    """
    listeners: dict[str, Any] = json.loads((state_dir / NAME).read_text())
    return listeners


def remove(state_dir: Path) -> None:
    """Take it back at the end."""
    try:
        (state_dir / NAME).unlink(missing_ok=True)
    except OSError as error:  # a disk that has become read-only
        _log.warning("%s: %s", state_dir / NAME, error.strerror)
