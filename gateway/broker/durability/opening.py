"""Opens a broker's checkpoints, whatever has become of their file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from gateway.base.kept_file import set_aside
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import DamagedStoreError, Store

_WITHOUT: Final = "sessions and retained messages are known as far as the log tells them"

_log = logging.getLogger(__name__)


def open_store(
    path: Path, *, is_first: bool = True, retained_bytes: int | None = None
) -> tuple[Store, Checkpoint]:
    """Return a broker's checkpoints and the last of them, with no more than ``retained_bytes``
    retained.

    A damaged file is set aside and named in the log: what the log itself still tells is better
    than no start at all. So is one that is missing, unless this may be the first start.

    Raises:
        StoreError: it can't be opened or made.

    """
    if not is_first and not (path.exists() and path.stat().st_size):
        _log.error("%s: missing or empty: %s", path, _WITHOUT)
    try:
        store = Store(path)
        return store, store.load(retained_bytes)
    except DamagedStoreError as error:
        aside = set_aside(path, "-wal", "-shm")
        _log.error("%s; set aside as %s: %s", error, aside.name, _WITHOUT)
        return Store(path), Checkpoint()
