"""One life of a gateway: what its messages are numbered under, and what ends it."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from gateway.state_folder.identity import count_on_from
from tree_handler.rate_limit import RateLimit
from tree_handler.spanning import boot_epoch

AGAIN_S = 600.0
"""In this time a further life may end because of what neighbours say."""
AT_ONCE = 3
"""So many lives may end so without a wait."""

_log = logging.getLogger(__name__)


class Renewals:
    """Starts a gateway anew in its process, and not too often.

    Whoever lies about lives, or shares the id, could else keep it from ever serving. A claim that
    is true comes again with a later hello or summary, and until then this life's messages reach
    everybody all the same: nobody has seen its epoch before.

    Args:
        start_again: ends this life and begins the next.
        clock: in seconds; never goes back.

    """

    def __init__(
        self, start_again: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._start_again = start_again
        self._clock = clock
        self._rate = RateLimit(1 / AGAIN_S, AT_ONCE)

    def allow(self) -> bool:
        """Whether a life may end now, which is then counted."""
        return self._rate.allow("", self._clock())

    def start_again(self) -> None:
        """End this life and begin the next."""
        self._start_again()


class GatewayLife:
    """Lasts until the process ends, or until a neighbour knows of a later one.

    Args:
        state_dir: where starts are counted.
        epoch: the boot epoch of this start.
        renewals: starts the gateway anew.

    Attributes:
        epoch: as given.

    """

    def __init__(self, state_dir: Path, epoch: int, renewals: Renewals) -> None:
        self.epoch = epoch
        self._state_dir = state_dir
        self._is_over = False
        self._has_warned = False
        self._renewals = renewals

    def outlived(self, epoch: int) -> None:
        """Begin again behind a later life that a neighbour knows of: this disk is lost or restored.

        Others have messages under the numbers that this life would give to its own.

        Args:
            epoch: the later life's; nothing comes of one that is behind `MAX_BELIEVED`.

        Raises:
            OSError: the next start can't be counted; it names the file.

        """
        if epoch <= self.epoch or self._is_over:
            return
        if epoch > boot_epoch.MAX_BELIEVED:
            self._warn(epoch, "no gateway has started so often: not believed")
        elif not self._renewals.allow():
            self._warn(epoch, "again: a copied card, or a neighbour that lies? This one goes on")
        else:
            self._is_over = True
            begin = boot_epoch.behind(epoch, secrets.randbits(64))
            count_on_from(self._state_dir, begin - 1)
            _log.error("a neighbour knows boot %d of this gateway, which starts again", epoch)
            self._renewals.start_again()

    def _warn(self, epoch: int, what: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("a neighbour says that it knows boot %d of this gateway; %s", epoch, what)
