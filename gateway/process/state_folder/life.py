"""One life of a gateway: what its messages are numbered under, and what ends it."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from gateway.process.state_folder.identity import count_on_from
from tree_handler import boot_epoch
from tree_handler.rate_limit import RateLimit

AGAIN_S = 600.0
"""In this time a further life may end because of what neighbours say."""
RETRY_S = 30.0
"""After the next start could not be counted."""
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

    def are_over(self) -> bool:
        """Return whether too many lives have ended so, for now."""
        return self._rate.is_over("", self._clock())

    def start_again(self) -> None:
        """End this life, which is counted, and begin the next."""
        self._rate.count("", self._clock())
        self._start_again()


class GatewayLife:
    """Lasts until the process ends, or until a neighbour knows of a later one.

    Args:
        state_dir: where starts are counted.
        epoch: the boot epoch of this start.
        renewals: starts the gateway anew.
        later: calls something after so many seconds.

    Attributes:
        epoch: as given.

    """

    def __init__(
        self,
        state_dir: Path,
        epoch: int,
        renewals: Renewals,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.epoch = epoch
        self._later = later
        self._claimed = 0
        """The later life behind which the next start is still to be counted; 0 for none."""
        self._state_dir = state_dir
        self._is_over = False
        self._has_warned = False
        self._renewals = renewals

    def outlived(self, epoch: int) -> None:
        """Begin again behind a later life that a neighbour knows of: this disk is lost or restored.

        Others have messages under the numbers that this life would give to its own.

        Args:
            epoch: the later life's; nothing comes of one that is behind `MAX_BELIEVED`. Where the
                next start can't be counted, that is tried again.

        """
        if epoch <= self.epoch or self._is_over:
            return
        if epoch > boot_epoch.MAX_BELIEVED:
            self._warn(epoch, "no gateway has started so often: not believed")
        elif self._renewals.are_over():
            self._warn(epoch, "again: a copied card, or a neighbour that lies? This one goes on")
        elif self._claimed:
            self._claimed = max(epoch, self._claimed)
        else:
            self._begin_behind(epoch)

    def end(self) -> None:
        """Begin again behind nothing any more: the process ends."""
        self._is_over = True

    def _begin_behind(self, epoch: int) -> None:
        begin = boot_epoch.behind(epoch, secrets.randbits(64))
        try:
            count_on_from(self._state_dir, begin - 1)
        except OSError as error:
            what = (
                "a neighbour knows boot %d of this gateway, whose next start can't be counted: %s"
            )
            _log.error(what, epoch, error)
            self._claimed = epoch
            self._later(RETRY_S, self._try_again)
            return
        self._is_over = True
        _log.error("a neighbour knows boot %d of this gateway, which starts again", epoch)
        self._renewals.start_again()

    def _try_again(self) -> None:
        claimed, self._claimed = self._claimed, 0
        self.outlived(claimed)

    def _warn(self, epoch: int, what: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("a neighbour says that it knows boot %d of this gateway; %s", epoch, what)
