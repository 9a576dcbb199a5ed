"""The file of routed mode: what of the log need not be read again at a start."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgpack

from gateway.base.kept_file import KeptFile
from tree_handler.routing.interest import Interest

FILE_NAME: Final = "routed.msgpack"
"""In the state folder."""
VERSION: Final = 2
"""Of that file; 1 did not say who is away."""
NOWHERE: Final = -1
"""Stands for the place in the log where there is none as of which all that is saved is so."""
_WITHOUT: Final = "who wants what, and what is owed to others, is known as far as the log tells it"

SavedRouting = tuple[int, list[Interest], list[Any], list[Any]]
"""A place in the log, and as of there: records, accounts, and who is away."""

_log = logging.getLogger(__name__)


class RoutedFile:
    """Keeps what routed mode knows as of a place in the log.

    Args:
        folder: the state folder.

    """

    def __init__(self, folder: Path) -> None:
        self._file = KeptFile(folder / FILE_NAME, _WITHOUT)

    def read(self) -> SavedRouting | None:
        """Return what it says; None if it is missing or was set aside.

        Raises:
            OSError: it can't be read now.

        """
        return self._file.read(_known)

    def write(
        self, position: int, records: Iterable[Interest], accounts: list[Any], away: list[Any]
    ) -> None:
        """Keep what is known; what can't be written is told."""
        rows = [record.encode() for record in records]
        try:
            self._file.write(msgpack.packb([VERSION, position, rows, accounts, away]))
        except OSError as error:
            _log.error("what is owed is not kept, so the next start reads the log: %s", error)


def _known(data: bytes) -> SavedRouting:
    version, position, records, accounts, *rest = msgpack.unpackb(data)
    if version not in (1, VERSION) or len(rest) != version - 1:
        raise ValueError(f"version {version!r}, not {VERSION}")
    (away,) = rest or ([],)
    interests = [Interest.decode(record) for record in records]
    left = [(str(gateway), int(away_s), int(left_at)) for gateway, away_s, left_at in away]
    return int(position), interests, _accounts(accounts), left


def _accounts(rows: Iterable[Any]) -> list[Any]:
    """Return what `Accounts.load` takes up, with the right types."""
    return [
        (
            int(epoch),
            int(last),
            [
                (str(to), int(covered), [(int(a), int(b)) for a, b in wanted])
                for to, covered, wanted in accounts
            ],
        )
        for epoch, last, accounts in rows
    ]
