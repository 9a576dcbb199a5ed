"""Unpacks an archive into a scratch folder, and has its gateway start there in another process."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gateway.backups import contents
from gateway.backups.contents import Contents, RestoreError
from gateway.base.printable import printable
from light_dataclasses import dataclass

START_S: Final = 600.0
"""A gateway that has not started, answered and ended within these would not serve."""
_LAST_CHARACTERS: Final = 300
_MOST_RESULT: Final = 1 << 20
_CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result of starting a backup.

    Attributes:
        problems: why the backup would not serve; none if it would.
        remarks: what is damaged in it, and is left out by the gateway.
        holds: counts of what it has, by name.

    """

    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    holds: Mapping[str, int] = field(default_factory=dict)


def rehearse(archive: Path, found: Contents, scratch: Path, limit_s: float = START_S) -> Rehearsal:
    """Unpack an archive that was surveyed, start its gateway alone, and say what came of it.

    Args:
        archive: in plain.
        found: what the survey has found.
        scratch: an empty folder, which is left full.
        limit_s: within which the gateway has to have started, answered and ended.

    Raises:
        RestoreError: the archive has changed since, or nothing can be told of the start.
        OSError: the folder can't be written.

    """
    config, state = scratch / "config", scratch / "state"
    for folder in (config, state):
        folder.mkdir(mode=0o700)
    contents.extract(archive, set(found.encrypted), config, state)
    _stand_in(config, found)
    request = {
        "config": str(found.config),
        "state": str(found.state),
        "config_here": str(config),
        "state_here": str(state),
        "encrypted": list(found.encrypted),
    }
    return _started(json.dumps(request), limit_s)


def _stand_in(config: Path, found: Contents) -> None:
    """Give the tree a key of its own, where nobody here opens the backup's."""
    document = tomllib.loads((config / contents.CONFIG_FILE).read_text())
    tree = document.get("tree")
    key = PurePosixPath(str(tree.get("key_file", ""))) if isinstance(tree, dict) else None
    if key is not None and key.name in found.encrypted:
        (config / key.name).write_text(secrets.token_hex(32))
        (config / key.name).chmod(0o600)


def _started(request: str, limit_s: float) -> Rehearsal:
    # A credential of this process is not one of the backup's.
    environment = {key: value for key, value in os.environ.items() if key != _CREDENTIALS}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gateway.tools.rehearsal"],
            input=request,
            capture_output=True,
            text=True,
            env=environment,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Rehearsal((f"its gateway did not start and answer within {limit_s:g} s",))
    try:
        told: dict[str, Any] = json.loads(done.stdout[:_MOST_RESULT])
        return Rehearsal(
            tuple(map(printable, told.get("problems", ()))),
            tuple(map(printable, told.get("remarks", ()))),
            told.get("holds", {}),
        )
    except ValueError as error:
        lines = done.stderr.strip().splitlines()
        why = lines[-1][-_LAST_CHARACTERS:] if lines else f"it ended with {done.returncode}"
        raise RestoreError(f"the start of its gateway failed: {printable(why)}") from error
