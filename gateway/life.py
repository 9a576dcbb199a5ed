"""One life of a gateway: what its messages are numbered under, and what ends it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from pathlib import Path

from gateway.identity import count_on_from
from tree_handler.spanning import boot_epoch

_log = logging.getLogger(__name__)


class GatewayLife:
    """Lasts until the process ends, or until a neighbour knows of a later one.

    Args:
        state_dir: where starts are counted.
        epoch: the boot epoch of this start.
        again: called when the gateway has to start anew, with a later boot epoch.

    Attributes:
        epoch: as given.

    """

    def __init__(self, state_dir: Path, epoch: int, again: Callable[[], None]) -> None:
        self.epoch = epoch
        self._state_dir = state_dir
        self._latest = epoch
        self._again = again

    def outlived(self, epoch: int) -> None:
        """Begin again behind a later life that a neighbour knows of: this disk is lost or restored.

        Others have messages under the numbers that this life would give to its own.

        Args:
            epoch: the later life's.

        Raises:
            OSError: the next start can't be counted; it names the file.

        """
        if epoch > self._latest:
            self._latest = epoch
            begin = boot_epoch.behind(epoch, secrets.randbits(64))
            count_on_from(self._state_dir, begin - 1)
            _log.error("a neighbour knows boot %d of this gateway, which starts again", epoch)
            self._again()
