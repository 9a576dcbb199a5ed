"""Rating of a machine: the verdict of `hedgerow bench`, kept for the status record.

The command keeps it as the file `NAME` in the state folder where it is asked to, and a gateway
looks there whenever it says how it is. A gateway needs nothing of it.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Final

from gateway.base import replaced_file
from light_dataclasses import dataclass

NAME: Final = "rating.json"
_MAX_BYTES: Final = 1024
_READABLE: Final = 0o644
"""By the gateway's user too, where root has measured."""
_MOST: Final = 2**63 - 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rating:
    """The most that a machine should be given; None where nobody has measured it.

    Attributes:
        rated_messages_per_s: of QoS 1, of all clients together.
        rated_clients: that are connected at the same time.

    """

    rated_messages_per_s: int | None = None
    rated_clients: int | None = None


class RatingFile:
    """The kept verdict of one machine.

    Args:
        state_dir: the folder that it stands in.

    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NAME
        self._refused: bytes | None = None

    def read(self) -> Rating:
        """Look now. It reads a file and may wait for it: not for the event loop."""
        try:
            with self._path.open("rb") as file:
                data = file.read(_MAX_BYTES)
        except OSError:  # nobody has kept one, or the disk says so elsewhere
            return Rating()
        try:
            return _parsed(data)
        except (ValueError, RecursionError) as error:
            if data != self._refused:
                _log.error(
                    "%s is not used: %s; `hedgerow bench --keep` writes it anew", self._path, error
                )
            self._refused = data
            return Rating()


def keep(state_dir: Path, rating: Rating) -> None:
    """Keep a verdict in place of the one before.

    Raises:
        OSError: it can't be written.

    """
    told = {
        "messages_per_s": rating.rated_messages_per_s,
        "clients": rating.rated_clients,
    }
    replaced_file.replace(
        state_dir / NAME,
        json.dumps(told).encode(),
        is_durable=True,
        note=lambda descriptor: os.fchmod(descriptor, _READABLE),
    )


def _parsed(data: bytes) -> Rating:
    told = json.loads(data)
    if not isinstance(told, dict):
        raise ValueError("it is no object")  # noqa: TRY004  # damaged
    return Rating(_count(told, "messages_per_s"), _count(told, "clients"))


def _count(told: dict[str, object], key: str) -> int:
    value = told.get(key)
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError(f"{key}: {value!r} is no count")
    return value
